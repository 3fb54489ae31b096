"""Compile a .cu of tests/data/emulator for the CPU and call its launchers with numpy arrays."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
from places import TESTS

from gates.emulator.control import Emulator
from gates.emulator.cpu.build import task_library

DATA = TESTS / "data" / "emulator"
ORDERS = ("forward", "reversed", "shuffled")


class Emulated:
    """A loaded library for the emulator; ``findings`` and ``launches`` are of the last ``run``."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self.emulator = Emulator(self._library)
        self.emulator.look_for_races()
        self.findings: list[dict[str, Any]] = []
        self.launches: list[dict[str, Any]] = []

    def run(self, name: str, *arguments: Any, order: str = "forward", seed: int = 0) -> int:
        """Call launcher ``name`` on copies of the arrays, which come back; the launcher's status, or the error that a launch left."""
        emulator = self.emulator
        emulator.prepare(order, seed)
        places = [emulator.allocate(value.nbytes) if isinstance(value, np.ndarray) else None for value in arguments]
        for value, place in zip(arguments, places, strict=True):
            if place is not None:
                emulator.write(place, value.ctypes.data, value.nbytes)
        given = [_as_c(value) if place is None else ctypes.c_void_p(place) for value, place in zip(arguments, places, strict=True)]
        status = getattr(self._library, name)(*given) or bool(emulator.error())
        self.launches, self.findings = emulator.collect()
        for value, place in zip(arguments, places, strict=True):
            if place is not None:
                emulator.read(place, value.ctypes.data, value.nbytes)
                emulator.free(place)
        return status

    def kinds(self) -> list[str]:
        """The kind of each finding of the last run."""
        return [finding["kind"] for finding in self.findings]


def _as_c(value: Any) -> Any:
    return ctypes.c_float(value) if isinstance(value, float) else value


def emulated(source: str, folder: Path) -> Emulated:
    """The library of tests/data/emulator/``source``, compiled into ``folder``."""
    return Emulated(task_library([DATA / source], folder / f"{Path(source).stem}.so"))
