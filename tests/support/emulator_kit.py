"""Compile a .cu of tests/data/emulator for the CPU and call its launchers with numpy arrays."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Any

import numpy as np
from places import TESTS

from gates.emulator.library import compile_library

DATA = TESTS / "data" / "emulator"
FORWARD, REVERSED, SHUFFLED = 0, 1, 2


class Emulated:
    """A loaded emulator library; ``run(name, …)`` calls a launcher after a reset."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        for name in ("gates_emulator_launches", "gates_emulator_findings"):
            getattr(self.library, name).restype = ctypes.c_char_p

    def configure(self, key: str, value: int) -> int:
        """What gates_emulator_configure returns: 0 if the key is known and the value valid."""
        return self.library.gates_emulator_configure(key.encode(), ctypes.c_int64(value))

    def launches(self) -> list[dict[str, Any]]:
        """Records of the launches since the last reset."""
        return json.loads(self.library.gates_emulator_launches())

    def findings(self) -> list[dict[str, Any]]:
        """Findings since the last reset."""
        return json.loads(self.library.gates_emulator_findings())

    def reset(self) -> None:
        """Forget launches, findings and the sticky error."""
        self.library.gates_emulator_reset()

    def run(self, name: str, *arguments: Any, order: int = FORWARD, seed: int = 0) -> int:
        """Call launcher ``name``; arrays are passed by address, integers as int, floats as float."""
        self.configure("order", order)
        self.configure("seed", seed)
        self.reset()
        return self.call(name, *arguments)

    def call(self, name: str, *arguments: Any) -> int:
        """The same without a reset."""
        return getattr(self.library, name)(*(_as_c(argument) for argument in arguments))


def _as_c(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_float(value) if isinstance(value, float) else value


def line_of(source: str, text: str) -> str:
    """``<path as compiled>:<line>`` of the line of a test source that contains ``text``."""
    path = DATA / source
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if text in line:
            return f"{path}:{number}"
    raise AssertionError(f"{source} has no line with {text!r}")


def aligned(count: int, dtype: Any, alignment: int = 64) -> np.ndarray:
    """Zeros whose address is a multiple of ``alignment`` bytes."""
    size = np.dtype(dtype).itemsize
    raw = np.zeros(count * size + alignment, dtype=np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + count * size].view(dtype)


def emulated(source: str, folder: Path) -> Emulated:
    """The library of tests/data/emulator/``source``, compiled into ``folder``."""
    stem = Path(source).stem
    return Emulated(compile_library([DATA / source], folder / f"{stem}.so", work_dir=folder / stem))
