"""Build the conformance sources and call their launchers, on a device or on the emulator."""

from __future__ import annotations

import ctypes
import hashlib
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from conformance.catalogue import Item, Values
from conformance.kernels import FILL

from gates.emulator.control import Emulator
from gates.emulator.cpu.build import task_library
from gates.launch.memory import DeviceMemory, EmulatorMemory

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Outcome:
    """What a launcher returned, what the launch then reported (empty: nothing), and the output."""

    code: int
    error: str
    values: Values


def build_for_device(source: str, output: Path, nvcc: str, arch: str) -> str:
    """Compile with nvcc; the compiler's output where it failed, else an empty text."""
    code = f"-gencode=arch={arch.replace('sm_', 'compute_')},code={arch}"
    argv = [
        nvcc,
        "-std=c++17",
        "-O3",
        "-w",
        code,
        "-shared",
        "-cudart",
        "static",
        "-Xcompiler",
        "-fPIC",
        "-o",
        str(output),
        str(FOLDER / f"{source}.cu"),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
    return "" if done.returncode == 0 else (done.stdout + done.stderr)[-4000:] or f"nvcc: exit {done.returncode}"


def build_for_emulator(source: str, folder: Path) -> Path:
    """Compile for the emulator; raises GatesError."""
    return task_library([FOLDER / f"{source}.cu"], folder / f"{source}.so", capability="90")


def source_digest(source: str) -> str:
    """sha256 of a source and the header, without comments and white space."""
    text = "".join((FOLDER / name).read_text(encoding="utf-8") for name in ("conformance.cuh", f"{source}.cu"))
    return hashlib.sha256("".join(re.sub(r"//[^\n]*", "", text).split()).encode()).hexdigest()


def call(library: ctypes.CDLL, item: Item, memory: DeviceMemory | EmulatorMemory) -> Outcome:
    """Run one item; its output is filled with a pattern first."""
    given = item.given()
    count = len(given) if item.count is None else item.count
    source = memory.allocate(given.tobytes())
    target = memory.allocate(bytes([FILL]) * item.output_bytes())
    memory.settle()
    launcher = getattr(library, item.entry)
    launcher.restype = ctypes.c_int
    code = launcher(ctypes.c_void_p(source), ctypes.c_void_p(target), ctypes.c_longlong(count), None)
    error = memory.synchronize()
    return Outcome(code, error, np.frombuffer(memory.read(target, item.output_bytes()), item.dtype))


class Emulated:
    """A library of ``build_for_emulator``."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._emulator = Emulator(self._library)
        self.findings: list[dict[str, Any]] = []

    def call(self, item: Item, order: str = "forward", seed: int = 0) -> Outcome:
        """Run one item; ``findings`` are what the emulator found."""
        self._emulator.prepare(order, seed)
        outcome = call(self._library, item, EmulatorMemory(self._emulator))
        self.findings = self._emulator.collect()[1]
        return outcome
