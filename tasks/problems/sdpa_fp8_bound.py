"""How far an FP8 attention kernel may be from the exact result: the raw bytes are multiplied, the scales applied to the sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tasks.problems.sdpa_bound import bound
from tasks.problems.sdpa_fp8_inputs import dequantise


def error_bound(inputs: Mapping[str, Any], shape: Mapping[str, int]) -> dict[str, torch.Tensor]:
    """{"out": float64 [B, H, S, D]}: the largest error of O that rounding explains, see sdpa_bound.py."""
    q, k = (inputs[name].cpu().view(torch.float8_e4m3fn).double() for name in ("q", "k"))
    factor = inputs["q_scale"].cpu().double() * inputs["k_scale"].cpu().double() * inputs["softmax_scale"]
    return {"out": bound(q, k, dequantise(inputs["v"], inputs["v_scale"]), factor)}
