"""The compiled kernel as a PyTorch operator: ``sdpa_fp8(q, k, v, q_scale, k_scale, v_scale, softmax_scale=None)``.

    sdpa_fp8 = load_operator(Path("build/…/device.so"), "kernel_gates::sdpa_fp8_stage2")
    out = sdpa_fp8(q, k, v, q_scale, k_scale, v_scale)

q, k, v: uint8 [B, H, S, 64], E4M3 bytes, contiguous, 16-byte aligned. The scales: float32 [B, H].
Returns float16 [B, H, S, 64]. The launch goes to the current stream of q's device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch

from gates.launch.c_launcher import Kernel
from gates.launch.emulated_kernel import EmulatedKernel

ENTRY = "sdpa_fp8_forward"
HEAD_DIM = 64
_SCHEMA = (
    "(Tensor q, Tensor k, Tensor v, Tensor q_scale, Tensor k_scale, Tensor v_scale, float? softmax_scale=None) -> Tensor"
)


def load_operator(library: Path, name: str, device_type: str = "cuda") -> Callable[..., torch.Tensor]:
    """Register the launcher in ``library`` as the operator ``name`` ("namespace::operator") and return it.

    ``device_type`` is "cuda" for a library built by nvcc, "cpu" for one built for the emulator.
    Registering a name again replaces what it stood for. Calls raise TypeError (a tensor's type) or
    ValueError (everything else), with the argument's name first, and ``gates.launch.c_launcher.KernelError``
    where the launcher itself fails.
    """
    kernel = EmulatedKernel(library, ENTRY) if device_type == "cpu" else Kernel(library, ENTRY)

    def sdpa_fp8(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
        q_scale: torch.Tensor, k_scale: torch.Tensor, v_scale: torch.Tensor, softmax_scale: float | None = None,
    ) -> torch.Tensor:
        tensors = {"q": q, "k": k, "v": v, "q_scale": q_scale, "k_scale": k_scale, "v_scale": v_scale}
        check_arguments(tensors, device_type)
        scale = 1.0 / math.sqrt(HEAD_DIM) if softmax_scale is None else float(softmax_scale)
        out = torch.empty(q.shape, dtype=torch.float16, device=q.device)
        arguments = (*tensors.values(), out, *q.shape, scale)
        if device_type == "cpu":
            kernel(*arguments)
        else:
            with torch.cuda.device(q.device):
                kernel(*arguments, stream=torch.cuda.current_stream().cuda_stream)
        return out

    operator = torch.library.custom_op(name, sdpa_fp8, mutates_args=(), schema=_SCHEMA)
    operator.register_fake(_fake)
    return operator


def check_arguments(tensors: dict[str, torch.Tensor], device_type: str) -> None:
    """Refuse what the kernel can't take: device, dtype, shape, contiguity, alignment, in that order."""
    q = tensors["q"]
    for name, tensor in tensors.items():
        if tensor.device.type != device_type:
            raise ValueError(f"{name}: on device {tensor.device}, this library runs on {device_type}")
        if tensor.device != q.device:
            raise ValueError(f"{name}: on device {tensor.device}, but q is on {q.device}")
    if q.dim() != 4:
        raise ValueError(f"q: {q.dim()} dimensions, expected [B, H, S, {HEAD_DIM}]")
    if q.shape[3] != HEAD_DIM:
        raise ValueError(f"q: head dimension {q.shape[3]}, this kernel is for {HEAD_DIM}")
    if 0 in q.shape:
        raise ValueError(f"q: shape {list(q.shape)} has no elements")
    for name, tensor in tensors.items():
        is_scale = name.endswith("_scale")
        dtype = torch.float32 if is_scale else torch.uint8
        if tensor.dtype != dtype:
            hint = "; view E4M3 tensors as uint8" if tensor.dtype == torch.float8_e4m3fn else ""
            raise TypeError(f"{name}: dtype {tensor.dtype}, expected {dtype}{hint}")
        shape = q.shape[:2] if is_scale else q.shape
        if tensor.shape != shape:
            raise ValueError(f"{name}: shape {list(tensor.shape)}, expected {list(shape)}")
        if not tensor.is_contiguous():
            raise ValueError(f"{name}: not contiguous (strides {list(tensor.stride())}); call .contiguous()")
        alignment = 4 if is_scale else 16
        if tensor.data_ptr() % alignment != 0:
            raise ValueError(f"{name}: address not aligned to {alignment} bytes; call .clone()")


def _fake(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    q_scale: torch.Tensor, k_scale: torch.Tensor, v_scale: torch.Tensor, softmax_scale: float | None = None,
) -> torch.Tensor:
    return q.new_empty(q.shape, dtype=torch.float16)
