"""The compiled FP16 kernel as a PyTorch operator, and as a drop-in for PyTorch's own function.

    sdpa_fp16 = load_operator(Path("build/…/device.so"), "kernel_gates::sdpa_fp16_v9")
    out = sdpa_fp16(q, k, v, causal=True)

    scaled_dot_product_attention = drop_in(sdpa_fp16)
    out = scaled_dot_product_attention(q, k, v, is_causal=True)

q: float16 [B, H, Sq, D]; k, v: float16 [B, H, Sk, D]; D 64 or 128; contiguous, 16-byte aligned. Returns float16
[B, H, Sq, D]. The launch goes to the current stream of q's device.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from pathlib import Path

import torch

from gates.launch.c_launcher import Kernel
from gates.launch.emulated_kernel import EmulatedKernel

ENTRY = "sdpa_fp16_forward"
HEAD_DIMS = (64, 128)
_SCHEMA = "(Tensor q, Tensor k, Tensor v, bool causal=False, float? softmax_scale=None) -> Tensor"


def load_operator(library: Path, name: str, device_type: str = "cuda") -> Callable[..., torch.Tensor]:
    """Register the launcher in ``library`` as the operator ``name`` ("namespace::operator") and return it.

    ``device_type`` is "cuda" for a library built by nvcc, "cpu" for one built for the emulator.
    Registering a name again replaces what it stood for. Calls raise TypeError (a tensor's type) or
    ValueError (everything else), with the argument's name first, and ``gates.launch.c_launcher.KernelError``
    where the launcher itself fails.
    """
    kernel = EmulatedKernel(library, ENTRY) if device_type == "cpu" else Kernel(library, ENTRY)

    def sdpa_fp16(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, softmax_scale: float | None = None,
    ) -> torch.Tensor:
        check_arguments(q, k, v, device_type)
        scale = 1.0 / math.sqrt(q.shape[3]) if softmax_scale is None else float(softmax_scale)
        out = torch.empty_like(q)
        guard = torch.cuda.device(q.device) if q.device.type == "cuda" else contextlib.nullcontext()
        with guard:
            stream = torch.cuda.current_stream().cuda_stream if q.device.type == "cuda" else 0
            batch, heads, queries, width = q.shape
            kernel(q, k, v, out, batch, heads, queries, k.shape[2], width, int(causal), scale, stream=stream)
        return out

    operator = torch.library.custom_op(name, sdpa_fp16, mutates_args=(), schema=_SCHEMA)
    operator.register_fake(lambda q, k, v, causal=False, softmax_scale=None: torch.empty_like(q))
    return operator


def drop_in(operator: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A function with the signature of ``torch.nn.functional.scaled_dot_product_attention``.

    It raises NotImplementedError for what the kernel does not do (masks, dropout, grouped heads, gradients) and what the operator raises
    for other tensors; it never falls back to another kernel.
    """

    def scaled_dot_product_attention(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
    ) -> torch.Tensor:
        if attn_mask is not None:
            raise NotImplementedError("attn_mask: only is_causal is supported")
        if dropout_p != 0.0:
            raise NotImplementedError(f"dropout_p: {dropout_p}, only 0 is supported")
        if enable_gqa:
            raise NotImplementedError("enable_gqa: query, key and value must have the same heads")
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value)):
            raise NotImplementedError("requires_grad: there is no backward pass; call it under torch.no_grad()")
        return operator(query, key, value, is_causal, scale)

    return scaled_dot_product_attention


def check_arguments(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, device_type: str) -> None:
    """Refuse what the kernel can't take: device, dtype, shape, contiguity, alignment, in that order."""
    tensors = {"q": q, "k": k, "v": v}
    for name, tensor in tensors.items():
        if tensor.device.type != device_type:
            raise ValueError(f"{name}: on device {tensor.device}, this library runs on {device_type}")
        if tensor.device != q.device:
            raise ValueError(f"{name}: on device {tensor.device}, but q is on {q.device}")
        if tensor.dim() != 4:
            raise ValueError(f"{name}: {tensor.dim()} dimensions, expected [B, H, S, D]")
        if 0 in tensor.shape:
            raise ValueError(f"{name}: shape {list(tensor.shape)} has no elements")
    if q.shape[3] not in HEAD_DIMS:
        raise ValueError(f"q: head dimension {q.shape[3]}, this kernel is for {' and '.join(map(str, HEAD_DIMS))}")
    expected = {"q": q.shape, "k": (*q.shape[:2], k.shape[2], q.shape[3]), "v": tuple(k.shape)}
    for name, tensor in tensors.items():
        if tensor.dtype != torch.float16:
            raise TypeError(f"{name}: dtype {tensor.dtype}, expected torch.float16")
        if tuple(tensor.shape) != tuple(expected[name]):
            raise ValueError(f"{name}: shape {list(tensor.shape)}, expected {list(expected[name])}")
        if not tensor.is_contiguous():
            raise ValueError(f"{name}: not contiguous (strides {list(tensor.stride())}); call .contiguous()")
        if tensor.data_ptr() % 16 != 0:
            raise ValueError(f"{name}: address not aligned to 16 bytes; call .clone()")
