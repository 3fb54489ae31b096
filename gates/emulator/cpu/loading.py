"""The CPU device in this process: its memory, kernels' libraries, PTX without a library, and what it found."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gates.core.errors import GatesError
from gates.emulator.control import Emulator
from gates.emulator.cpu import records
from gates.emulator.cpu.build import runtime_library

_ERROR_BYTES = 1024


class DeviceArray:
    """An array in the CPU device's memory, which the host can't touch but by copies."""

    def __init__(self, device: CpuDevice, shape: Sequence[int], dtype: Any) -> None:
        self._device, self.shape, self.dtype = device, tuple(shape), np.dtype(dtype)
        self.nbytes = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        self.address = device.allocate(self.nbytes)

    def set(self, values: np.ndarray) -> DeviceArray:
        """Copy ``values`` in; their type and number must fit."""
        values = np.ascontiguousarray(values, dtype=self.dtype)
        if values.nbytes != self.nbytes:
            raise GatesError(f"{values.nbytes} bytes do not fit an array of {self.nbytes}")
        self._device.write(self.address, values.ctypes.data, self.nbytes)
        return self

    def get(self) -> np.ndarray:
        """A copy on the host. Raises GatesError if a kernel failed before."""
        values = np.empty(self.shape, self.dtype)
        self._device.read(self.address, values.ctypes.data, self.nbytes)
        return values

    def protect(self) -> DeviceArray:
        """From now on a kernel that writes here is a finding: an input that it must leave alone."""
        self._device.library.gates_cpu_protect(ctypes.c_uint64(self.address), ctypes.c_uint64(self.nbytes))
        return self

    def forget(self, pattern: int) -> DeviceArray:
        """From now on nothing has written it, and each of its bytes is ``pattern``: an output before one more call at the same place."""
        self._device.library.gates_cpu_forget(ctypes.c_uint64(self.address), ctypes.c_uint64(self.nbytes), pattern)
        return self

    def free(self) -> None:
        """Give the memory back."""
        self._device.free(self.address)


class CpuDevice(Emulator):
    """The runtime's library by itself, with arrays. There is one device a process: all instances share it."""

    def __init__(self) -> None:
        super().__init__(ctypes.CDLL(str(runtime_library())))

    def empty(self, shape: Sequence[int], dtype: Any) -> DeviceArray:
        """An array whose bytes nothing has written."""
        return DeviceArray(self, shape, dtype)

    def array(self, values: np.ndarray) -> DeviceArray:
        """A copy of ``values`` on the device."""
        return self.empty(values.shape, values.dtype).set(values)

    def reset(self) -> None:
        """Forget launches, findings, and an error that would stay."""
        self.library.gates_cpu_reset()

    def findings(self) -> tuple[records.Finding, ...]:
        """Since the last reset."""
        return records.findings(self.library.gates_cpu_findings().decode(errors="replace"))

    def launches(self) -> tuple[records.LaunchRecord, ...]:
        """Since the last reset."""
        return records.launches(self.library.gates_cpu_launches().decode(errors="replace"))

    def executed(self) -> tuple[int, float]:
        """Warp instructions since the last reset, and the seconds that they took."""
        return self.library.gates_cpu_executed(), self.library.gates_cpu_executed_s()


class Launcher:
    """A C launcher of a kernel's library: ``int ENTRY(<arguments>, void* stream, char* error, int64_t error_bytes)``."""

    def __init__(self, library: Path, entry: str) -> None:
        try:
            self._function = getattr(ctypes.CDLL(str(library)), entry)
        except OSError as error:
            raise GatesError(f"can't load {library}: {error}", hint="name all sources that define its functions") from None
        except AttributeError:
            raise GatesError(f"{library} has no function {entry}", hint='declare the launcher extern "C"') from None

    def __call__(self, *arguments: DeviceArray | int | float | None) -> None:
        """Arrays go as pointers, whole numbers as int64, floats as float. Raises GatesError with the launcher's refusal."""
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        code = self._function(*map(_as_c, arguments), ctypes.c_void_p(None), error, ctypes.c_int64(_ERROR_BYTES))
        if code != 0:
            raise GatesError(f"the launcher returned {code}: {error.value.decode(errors='replace')}")


class PtxModule:
    """Kernels of PTX text."""

    def __init__(self, device: CpuDevice, text: str) -> None:
        self._device = device
        self._module = device.load(text)

    def launch(
        self, kernel: str, grid: Sequence[int], block: Sequence[int], *arguments: DeviceArray | int | float, smem_bytes: int = 0
    ) -> None:
        """Launch by name. Raises GatesError with the runtime's error; findings say more."""
        values = [argument.address if isinstance(argument, DeviceArray) else argument for argument in arguments]
        self._device.check(self._device.launch(self._module, kernel, grid, block, values, smem_bytes), kernel)


def _as_c(value: DeviceArray | int | float | None) -> Any:
    if isinstance(value, DeviceArray):
        return ctypes.c_void_p(value.address)
    if value is None:
        return ctypes.c_void_p(None)
    return ctypes.c_float(value) if isinstance(value, float) else ctypes.c_int64(value)
