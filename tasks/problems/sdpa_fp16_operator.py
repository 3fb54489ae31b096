"""Attention of kernels/attention.py on the CPU device, to try it out and to test it.

    attention = on_cpu("kernel_gates::attention")
    out, lse = attention(q, k, v, causal=True, return_lse=True)

The kernels' sources are compiled unmodified, and picked as on a card of compute capability 9.0.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from gates.launch.emulated_kernel import EmulatedKernel
from gates.launch.guarded_buffers import memory_of
from kernels import loader
from kernels.attention import Attention
from tasks.libraries import library_of

ENTRY = "sdpa_fp16_forward"  # of the ladder's stages
GENERAL_ENTRY = "sdpa_forward"  # of the same sources with the macros of kernels/loader.py

Find = Callable[[str, torch.dtype], EmulatedKernel]  # by the kernel's name and the tensors' type


def on_cpu(name: str, build_dir: Path = Path("build")) -> Attention:
    """Register the operator ``name`` for tensors on the CPU. A kernel is compiled at its first call."""

    @functools.cache
    def find(kernel: str, dtype: torch.dtype) -> EmulatedKernel:
        library = library_of(kernel, "cpu", build_dir, toggles=loader.defines(dtype), entry=GENERAL_ENTRY)
        return EmulatedKernel(library, GENERAL_ENTRY)

    return emulated(name, find)


def emulated(name: str, find: Find) -> Attention:
    """Register the operator ``name`` for tensors on the CPU, by the kernels that ``find`` returns."""

    def run(kernel: str, tensors: tuple[torch.Tensor, ...], lse: torch.Tensor | None, numbers: tuple[Any, ...]) -> None:
        memory = [memory_of(tensor) for tensor in tensors]  # of strided tensors, too, in one piece
        find(kernel, tensors[0].dtype)(*memory, ctypes.c_void_p() if lse is None else lse, *numbers)

    return Attention(name, "cpu", run, lambda _: (9, 0))
