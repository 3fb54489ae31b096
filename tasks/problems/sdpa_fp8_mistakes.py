"""The slips of sdpa_mistakes.py, and those with the scales of FP8 inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tasks.problems.sdpa_fp8_inputs import dequantise
from tasks.problems.sdpa_mistakes import Make, Mistakes


def mistakes(inputs: Mapping[str, Any], shape: Mapping[str, int]) -> dict[str, Make]:
    """Cause -> maker of {"out": float64 [B, H, S, D]}; those that change nothing for ``shape`` are left out."""
    q, k, v = (dequantise(inputs[name], inputs[f"{name}_scale"]) for name in ("q", "k", "v"))
    raw = {name: inputs[name].cpu().view(torch.float8_e4m3fn).double() for name in ("q", "k", "v")}
    slips = Mistakes(q, k, v, float(inputs["softmax_scale"]))
    found = slips.common()
    for name in ("v", "k", "q"):
        found[f"{name}_scale left out"] = slips.changed(**{name: raw[name]})
    if shape["H"] > 1 or shape["B"] > 1:
        for name in ("k", "v"):
            scales = inputs[f"{name}_scale"].cpu().double()[..., None, None]
            found[f"{name}_scale of the first head for every head"] = slips.changed(**{name: raw[name] * scales[:1, :1]})
            found[f"{name}_scale of the next head"] = slips.changed(
                **{name: raw[name] * scales.flatten().roll(-1).reshape(scales.shape)})
    return found
