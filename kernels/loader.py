"""Compiles a kernel of this folder with nvcc, once per machine, and launches it on PyTorch tensors. Needs nothing but PyTorch and nvcc."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).resolve().parent
DTYPES = {torch.float16: 0, torch.bfloat16: 1}
KERNELS = ("fp16_v9_pipeline", "fp16_v10_hopper", "fp16_v11_pingpong")  # in sdpa_fp16/
ANYWHERE, LEAST = "fp16_v9_pipeline", (8, 0)  # runs from this compute capability on; the others need instructions of sm_90a


def defines(dtype: torch.dtype) -> dict[str, int]:
    """Macros of a library for tensors of ``dtype``, with the launcher ``sdpa_forward`` of sdpa_fp16/parts/entry.cuh."""
    return {"GENERAL": 1, "BF16": DTYPES[dtype]}


def source(kernel: str) -> Path:
    return FOLDER / "sdpa_fp16" / f"{kernel}.cu"


def nvcc() -> str:
    """The compiler in CUDA_HOME, else in PATH. Raises RuntimeError if there is none."""
    home = os.environ.get("CUDA_HOME")
    found = shutil.which("nvcc", path=f"{home}/bin") if home else shutil.which("nvcc")
    if found is None:
        raise RuntimeError(f"nvcc: not found in {f'CUDA_HOME={home}' if home else 'PATH'}; install the CUDA toolkit, or set CUDA_HOME")
    return found


@functools.cache
def build(kernel: str, dtype: torch.dtype, capability: tuple[int, int]) -> Path:
    """The library of ``kernel``, compiled unless the user's cache has it. Raises RuntimeError, with nvcc's output if that fails."""
    if capability < LEAST:
        raise RuntimeError("device: compute capability {}.{}, the kernels need {}.{} or newer".format(*capability, *LEAST))
    compiler = nvcc()
    arch = "{}{}".format(*capability) + "a" * (kernel != ANYWHERE)
    flags = ["-std=c++17", "-O3", "-ftz=true", "-shared", "-Xcompiler", "-fPIC", f"-gencode=arch=compute_{arch},code=sm_{arch}"]
    flags += [f"-D{name}={value}" for name, value in defines(dtype).items()]
    told = subprocess.run([compiler, "--version"], capture_output=True, text=True)
    if told.returncode != 0:
        raise RuntimeError(f"{compiler} --version failed (exit {told.returncode}):\n{told.stdout}{told.stderr}")
    text = b"".join(path.read_bytes() for path in sorted(FOLDER.rglob("*.cu*")))
    digest = hashlib.sha256(" ".join(flags).encode() + told.stdout.encode() + text).hexdigest()[:16]
    library = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "attention-kernels" / digest / f"{kernel}.so"
    if not library.exists():
        if sys.stderr.isatty():
            print(f"attention: compiling {kernel} for sm_{arch} and {dtype}; this takes up to a minute, once", file=sys.stderr, flush=True)
        library.parent.mkdir(parents=True, exist_ok=True)
        made = library.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        done = subprocess.run([compiler, *flags, str(source(kernel)), "-o", str(made)], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"nvcc failed for {kernel}:\n{done.stdout}{done.stderr}")
        made.replace(library)  # another process may build the same file
    return library


@functools.cache
def entry_of(kernel: str, dtype: torch.dtype, capability: tuple[int, int]) -> Any:
    entry, pointer, number = ctypes.CDLL(str(build(kernel, dtype, capability))).sdpa_forward, ctypes.c_void_p, ctypes.c_int64
    entry.argtypes = [*[pointer] * 5, *[number] * 7, ctypes.c_float, pointer, pointer, ctypes.c_char_p, number]
    return entry


def launch(kernel: str, tensors: tuple[torch.Tensor, ...], lse: torch.Tensor | None, numbers: tuple[Any, ...]) -> None:
    """Enqueue one call on the current stream of the tensors' device. Raises RuntimeError with the launcher's message.

    ``tensors``: q, k, v, out; ``numbers``: the launcher's arguments from B to the strides.
    """
    message = ctypes.create_string_buffer(1024)
    with torch.cuda.device(tensors[0].device):
        entry = entry_of(kernel, tensors[0].dtype, torch.cuda.get_device_capability())
        pointers = [tensor.data_ptr() for tensor in tensors]
        stream = torch.cuda.current_stream().cuda_stream
        if entry(*pointers, None if lse is None else lse.data_ptr(), *numbers, stream, message, len(message)) != 0:
            raise RuntimeError(message.value.decode(errors="replace"))
