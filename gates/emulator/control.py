"""The control functions that an emulator library exports beside its launcher."""

from __future__ import annotations

import ctypes
import json
from typing import Any

from gates.core.errors import GatesError
from gates.hardware.chips import Chip

ORDERS = {"forward": 0, "reversed": 1, "shuffled": 2}
# What unwritten memory holds in each order: 0xFF bytes (NaN, -1), zeros, random bytes. Whatever a kernel makes
# of values that it never wrote, two of them rarely give the same, and the bitwise repeat shows the difference.
POISONS = {"forward": 0xFF, "shuffled": 0x00, "reversed": 256}


class Emulator:
    """Control of one loaded emulator library; raises GatesError for a library that is none."""

    def __init__(self, library: ctypes.CDLL) -> None:
        for name in ("launches", "findings", "reset", "configure"):
            if not hasattr(library, f"gates_emulator_{name}"):
                raise GatesError(f"{library._name} is not an emulator library: it lacks gates_emulator_{name}")
        self._library = library
        self._launches, self._findings = library.gates_emulator_launches, library.gates_emulator_findings
        self._launches.restype = self._findings.restype = ctypes.c_char_p
        self._reset, self._configure = library.gates_emulator_reset, library.gates_emulator_configure
        self._reset.restype = None

    def prepare(self, order: str, seed: int, memory: str | None = None) -> None:
        """Clear what earlier launches left and choose the thread order of the next ones, and with it what unwritten memory holds.

        ``memory`` names the order whose pattern it holds, where it is another.
        """
        self._reset()
        self._configure(b"order", ctypes.c_int64(ORDERS[order]))
        self._configure(b"seed", ctypes.c_int64(seed))
        self._configure(b"poison", ctypes.c_int64(POISONS[memory or order]))

    def record_alone(self, chip: Chip) -> None:
        """From now on say to be ``chip``, and record launches without running their blocks."""
        settings = {"shared_limit_bytes": chip.smem_per_cta, "compute_capability": chip.number, "launches_only": 1}
        for key, value in settings.items():
            if self._configure(key.encode(), ctypes.c_int64(value)) != 0:
                raise GatesError(f"the emulator library does not take {key} {value}", hint="build it again")

    def left_out(self) -> int:
        """How many launches were not recorded, since the host had read results of those that were recorded alone."""
        return int(self._library.gates_emulator_launches_left_out())

    def collect(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Launches and findings since ``prepare``, as the emulator's own JSON has them."""
        launches, findings = self._launches() or b"[]", self._findings() or b"[]"
        return json.loads(launches.decode(errors="replace")), json.loads(findings.decode(errors="replace"))
