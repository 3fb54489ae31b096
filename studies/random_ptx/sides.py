"""Where random programs run: the CPU device of this process, and a CUDA device through the driver's own interface."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gates.core.errors import GatesError
from gates.emulator.cpu.loading import CpuDevice, PtxModule
from gates.launch.memory import DeviceMemory
from random_ptx.instructions import PLACE_BYTES
from random_ptx.programs import RECORD_BYTES, THREADS


def on_cpu(text: str, names: Sequence[str], records: np.ndarray, block: int = THREADS) -> np.ndarray:
    """The records after each kernel, (kernels, threads, RECORD_BYTES). Raises GatesError with what the CPU device lacks or found."""
    cpu = CpuDevice()
    cpu.configure(races=0, threads=1, time_limit_ms=60000, seed=0)
    cpu.reset()
    module, results = PtxModule(cpu, text), []
    for index, name in enumerate(names):
        given, out = cpu.array(records[index]), cpu.empty((THREADS, RECORD_BYTES), np.uint8)
        places = cpu.empty((THREADS, PLACE_BYTES), np.uint8)
        try:
            module.launch(name, (THREADS // block,), (block,), given, out, places)
            results.append(out.get())
        except GatesError as error:
            raise GatesError(f"{name} on the CPU device: {error.what}; {[found.message for found in cpu.findings()]}") from None
        finally:
            for array in (given, out, places):
                array.free()
    if found := cpu.findings():
        raise GatesError(f"the CPU device found {found[0].code} in {found[0].kernel}: {found[0].message}")
    return np.stack(results)


def assembled(ptxas: str, arch: str, text: str) -> bytes:
    """The machine code of ``text``. Raises GatesError with ptxas's errors."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "module.ptx"), Path(folder, "module.cubin")
        source.write_text(text, encoding="ascii")
        done = subprocess.run([ptxas, f"-arch={arch}", str(source), "-o", str(made)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise GatesError(f"ptxas ended with {done.returncode}: {(done.stderr + done.stdout)[:1000]}")
        return made.read_bytes()


class Card:
    """CUDA device 0. Raises GatesError if there is none."""

    def __init__(self) -> None:
        self._memory = DeviceMemory(0)
        self._driver = ctypes.CDLL("libcuda.so.1")

    def run(self, cubin: bytes, names: Sequence[str], records: np.ndarray) -> np.ndarray:
        """The records after each kernel of ``cubin``, as ``on_cpu`` gives them."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        out = ctypes.c_uint64(self._memory.allocate(bytes(records.nbytes)))
        given = ctypes.c_uint64(self._memory.allocate(records.tobytes()))
        places = ctypes.c_uint64(self._memory.allocate(bytes(THREADS * PLACE_BYTES)))
        self._memory.settle()
        self._do("cuModuleLoadData", ctypes.byref(module), cubin)
        for index, name in enumerate(names):
            self._do("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
            at = [ctypes.c_uint64(buffer.value + index * THREADS * RECORD_BYTES) for buffer in (given, out)] + [places]
            arguments = (ctypes.c_void_p * 3)(*(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in at))
            self._do("cuLaunchKernel", function, 1, 1, 1, THREADS, 1, 1, 0, None, arguments, None)
        if text := self._memory.synchronize():
            raise GatesError(f"the device: {text}")
        results = np.frombuffer(self._memory.read(out.value, records.nbytes), np.uint8).reshape(records.shape)
        self._do("cuModuleUnload", module)
        for buffer in (given, out, places):
            self._do("cuMemFree_v2", buffer)
        return results

    def _do(self, name: str, *arguments: Any) -> None:
        if code := getattr(self._driver, name)(*arguments):
            raise GatesError(f"{name}: CUDA error {code}")
