"""Memory for a replayed case, one allocation a buffer, through ctypes alone.

A tool that checks bounds sees each buffer with its exact size: the emulator, and compute-sanitizer by the driver's functions.
"""

from __future__ import annotations

import ctypes
from typing import Any

from gates.core.errors import EXIT_HOLD, GatesError
from gates.emulator.control import Emulator

_ALIGN_BYTES = 256
_SPACER_BYTES = 4096


class EmulatorMemory:
    """Buffers on the emulator, which knows their bounds and what has been written."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator

    def allocate(self, content: bytes, *, written: bool = True) -> int:
        """The address of a new buffer of ``len(content)`` bytes, which holds ``content`` if it is ``written``."""
        pointer = self._emulator.allocate(len(content))
        if written:
            self._emulator.write(pointer, ctypes.cast(ctypes.c_char_p(content), ctypes.c_void_p).value or 0, len(content))
        return pointer

    def read(self, pointer: int, size: int) -> bytes:
        """The bytes of a buffer."""
        room = ctypes.create_string_buffer(size)
        self._emulator.read(pointer, ctypes.addressof(room), size)
        return room.raw

    def settle(self) -> None:
        """Nothing to do before the launches."""

    def synchronize(self) -> str:
        """What a launch left as an error; empty if all went well."""
        return self._emulator.error()

    def flush(self, size: int) -> None:
        """There is no cache to flush."""

    def window(self, opened: bool) -> None:
        """There is no profiler."""


class TorchMemory:
    """Of a function without a device, whose buffers are torch's."""

    def settle(self) -> None:
        """Nothing to do before the launches."""

    def synchronize(self) -> str:
        """Nothing to wait for."""
        return ""

    def flush(self, size: int) -> None:
        """There is no cache to flush."""

    def window(self, opened: bool) -> None:
        """There is no profiler."""


class DeviceMemory:
    """Buffers on CUDA device ``ordinal``, in its primary context, through the driver's own interface."""

    def __init__(self, ordinal: int) -> None:
        try:
            self._cuda = ctypes.CDLL("libcuda.so.1")
        except OSError:
            raise GatesError("no CUDA driver: libcuda.so.1 is not found", exit_code=EXIT_HOLD) from None
        device, self._context = ctypes.c_int(), ctypes.c_void_p()
        self._do("cuInit", 0)
        self._do("cuDeviceGet", ctypes.byref(device), ordinal)
        self._do("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self._do("cuCtxSetCurrent", self._context)
        self._spacers: list[ctypes.c_uint64] = []
        self._scratch: tuple[ctypes.c_uint64, int] | None = None

    def allocate(self, content: bytes, *, written: bool = True) -> int:  # its checkers see what a kernel reads of it either way
        """The device address of a new buffer that holds ``content``.

        Behind it lies a spacer that ``settle`` frees again, so that the byte after the buffer
        belongs to nobody.
        """
        pointer = self._new(max(1, len(content)))
        self._spacers.append(self._new(_SPACER_BYTES))
        if content:
            self._do("cuMemcpyHtoD_v2", pointer, content, ctypes.c_size_t(len(content)))
        return pointer.value

    def settle(self) -> None:
        """Free the spacers and wait for all copies."""
        for spacer in self._spacers:
            self._do("cuMemFree_v2", spacer)
        self._spacers.clear()
        self._do("cuCtxSynchronize")

    def read(self, pointer: int, size: int) -> bytes:
        """The bytes of a buffer."""
        room = ctypes.create_string_buffer(size)
        self._do("cuMemcpyDtoH_v2", room, ctypes.c_uint64(pointer), ctypes.c_size_t(size))
        return room.raw

    def synchronize(self) -> str:
        """Wait for the device; the driver's error text, empty if all went well."""
        return self._error(self._cuda.cuCtxSynchronize())

    def flush(self, size: int) -> None:
        """Overwrite ``size`` bytes of scratch memory, so that no buffer is left in L2."""
        if self._scratch is None:
            self._scratch = self._new(size), size
        self._do("cuMemsetD8_v2", self._scratch[0], ctypes.c_ubyte(0), ctypes.c_size_t(self._scratch[1]))
        self._do("cuCtxSynchronize")

    def window(self, opened: bool) -> None:
        """Open or close the profiler's capture window."""
        self._do("cuProfilerStart" if opened else "cuProfilerStop")

    def _new(self, size: int) -> ctypes.c_uint64:
        pointer = ctypes.c_uint64()
        self._do("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def _do(self, name: str, *arguments: Any) -> None:
        if text := self._error(getattr(self._cuda, name)(*arguments)):
            raise GatesError(f"{name}: {text}", exit_code=EXIT_HOLD)

    def _error(self, code: int) -> str:
        if code == 0:
            return ""
        text = ctypes.c_char_p()
        self._cuda.cuGetErrorString(code, ctypes.byref(text))
        return text.value.decode() if text.value else f"CUDA error {code}"
