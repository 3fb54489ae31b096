"""Scaled dot-product attention on FP8 inputs: O = softmax(Q·K^T * softmax_scale)·V, not causal.

Q, K, V are E4M3 bytes [B, H, S, D] with one float32 scale a head each (value = byte's value * scale);
O is float16 [B, H, S, D]. The kernel is judged against the exact result on those dequantised values;
``end_to_end`` is what the float16 tensors before quantisation give, so the format's own error shows
in figures of its own. Format: OCP 8-bit floating point specification, E4M3, largest value 448.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from tasks.problems import sdpa
from tasks.problems.sdpa_fp8_bound import error_bound
from tasks.problems.sdpa_fp8_inputs import (
    E4M3_MAX,
    INPUT_FAMILIES,
    dequantise,
    make_inputs,
    quantise,
)
from tasks.problems.sdpa_fp8_mistakes import mistakes

__all__ = [
    "ARGUMENTS", "AXES", "DIMS", "E4M3_MAX", "EDGE_SHAPES", "FAMILY_SHAPES", "INPUT_FAMILIES", "ODD_SHAPES", "SHAPES", "backends",
    "dequantise", "end_to_end", "error_bound", "make_inputs", "make_outputs", "mistakes", "null_outputs", "quantise", "reference", "work",
]

SHAPES: dict[str, dict[str, int]] = {
    "small": {"B": 1, "H": 1, "S": 32, "D": 64},
    "mission": {"B": 1, "H": 8, "S": 512, "D": 64},
    "long": {"B": 1, "H": 8, "S": 2048, "D": 64},
    "big": {"B": 4, "H": 16, "S": 4096, "D": 64},  # for a device; the emulator would take hours
    "single": {"B": 1, "H": 1, "S": 1, "D": 64},  # one query, one key
    "tail": {"B": 2, "H": 3, "S": 17, "D": 64},  # less than one tile of queries
    "odd": {"B": 1, "H": 2, "S": 65, "D": 64},  # one key in the second tile
}

# Lengths around the tiles of 16, 32 and 64, each with every B and every H of 1, 2, 3: a Latin square a length, so that
# every pair of (S, B), (S, H) and (B, H) is tried in 54 shapes of the 162.
EDGE_LENGTHS = (1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 129, 511, 512, 513, 2047)
_EDGES = {
    f"b{batch}h{heads}s{length}": {"B": batch, "H": heads, "S": length, "D": 64}
    for index, length in enumerate(EDGE_LENGTHS) for batch in (1, 2, 3) for heads in ((batch - 1 + index) % 3 + 1,)
}
SHAPES.update(_EDGES)
EDGE_SHAPES = tuple(_EDGES)
ODD_SHAPES = ("single", "tail", "odd", "b1h2s2", "b3h1s33")
FAMILY_SHAPES = ("b1h2s129", "b2h3s33", "b1h2s513")  # three tiles of keys, the last with one; more heads; nine tiles
DIMS = {"B": range(1, 5), "H": range(1, 17), "S": range(1, 4097), "D": 64}

ARGUMENTS = ("q", "k", "v", "q_scale", "k_scale", "v_scale", "out", "B", "H", "S", "D", "softmax_scale")
AXES = {"out": ("B", "H", "S", "D")}


def make_outputs(shape: Mapping[str, int], device: str) -> dict[str, torch.Tensor]:
    size = tuple(shape[name] for name in ("B", "H", "S", "D"))
    return {"out": torch.empty(size, dtype=torch.float16, device=device)}


def reference(inputs: Mapping[str, Any], shape: Mapping[str, int]) -> dict[str, torch.Tensor]:
    """Exact attention in float64 on the dequantised inputs."""
    q, k, v = (dequantise(inputs[name], inputs[f"{name}_scale"]) for name in ("q", "k", "v"))
    return {"out": sdpa.attention(q, k, v, inputs["softmax_scale"])}


def end_to_end(inputs: Mapping[str, Any], shape: Mapping[str, int]) -> dict[str, torch.Tensor]:
    """Exact attention in float64 on the float16 inputs, as if nothing had been quantised."""
    q, k, v = (inputs[f"{name}_fp16"].cpu().double() for name in ("q", "k", "v"))
    return {"out": sdpa.attention(q, k, v, inputs["softmax_scale"])}


def null_outputs(inputs: Mapping[str, Any], shape: Mapping[str, int]) -> dict[str, dict[str, torch.Tensor]]:
    """What a kernel gives that ignores the scores: the mean of V in every row, or V itself."""
    v = dequantise(inputs["v"], inputs["v_scale"])
    return {"mean_of_v": {"out": v.mean(dim=2, keepdim=True).expand_as(v)}, "v_itself": {"out": v}}


def work(shape: Mapping[str, int]) -> dict[str, float]:
    """Least work: two products of S x S x D a head, on FP8 tensor cores, and a power per score; each input read once, the output written
    once.
    """
    heads = shape["B"] * shape["H"]
    elements = heads * shape["S"] * shape["D"]
    operations = {"tensor.fp8": 4.0 * elements * shape["S"], "sfu.ex2": 1.0 * heads * shape["S"] ** 2}
    return operations | {"bytes": 3.0 * elements + 2.0 * elements + 3 * 4.0 * heads}


def backends(inputs: Mapping[str, Any], shape: Mapping[str, int]) -> dict[str, Callable[[], torch.Tensor]]:
    """PyTorch's SDPA on the float16 inputs, by backend; nothing without a CUDA device."""
    return sdpa.backends(*(inputs[f"{name}_fp16"] for name in ("q", "k", "v")), inputs["softmax_scale"])
