"""Scaled dot-product attention on FP8 inputs: O = softmax(Q·K^T * softmax_scale)·V, not causal.

Q, K, V are E4M3 bytes [B, H, S, D] with one float32 scale a head each (value = byte's value * scale);
O is float16 [B, H, S, D]. The kernel is judged against the exact result on those dequantised values;
``end_to_end`` is what the float16 tensors before quantisation give, so the format's own error shows
in figures of its own. Format: OCP 8-bit floating point specification, E4M3, largest value 448.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

SHAPES: dict[str, dict[str, int]] = {
    "small": {"B": 1, "H": 1, "S": 32, "D": 64},
    "mission": {"B": 1, "H": 8, "S": 512, "D": 64},
    "long": {"B": 1, "H": 8, "S": 2048, "D": 64},
    "single": {"B": 1, "H": 1, "S": 1, "D": 64},  # one query, one key
    "tail": {"B": 2, "H": 3, "S": 17, "D": 64},  # less than one tile of queries
    "odd": {"B": 1, "H": 2, "S": 65, "D": 64},  # one key in the second tile
}
ODD_SHAPES = ("single", "tail", "odd")

ARGUMENTS = ("q", "k", "v", "q_scale", "k_scale", "v_scale", "out", "B", "H", "S", "D", "softmax_scale")

E4M3_MAX = 448.0
_QUERY_SLICE = 512  # rows of the float64 score matrix that the reference holds at once


def make_inputs(shape: Mapping[str, int], seed: int, device: str) -> dict[str, Any]:
    """N(0, 1) inputs in float16, and the same quantised with scale = absmax / 448 of each head.

    Drawn on the CPU, so that the values are the same on every device. ``q_fp16``, ``k_fp16`` and
    ``v_fp16`` are the tensors before quantisation; the kernel does not get them.
    """
    generator = torch.Generator().manual_seed(seed)
    size = tuple(shape[name] for name in ("B", "H", "S", "D"))
    inputs: dict[str, Any] = {"softmax_scale": 1.0 / math.sqrt(shape["D"])}
    for name in ("q", "k", "v"):
        original = torch.randn(size, generator=generator).to(torch.float16)
        data, scale = quantise(original)
        inputs[name] = data.to(device)
        inputs[f"{name}_scale"] = scale.to(device)
        inputs[f"{name}_fp16"] = original.to(device)
    return inputs


def quantise(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """E4M3 bytes (uint8, shape of ``values`` [B, H, S, D]) and one float32 scale a head, [B, H]."""
    absmax = values.float().abs().amax(dim=(2, 3))
    scale = torch.where(absmax > 0, absmax / E4M3_MAX, torch.ones_like(absmax))
    scaled = (values.float() / scale[..., None, None]).clamp(-E4M3_MAX, E4M3_MAX)
    return scaled.to(torch.float8_e4m3fn).view(torch.uint8), scale


def dequantise(data: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """The float64 values, on the CPU, that E4M3 bytes and scales stand for."""
    return data.cpu().view(torch.float8_e4m3fn).double() * scale.cpu().double()[..., None, None]


def make_outputs(shape: Mapping[str, int], device: str) -> dict[str, torch.Tensor]:
    size = tuple(shape[name] for name in ("B", "H", "S", "D"))
    return {"out": torch.empty(size, dtype=torch.float16, device=device)}


def reference(inputs: Mapping[str, Any], shape: Mapping[str, int]) -> dict[str, torch.Tensor]:
    """Exact attention in float64 on the dequantised inputs."""
    q, k, v = (dequantise(inputs[name], inputs[f"{name}_scale"]) for name in ("q", "k", "v"))
    return {"out": _attention(q, k, v, inputs["softmax_scale"])}


def end_to_end(inputs: Mapping[str, Any], shape: Mapping[str, int]) -> dict[str, torch.Tensor]:
    """Exact attention in float64 on the float16 inputs, as if nothing had been quantised."""
    q, k, v = (inputs[f"{name}_fp16"].cpu().double() for name in ("q", "k", "v"))
    return {"out": _attention(q, k, v, inputs["softmax_scale"])}


def work(shape: Mapping[str, int]) -> dict[str, float]:
    """Least work: two products of S x S x D a head; each input read once, the output written once."""
    heads = shape["B"] * shape["H"]
    elements = heads * shape["S"] * shape["D"]
    return {"flops": 4.0 * elements * shape["S"], "bytes": 3.0 * elements + 2.0 * elements + 3 * 4.0 * heads}


def backends(inputs: Mapping[str, Any], shape: Mapping[str, int]) -> dict[str, Callable[[], torch.Tensor]]:
    """PyTorch's SDPA on the float16 inputs, by backend; nothing without a CUDA device.

    A callable raises RuntimeError where the device or build of PyTorch lacks its backend.
    """
    q, k, v = (inputs[f"{name}_fp16"] for name in ("q", "k", "v"))
    if q.device.type != "cuda":
        return {}

    def with_backend(backend: SDPBackend) -> Callable[[], torch.Tensor]:
        def call() -> torch.Tensor:
            with sdpa_kernel(backend):
                return scaled_dot_product_attention(q, k, v, scale=inputs["softmax_scale"])

        return call

    return {
        "flash": with_backend(SDPBackend.FLASH_ATTENTION),
        "efficient": with_backend(SDPBackend.EFFICIENT_ATTENTION),
        "cudnn": with_backend(SDPBackend.CUDNN_ATTENTION),
        "math": with_backend(SDPBackend.MATH),
    }


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, softmax_scale: float) -> torch.Tensor:
    """float64 attention [B, H, S, D], one head and a slice of the queries at a time to bound memory."""
    out = torch.empty_like(q)
    for batch, head, rows in _slices(q):
        scores = q[batch, head, rows] @ k[batch, head].T * softmax_scale
        out[batch, head, rows] = torch.softmax(scores, dim=-1) @ v[batch, head]
    return out


def _slices(q: torch.Tensor) -> Iterator[tuple[int, int, slice]]:
    batches, heads, sequence, _ = q.shape
    for batch in range(batches):
        for head in range(heads):
            for start in range(0, sequence, _QUERY_SLICE):
                yield batch, head, slice(start, start + _QUERY_SLICE)
