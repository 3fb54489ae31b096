"""Stands for a CUDA device in Numba-CUDA: kernels are compiled to PTX as for that device, and the emulator executes the PTX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gates.emulator import numba_alone
from gates.emulator.control import Emulator
from gates.emulator.copies import copied
from gates.hardware.chips import Chip


class NumbaDevice:
    """``emulator`` as the only device, of the kind ``chip``. ``use`` makes it Numba's own."""

    def __init__(self, emulator: Emulator, chip: Chip) -> None:
        self._emulator, self._chip = emulator, chip
        self._modules: dict[Any, int] = {}  # by Numba's compiled kernel

    def use(self) -> None:
        """Have everything that Numba launches from now on run here. Raises NotHere if numba-cuda does not work."""
        numba_alone.use(lambda: self._chip.number, self._launch)

    def _launch(self, kernel: Any, values: Sequence[Any], grid: Sequence[int], block: Sequence[int], shared_bytes: int) -> None:
        if kernel not in self._modules:
            self._modules[kernel] = self._emulator.load(numba_alone.ptx_of(kernel, self._chip.number))
        with copied(self._emulator) as memory:
            given = numba_alone.parameters(kernel, values, memory.place_of)
            self._emulator.launch(self._modules[kernel], numba_alone.name_of(kernel), grid, block, given, shared_bytes)
