"""Scaled dot-product attention, whatever the format of its inputs: the exact result, and PyTorch's own kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

_QUERY_SLICE = 512  # rows of the float64 score matrix that are held at once
_BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION, "math": SDPBackend.MATH,
}


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, softmax_scale: float, causal: bool = False) -> torch.Tensor:
    """Exact attention of float64 tensors q [B, H, Sq, D], k and v [B, H, Sk, D]: [B, H, Sq, D].

    ``causal``: query i sees the keys 0 to i, as in PyTorch. One head and a slice of the queries at a time bound memory.
    """
    out = torch.empty_like(q)
    for batch, head, rows in _slices(q):
        scores = q[batch, head, rows] @ k[batch, head].T * softmax_scale
        if causal:
            scores.masked_fill_(hidden(rows, k.shape[2]), -torch.inf)
        out[batch, head, rows] = torch.softmax(scores, dim=-1) @ v[batch, head]
    return out


def hidden(rows: slice | torch.Tensor, keys: int) -> torch.Tensor:
    """Which of ``keys`` keys a causal mask hides from the query ``rows``: bool [rows, keys]."""
    queries = torch.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
    return torch.arange(keys) > queries[:, None]


def backends(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, softmax_scale: float, causal: bool = False) -> dict[str, Callable[[], Any]]:
    """PyTorch's SDPA on float16 tensors, by backend; nothing without a CUDA device.

    A callable raises RuntimeError where the device or build of PyTorch lacks its backend.
    """
    if q.device.type != "cuda":
        return {}

    def with_backend(backend: SDPBackend) -> Callable[[], torch.Tensor]:
        def call() -> torch.Tensor:
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q, k, v, scale=softmax_scale, is_causal=causal)

        return call

    return {name: with_backend(backend) for name, backend in _BACKENDS.items()}


def _slices(q: torch.Tensor) -> Iterator[tuple[int, int, slice]]:
    batches, heads, queries, _ = q.shape
    for batch in range(batches):
        for head in range(heads):
            for start in range(0, queries, _QUERY_SLICE):
                yield batch, head, slice(start, min(start + _QUERY_SLICE, queries))
