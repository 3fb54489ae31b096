"""Scaled dot-product attention in float16: O = softmax(Q·K^T * softmax_scale)·V.

Q, O: float16 [B, H, Sq, D]; K, V: float16 [B, H, Sk, D]; D is 64 or 128. With ``causal`` query i sees the keys 0 to i, as
PyTorch's ``is_causal`` (the mask's top left corner is aligned), also where Sq and Sk differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tasks.problems import sdpa, sdpa_inputs
from tasks.problems.sdpa_bound import bound
from tasks.problems.sdpa_inputs import Shape
from tasks.problems.sdpa_mistakes import Make, Mistakes

Inputs = dict[str, Any]


def _shape(B: int, H: int, Sq: int, Sk: int, D: int = 64, causal: int = 0) -> dict[str, int]:
    return {"B": B, "H": H, "Sq": Sq, "Sk": Sk, "D": D, "causal": causal}


SHAPES: dict[str, dict[str, int]] = {
    "small": _shape(1, 1, 32, 32),
    "mission": _shape(1, 8, 512, 512),
    "long": _shape(1, 8, 2048, 2048),
    "big": _shape(4, 16, 4096, 4096),  # for a device; the emulator would take hours
    "wide_short": _shape(32, 16, 512, 512, D=128),
    "wide_big": _shape(8, 16, 2048, 2048, D=128),
    "wide_causal": _shape(1, 32, 1024, 1024, D=128, causal=1),
    "decode": _shape(1, 32, 16, 8192, D=128),  # few queries, many keys
    "causal": _shape(1, 8, 512, 512, causal=1),
    "wide": _shape(1, 4, 256, 256, D=128),
    "single": _shape(1, 1, 1, 1),  # one query, one key
    "tail": _shape(2, 3, 17, 17),  # less than one tile of queries
    "odd": _shape(1, 2, 65, 65),  # one key in the second tile
    "odd_causal": _shape(1, 2, 65, 65, causal=1),
    "odd_wide": _shape(1, 2, 33, 129, D=128),
    "more_keys": _shape(1, 2, 35, 200, causal=1),  # most keys are hidden from every query
    "more_queries": _shape(1, 1, 150, 40, causal=1),
}

# Lengths around the tiles of 16, 32, 64 and 128. Each as the length of both, without a mask and with it, and as the
# queries' beside another length of the keys; batches, heads and D change from one to the next.
EDGE_LENGTHS = (1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 257, 511, 513)


def _edges() -> dict[str, dict[str, int]]:
    found = {}
    for index, length in enumerate(EDGE_LENGTHS):
        other = EDGE_LENGTHS[(7 * index + 5) % len(EDGE_LENGTHS)]
        for kind, (queries, keys, causal) in enumerate(((length, length, 0), (length, length, 1), (length, other, index % 2))):
            batch, heads, width = 1 + (index + kind) % 2, 1 + (index + 2 * kind) % 3, 64 * (1 + (index + kind) % 2)
            name = f"b{batch}h{heads}q{queries}k{keys}d{width}" + "c" * causal
            found[name] = _shape(batch, heads, queries, keys, width, causal)
    return found


_EDGES = _edges()
SHAPES.update(_EDGES)
EDGE_SHAPES = tuple(_EDGES)
ODD_SHAPES = ("single", "tail", "odd", "odd_causal", "odd_wide", "more_keys", "more_queries")
SHAPES.update({
    "families": _shape(1, 2, 65, 129),  # three tiles of 64 keys, the last with one
    "families_causal": _shape(1, 2, 129, 129, causal=1),
    "families_wide": _shape(2, 3, 33, 47, D=128),
    "families_long": _shape(1, 2, 65, 513),
})
FAMILY_SHAPES = ("families", "families_causal", "families_wide", "families_long")
DIMS = {"B": range(1, 33), "H": range(1, 33), "Sq": range(1, 4097), "Sk": range(1, 8193), "D": [64, 128], "causal": [0, 1]}

ARGUMENTS = ("q", "k", "v", "out", "B", "H", "Sq", "Sk", "D", "causal", "softmax_scale")
AXES = {"out": ("B", "H", "Sq", "D")}


def make_inputs(shape: Shape, seed: int, device: str) -> Inputs:
    """N(0, 1), drawn on the CPU."""
    return _pack(shape, device, *sdpa_inputs.normal(shape, seed))


def make_outputs(shape: Shape, device: str) -> dict[str, torch.Tensor]:
    return {"out": torch.empty(sdpa_inputs.sizes(shape)[0], dtype=torch.float16, device=device)}


def reference(inputs: Mapping[str, Any], shape: Shape) -> dict[str, torch.Tensor]:
    """Exact attention in float64."""
    return {"out": sdpa.attention(*_exact(inputs), inputs["softmax_scale"], bool(shape["causal"]))}


def error_bound(inputs: Mapping[str, Any], shape: Shape) -> dict[str, torch.Tensor]:
    """{"out": float64 [B, H, Sq, D]}: the largest error of O that rounding explains, see sdpa_bound.py."""
    factor = torch.full((shape["B"], shape["H"]), inputs["softmax_scale"], dtype=torch.float64)
    return {"out": bound(*_exact(inputs), factor, bool(shape["causal"]))}


def null_outputs(inputs: Mapping[str, Any], shape: Shape) -> dict[str, dict[str, torch.Tensor]]:
    """What a kernel gives that ignores the scores: the mean of the visible rows of V, or V itself."""
    _, _, v = _exact(inputs)
    rows = torch.arange(shape["Sq"])
    if shape["causal"]:
        last = rows.clamp(max=shape["Sk"] - 1)
        mean = v.cumsum(dim=2)[:, :, last] / (last + 1)[:, None]
    else:
        mean = v.mean(dim=2, keepdim=True).expand(-1, -1, shape["Sq"], -1)
    return {"mean_of_v": {"out": mean}, "v_itself": {"out": v[:, :, rows % shape["Sk"]]}}


def mistakes(inputs: Mapping[str, Any], shape: Shape) -> dict[str, Make]:
    """Cause -> maker of {"out": float64 [B, H, Sq, D]}; those that change nothing for ``shape`` are left out."""
    return Mistakes(*_exact(inputs), float(inputs["softmax_scale"]), bool(shape["causal"])).common()


def work(shape: Shape) -> dict[str, float]:
    """Least work: two products of Sq x Sk x D a head and a power per score, the hidden scores left out; each input read once, the output
    written once.
    """
    heads, queries, keys = shape["B"] * shape["H"], shape["Sq"], shape["Sk"]
    seen = sum(min(row + 1, keys) for row in range(queries)) if shape["causal"] else queries * keys
    read = min(queries, keys) if shape["causal"] else keys
    operations = {"tensor.fp16": 4.0 * heads * seen * shape["D"], "sfu.ex2": 1.0 * heads * seen}
    return operations | {"bytes": 2.0 * heads * shape["D"] * (2 * queries + 2 * read)}


def backends(inputs: Mapping[str, Any], shape: Shape) -> dict[str, Callable[[], torch.Tensor]]:
    """PyTorch's SDPA on the same tensors, by backend; nothing without a CUDA device."""
    return sdpa.backends(*(inputs[name] for name in ("q", "k", "v")), inputs["softmax_scale"], bool(shape["causal"]))


def negative_zero(shape: Shape, seed: int, device: str) -> Inputs:
    """Q, K and V of the even heads are -0 or +0; a quarter of the elements of the odd heads are -0."""
    draw = sdpa_inputs.generator(seed + 1)
    found = []
    for values in sdpa_inputs.normal(shape, seed):
        signs = torch.randint(0, 4, values.shape, generator=draw)
        only = torch.where(signs > 0, -0.0, 0.0)
        found.append(torch.where(sdpa_inputs.even(shape), only, torch.where(signs == 0, -0.0, values)))
    return _pack(shape, device, *found)


def format_max(shape: Shape, seed: int, device: str) -> Inputs:
    """Every element of K and V is +65504 or -65504; Q is small, so that the scores stay near 1."""
    signs = [1 - 2.0 * torch.randint(0, 2, size, generator=sdpa_inputs.generator(seed + index))
             for index, size in enumerate(sdpa_inputs.sizes(shape))]
    return _pack(shape, device, signs[0] * 2.0**-16, signs[1] * 65504, signs[2] * 65504)


def subnormal(shape: Shape, seed: int, device: str) -> Inputs:
    """Every element of Q and V is below 2^-14, so a subnormal half, and so are the outputs; K makes up for Q's size."""
    q, _, v = (torch.randint(-1023, 1024, size, generator=sdpa_inputs.generator(seed + index)) * 2.0**-24
               for index, size in enumerate(sdpa_inputs.sizes(shape)))
    return _pack(shape, device, q, sdpa_inputs.normal(shape, seed)[1].clamp(-3, 3) * 2.0**14, v)


def negative_scale(shape: Shape, seed: int, device: str) -> Inputs:
    """softmax_scale is negative, so the smallest product has the largest weight."""
    inputs = make_inputs(shape, seed, device)
    inputs["softmax_scale"] = -0.7 * inputs["softmax_scale"]
    return inputs


def negative_scores(shape: Shape, seed: int, device: str) -> Inputs:
    """All scores are below -1e5: equal in the even heads, in steps of a hundred and more in the odd ones. Sums are exact."""
    q, k, v = sdpa_inputs.normal(shape, seed)
    fewer = (k > 0) * sdpa_inputs.even(shape).logical_not()
    return _pack(shape, device, torch.full_like(q, 128.0), -128.0 + 8.0 * fewer, v)


def _with_format(make: Callable[[Shape, int], sdpa_inputs.Values]) -> Callable[[Shape, int, str], Inputs]:
    return lambda shape, seed, device: _pack(shape, device, *make(shape, seed))


INPUT_FAMILIES: dict[str, Callable[[Shape, int, str], Inputs]] = {
    **{name: _with_format(make) for name, make in sdpa_inputs.FAMILIES.items()},
    **{make.__name__: make for make in (negative_zero, format_max, subnormal, negative_scale, negative_scores)},
}


def _pack(shape: Shape, device: str, *values: torch.Tensor) -> Inputs:
    """The kernel's inputs from the values of Q, K and V."""
    inputs: Inputs = {"softmax_scale": 1.0 / math.sqrt(shape["D"])}
    for name, tensor in zip(("q", "k", "v"), values, strict=True):
        inputs[name] = tensor.to(torch.float16).contiguous().to(device)
    return inputs


def _exact(inputs: Mapping[str, Any]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    q, k, v = (inputs[name].cpu().double() for name in ("q", "k", "v"))
    return q, k, v
