"""Scaled dot-product attention on FP8 inputs with both products on E4M3 bytes: as sdpa_fp8.py, with D 64 or 128, and a causal mask.

The reference is exact attention on the dequantised inputs, as there. The error bound allows for P in E4M3, and for the short sums of the
tensor cores (sdpa_bound.py). ARGUMENTS are those of sdpa_fp8.py, which a baseline takes; a task with a mask names its own ``arguments``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tasks.problems import sdpa, sdpa_fp8
from tasks.problems.sdpa_bound import E4M3_PRODUCTS, bound
from tasks.problems.sdpa_fp8 import ARGUMENTS, AXES, INPUT_FAMILIES, make_inputs, make_outputs
from tasks.problems.sdpa_fp8_inputs import dequantise
from tasks.problems.sdpa_inputs import Shape
from tasks.problems.sdpa_mistakes import Make, Mistakes

__all__ = [
    "ARGUMENTS",
    "AXES",
    "DIMS",
    "EDGE_SHAPES",
    "FAMILY_SHAPES",
    "INPUT_FAMILIES",
    "ODD_SHAPES",
    "SHAPES",
    "backends",
    "end_to_end",
    "error_bound",
    "make_inputs",
    "make_outputs",
    "mistakes",
    "null_outputs",
    "reference",
    "work",
]

Inputs = Mapping[str, Any]

SHAPES: dict[str, dict[str, int]] = {name: {**shape, "causal": 0} for name, shape in sdpa_fp8.SHAPES.items()}
SHAPES |= {
    "wide": {"B": 1, "H": 4, "S": 256, "D": 128, "causal": 0},
    "odd_wide": {"B": 1, "H": 2, "S": 129, "D": 128, "causal": 0},
    "odd_causal": {"B": 1, "H": 2, "S": 65, "D": 64, "causal": 1},
    "families_causal": {"B": 1, "H": 2, "S": 145, "D": 128, "causal": 1},
}
_EDGES = {
    f"{name}d{128 - 64 * (index % 2)}c{index // 2 % 2}": {**sdpa_fp8.SHAPES[name], "D": 128 - 64 * (index % 2), "causal": index // 2 % 2}
    for index, name in enumerate(sdpa_fp8.EDGE_SHAPES)
}
SHAPES.update(_EDGES)
EDGE_SHAPES = tuple(_EDGES)
ODD_SHAPES = ("single", "tail", "odd", "wide", "odd_wide", "odd_causal")
FAMILY_SHAPES = (*sdpa_fp8.FAMILY_SHAPES, "families_causal")
DIMS = {**sdpa_fp8.DIMS, "D": [64, 128], "causal": [0, 1]}


def reference(inputs: Inputs, shape: Shape) -> dict[str, torch.Tensor]:
    """Exact attention in float64 on the dequantised inputs."""
    return {"out": sdpa.attention(*_exact(inputs), inputs["softmax_scale"], bool(shape["causal"]))}


def end_to_end(inputs: Inputs, shape: Shape) -> dict[str, torch.Tensor]:
    """Exact attention in float64 on the float16 inputs, as if nothing had been quantised."""
    q, k, v = (inputs[f"{name}_fp16"].cpu().double() for name in ("q", "k", "v"))
    return {"out": sdpa.attention(q, k, v, inputs["softmax_scale"], bool(shape["causal"]))}


def error_bound(inputs: Inputs, shape: Shape) -> dict[str, torch.Tensor]:
    """{"out": float64 [B, H, S, D]}: the largest error of O that rounding explains, see sdpa_bound.py."""
    q, k = (inputs[name].cpu().view(torch.float8_e4m3fn).double() for name in ("q", "k"))
    factor = inputs["q_scale"].cpu().double() * inputs["k_scale"].cpu().double() * inputs["softmax_scale"]
    return {"out": bound(q, k, _exact(inputs)[2], factor, bool(shape["causal"]), E4M3_PRODUCTS)}


def null_outputs(inputs: Inputs, shape: Shape) -> dict[str, dict[str, torch.Tensor]]:
    """What a kernel gives that ignores the scores: the mean of the visible rows of V, or V itself."""
    if not shape["causal"]:
        return sdpa_fp8.null_outputs(inputs, shape)
    v = _exact(inputs)[2]
    return {"mean_of_v": {"out": v.cumsum(dim=2) / torch.arange(1, shape["S"] + 1)[:, None]}, "v_itself": {"out": v}}


def mistakes(inputs: Inputs, shape: Shape) -> dict[str, Make]:
    """Cause -> maker of {"out": float64 [B, H, S, D]}; those that change nothing for ``shape`` are left out."""
    if not shape["causal"]:
        return sdpa_fp8.mistakes(inputs, shape)
    return Mistakes(*_exact(inputs), float(inputs["softmax_scale"]), True).common()


def work(shape: Shape) -> dict[str, float]:
    """Least work: as of sdpa_fp8.py, the hidden scores left out."""
    least = sdpa_fp8.work(shape)
    seen = (shape["S"] + 1) / (2 * shape["S"]) if shape["causal"] else 1.0
    return {unit: amount if unit == "bytes" else amount * seen for unit, amount in least.items()}


def backends(inputs: Inputs, shape: Shape) -> dict[str, Any]:
    """PyTorch's SDPA on the float16 inputs, by backend; nothing without a CUDA device."""
    return sdpa.backends(*(inputs[f"{name}_fp16"] for name in ("q", "k", "v")), inputs["softmax_scale"], bool(shape["causal"]))


def _exact(inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    q, k, v = (dequantise(inputs[name], inputs[f"{name}_scale"]) for name in ("q", "k", "v"))
    return q, k, v
