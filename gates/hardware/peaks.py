"""The dense peak of each unit of each chip: operations per SM and clock. A fused multiply-add is two operations, an ex2 is one.

Sources: NVIDIA's architecture papers (Turing, A100, GA102, Ada, H100, Blackwell, RTX Blackwell), tables of peak rates without sparsity,
divided by SMs and boost clock; CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions", for cuda.* and sfu.*.
Example: 989.4 TFLOP/s dense FP16 of an H100 SXM / (132 SMs x 1830 MHz) = 4096. tensor.fp16 is bfloat16's rate, too.
"""

from __future__ import annotations

from collections.abc import Mapping

_COLUMNS = ("tensor.fp8", "tensor.int8", "tensor.fp16", "tensor.tf32", "tensor.fp64", "cuda.fp32", "cuda.fp64", "sfu.ex2")
_ROWS: Mapping[str, tuple[int | None, ...]] = {  # None: the chip has no such unit
    "sm_75": (None, 2048, 1024, None, None, 128, 4, 16),
    "sm_80": (None, 4096, 2048, 1024, 128, 128, 64, 16),
    "sm_86": (None, 2048, 1024, 512, None, 256, 4, 16),
    "sm_89": (2048, 2048, 1024, 512, None, 256, 4, 16),
    "sm_90": (8192, 8192, 4096, 2048, 256, 256, 128, 16),
    "sm_100": (16384, 16384, 8192, 4096, 128, 256, 128, 16),
    "sm_120": (2048, 2048, 1024, 512, None, 256, 4, 16),
}
UNITS = _COLUMNS
REPLACEABLE = ("sfu.ex2",)  # other units can do its work, so a kernel may be faster than this unit allows


def peak(compute_capability: str, unit: str) -> int | None:
    """Operations per SM and clock of ``unit`` on a chip of compute capability ``9.0``; None for an unknown chip or a unit that it lacks."""
    row = _ROWS.get(f"sm_{compute_capability.replace('.', '')}")
    return None if row is None else row[_COLUMNS.index(unit)]
