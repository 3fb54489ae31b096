"""Stands for a CUDA device in Numba-CUDA or Warp: kernels are compiled to PTX as for that device, and the emulator executes the PTX."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from gates.emulator.control import Emulator
from gates.emulator.copies import copied
from gates.hardware.chips import Chip


class JitDevice:
    """``emulator`` as the only device, of the kind ``chip``. ``use`` makes it the language's own.

    ``alone`` is the language without a driver: ``numba_alone`` or ``warp_alone``.
    """

    def __init__(self, alone: ModuleType, emulator: Emulator, chip: Chip) -> None:
        self._alone, self._emulator, self._chip = alone, emulator, chip
        self._modules: dict[Any, int] = {}  # by the language's kernel

    def use(self) -> None:
        """Have everything that the language launches from now on run here. Raises NotHere if the language does not work."""
        self._alone.use(lambda: self._chip.number, self._launch)

    def _launch(self, kernel: Any, values: Sequence[Any], grid: Sequence[int], block: Sequence[int], shared_bytes: int) -> None:
        if kernel not in self._modules:
            self._modules[kernel] = self._emulator.load(self._alone.ptx_of(kernel, self._chip.number))
        with copied(self._emulator) as memory:
            given = self._alone.parameters(kernel, values, memory.place_of)
            self._emulator.launch(self._modules[kernel], self._alone.name_of(kernel), grid, block, given, shared_bytes)
