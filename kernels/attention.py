"""Attention, by the fastest kernel of this folder for each call. Copy the folder into a project to use it there.

    from kernels.attention import attention, scaled_dot_product_attention
    out = attention(q, k, v, causal=True)
    out, lse = attention(q, k, v, return_lse=True)

q: float16 or bfloat16 [B, H, Sq, D]; k, v: [B, Hkv, Sk, D], Hkv a divisor of H, D 64 or 128. Rows are contiguous and begin at multiples
of 16 bytes; the other strides are positive. The launch goes to the current stream of q's device. ``lse``: float32 [B, H, Sq], natural logarithm.
"""

from __future__ import annotations

import ctypes
import functools
import json
import math
from collections.abc import Callable
from typing import Any

import torch

from .loader import ANYWHERE, DTYPES, FOLDER, launch

MEASURED = json.loads((FOLDER / "attention.json").read_text(encoding="utf-8"))
SCHEMA = "(Tensor q, Tensor k, Tensor v, bool causal=False, float? softmax_scale=None, bool return_lse=False) -> (Tensor, Tensor)"


@functools.lru_cache(4096)
def pick(capability: tuple[int, int], heads: int, queries: int, keys: int, width: int, causal: bool) -> str:
    """The kernel that was fastest at the measured shape nearest to this one, by the logarithms of its sizes. ``heads``: of all batches."""
    sizes = {"heads": heads, "queries": queries, "keys": keys}
    rows = MEASURED.get("{}.{}".format(*capability), {"rows": []})["rows"]
    alike = [row for row in rows if (row["width"], row["causal"]) == (width, causal)]
    nearest = min(alike, key=lambda row: sum(abs(math.log2(sizes[name] / row[name])) for name in sizes), default={"fastest": ANYWHERE})
    return str(nearest["fastest"])


def check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, device_type: str) -> None:
    """Raise TypeError for a dtype, ValueError for a device, shape, stride or address that kernels can't take; the argument's name first."""
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.device.type != device_type or tensor.device != q.device:
            raise ValueError(f"{name}: on device {tensor.device}, expected {device_type if name == 'q' else q.device}")
        if tensor.dim() != 4 or 0 in tensor.shape:
            raise ValueError(f"{name}: shape {list(tensor.shape)}, expected [B, H, S, D], each size at least 1")
        if tensor.dtype not in DTYPES or tensor.dtype != q.dtype:
            raise TypeError(f"{name}: dtype {tensor.dtype}, expected {'torch.float16 or torch.bfloat16' if name == 'q' else q.dtype}")
        steps = [stride for stride, size in zip(tensor.stride()[:3], tensor.shape[:3], strict=True) if size > 1]
        if tensor.stride(3) != 1 or any(stride < 1 or stride % 8 for stride in steps) or tensor.data_ptr() % 16:
            strides = f"strides {list(tensor.stride())}, address {tensor.data_ptr():#x}"
            raise ValueError(f"{name}: rows are not contiguous, 16-byte aligned and apart ({strides}); call .clone() or .contiguous()")
    batch, heads, _, width = q.shape
    if width not in (64, 128):
        raise ValueError(f"q: head dimension {width}, kernels are for 64 and 128")
    if k.shape[0] != batch or k.shape[3] != width or heads % k.shape[1]:
        raise ValueError(f"k: shape {list(k.shape)}, expected [{batch}, a divisor of {heads}, S, {width}]")
    if v.shape != k.shape:
        raise ValueError(f"v: shape {list(v.shape)}, expected {list(k.shape)}")


def _outputs(q: torch.Tensor, return_lse: bool) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(q), q.new_empty(q.shape[:3] if return_lse else (0,), dtype=torch.float32)


def _packed(tensor: torch.Tensor, kv_heads: int) -> torch.Tensor | None:
    """The same memory as [B, Hkv, H / Hkv * Sq, D], so that a tile has rows of all heads that share keys; None if the rows are uneven."""
    batch, heads, rows, width = tensor.shape
    group, (batch_stride, head_stride, row_stride, _) = heads // kv_heads, tensor.stride()
    if rows == 1:
        row_stride = head_stride
    if group == 1 or head_stride != rows * row_stride:
        return None
    return tensor.as_strided((batch, kv_heads, group * rows, width), (batch_stride, group * head_stride, row_stride, 1))


class Attention:
    """Attention on one type of device.

    ``name`` is what torch calls the operator ("namespace::operator"; it returns out and lse, which is empty unless asked for), ``run``
    calls a kernel as ``loader.launch`` does, ``capability`` is a device's.
    """

    def __init__(self, name: str, device_type: str, run: Callable[..., None], capability: Callable[[Any], tuple[int, int]]) -> None:
        self._type, self._run, self._capability = device_type, run, capability
        self._operator = torch.library.custom_op(name, self._call, mutates_args=(), schema=SCHEMA)
        self._operator.register_fake(lambda q, k, v, causal=False, softmax_scale=None, return_lse=False: _outputs(q, return_lse))

    def __call__(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, softmax_scale: float | None = None,
        return_lse: bool = False,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """out [B, H, Sq, D], or out and lse. ``causal``: query i sees the keys 0 to i. ``softmax_scale``: 1 / sqrt(D) if None."""
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (q, k, v)):
            raise NotImplementedError("requires_grad: there is no backward pass; call it under torch.no_grad()")
        out, lse = self._operator(q, k, v, causal, softmax_scale, return_lse)
        return (out, lse) if return_lse else out

    def scaled_dot_product_attention(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0,
        is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
    ) -> Any:
        """As ``torch.nn.functional.scaled_dot_product_attention``; NotImplementedError for what is missing. There is no other kernel."""
        if attn_mask is not None:
            raise NotImplementedError("attn_mask: only is_causal is supported")
        if dropout_p != 0.0:
            raise NotImplementedError(f"dropout_p: {dropout_p}, only 0 is supported")
        if not enable_gqa and query.dim() == key.dim() == 4 and query.shape[1] != key.shape[1]:
            raise ValueError(f"key: {key.shape[1]} heads, query has {query.shape[1]}; enable_gqa=True lets heads share keys")
        return self(query, key, value, is_causal, scale)

    def _call(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, softmax_scale: float | None = None,
        return_lse: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        check(q, k, v, self._type)
        out, lse = _outputs(q, return_lse)
        rows, results = (None, None) if causal else (_packed(q, k.shape[1]), _packed(out, k.shape[1]))
        if rows is None or results is None:
            rows, results = q, out
        (batch, heads, queries, width), (_, kv_heads, keys, _) = rows.shape, k.shape
        scale = 1 / math.sqrt(width) if softmax_scale is None else float(softmax_scale)
        strides = (ctypes.c_int64 * 12)(*(stride for tensor in (rows, k, v, results) for stride in tensor.stride()[:3]))
        numbers = (batch, heads, kv_heads, queries, keys, width, int(causal), scale, ctypes.c_void_p(ctypes.addressof(strides)))
        kernel = pick(self._capability(q.device), batch * heads, queries, keys, width, causal)
        self._run(kernel, (rows, k, v, results), lse if return_lse else None, numbers)
        return out, lse


attention = Attention("attention_kernels::attention", "cuda", launch, torch.cuda.get_device_capability)
scaled_dot_product_attention = attention.scaled_dot_product_attention
