"""Tensors of the CPU in an emulated launch: the memory behind each is copied to the emulator's before it, and back after it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from gates.emulator.control import Emulator


@contextlib.contextmanager
def copied(emulator: Emulator) -> Iterator[Copies]:
    """Copy what a launch inside this context needs, and copy it back if the launch succeeds. Raises RuntimeError with its error."""
    memory = Copies(emulator)
    try:
        yield memory
        if failed := emulator.error():
            raise RuntimeError(failed)
        memory.bring_back()
    finally:
        memory.free()


class Copies:
    """The emulator's copies of the memory behind tensors, for one launch: tensors that share it share the copy."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._held: dict[int, tuple[int, int]] = {}  # where it is on the host: its bytes, where the copy is
        self._scratch: list[int] = []

    def place_of(self, tensor: Any) -> int:
        """The address of a tensor's first element in the copy."""
        memory = tensor.untyped_storage()
        begin, size = memory.data_ptr(), memory.nbytes()
        if begin not in self._held:
            self._held[begin] = size, self._emulator.allocate(size)
            self._emulator.write(self._held[begin][1], begin, size)
        return int(self._held[begin][1] + tensor.data_ptr() - begin)

    def scratch(self, size: int) -> int:
        """The address of ``size`` bytes that nothing has written."""
        self._scratch.append(self._emulator.allocate(size))
        return self._scratch[-1]

    def bring_back(self) -> None:
        for begin, (size, place) in self._held.items():
            self._emulator.read(place, begin, size)

    def free(self) -> None:
        for place in (*self._scratch, *(place for _, place in self._held.values())):
            self._emulator.free(place)
