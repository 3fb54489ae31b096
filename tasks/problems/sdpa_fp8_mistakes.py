"""Wrong answers that are known by their cause: what O would be after one of the usual slips in such a kernel.

A wrong output is compared with each, so that a failing case can say "the final division by the row sum is
left out" rather than "wrong everywhere". Each is made in float64, and only for a wrong output;
of a long sequence, for some query rows only: the others are NaN, which is not compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tasks.problems.sdpa_fp8_inputs import dequantise

_TILE = 64  # keys that the kernel takes at a time
_PADDING = (64, 32, 16)
_ROWS = 64  # query rows of a head that are worked out

Tensor = torch.Tensor
Make = Callable[[], dict[str, Tensor]]


def mistakes(inputs: Mapping[str, Any], shape: Mapping[str, int]) -> dict[str, Make]:
    """Cause -> maker of {"out": float64 [B, H, S, D]}; those that change nothing for ``shape`` are left out."""
    q, k, v = (dequantise(inputs[name], inputs[f"{name}_scale"]) for name in ("q", "k", "v"))
    raw = {name: inputs[name].cpu().view(torch.float8_e4m3fn).double() for name in ("q", "k", "v")}
    factor, length = float(inputs["softmax_scale"]), shape["S"]

    def changed(attend: Callable[..., Tensor], *, q: Tensor = q, k: Tensor = k, v: Tensor = v, factor: float = factor) -> Make:
        return lambda: {"out": _some_rows(attend, q, k, v, factor)}

    found = {
        "no final division by the row sum": changed(_undivided),
        "the accumulator is not rescaled when the maximum rises": changed(_accumulator_not_rescaled),
        "the row sum is not rescaled when the maximum rises": changed(_sum_not_rescaled),
        "softmax_scale left out": changed(_exact, factor=1.0),
        "softmax_scale applied twice": changed(_exact, factor=factor * factor),
        "scores lack the factor log2(e) before exp2": changed(_exact, factor=factor * math.log(2)),
        "v_scale left out": changed(_exact, v=raw["v"]),
        "k_scale left out": changed(_exact, k=raw["k"]),
        "q_scale left out": changed(_exact, q=raw["q"]),
        "rows of V read one late": changed(_exact, v=v.roll(-1, 2)),
        "rows of V read one early": changed(_exact, v=v.roll(1, 2)),
        "rows of K read one late": changed(_exact, k=k.roll(-1, 2)),
        "a causal mask applied": changed(_causal),
    }
    for padding in _PADDING:
        if length % padding:
            found[f"keys past the end not masked, tile of {padding}"] = changed(_unmasked(-length % padding))
    if length > _TILE:
        found["the first tile of keys skipped"] = changed(_only(slice(_TILE, None)))
        found["the last tile of keys skipped"] = changed(_only(slice(0, (length - 1) // _TILE * _TILE)))
        found["only the first tile of keys used"] = changed(_only(slice(0, _TILE)))
    if length % _TILE == 0 and shape["D"] == _TILE:
        tiles = k.unflatten(2, (-1, _TILE)).transpose(-1, -2).flatten(2, 3)
        found["K not transposed"] = changed(_exact, k=tiles)
    if shape["H"] > 1 or shape["B"] > 1:
        for name in ("k", "v"):
            scales = inputs[f"{name}_scale"].cpu().double()[..., None, None]
            found[f"{name}_scale of the first head for every head"] = changed(_exact, **{name: raw[name] * scales[:1, :1]})
            found[f"{name}_scale of the next head"] = changed(
                _exact, **{name: raw[name] * scales.flatten().roll(-1).reshape(scales.shape)})
        found["K and V of the first head for every head"] = changed(
            _exact, k=k[:1, :1].expand_as(k), v=v[:1, :1].expand_as(v))
    if shape["B"] > 1:
        found["K and V of batch 0 for every batch"] = changed(_exact, k=k[:1].expand_as(k), v=v[:1].expand_as(v))
    return found


def _some_rows(attend: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, factor: float) -> Tensor:
    """``attend``(scores [B, H, rows, S], v, rows) at most _ROWS query rows; the others are NaN."""
    out = torch.full_like(q, math.nan)
    rows = torch.linspace(0, q.shape[2] - 1, min(_ROWS, q.shape[2])).long()
    out[:, :, rows] = attend(q[:, :, rows] @ k.transpose(2, 3) * factor, v, rows)
    return out


def _exact(scores: Tensor, v: Tensor, rows: Tensor) -> Tensor:
    return torch.softmax(scores, dim=-1) @ v


def _undivided(scores: Tensor, v: Tensor, rows: Tensor) -> Tensor:
    return torch.exp(scores - scores.amax(dim=-1, keepdim=True)) @ v


def _running_maximum(scores: Tensor) -> Tensor:
    """For each key, the row's maximum over its tile and those before."""
    tiles = [tile.amax(dim=-1, keepdim=True).expand_as(tile) for tile in scores.split(_TILE, dim=-1)]
    return torch.cat(tiles, dim=-1).cummax(dim=-1).values


def _accumulator_not_rescaled(scores: Tensor, v: Tensor, rows: Tensor) -> Tensor:
    kept = torch.exp(scores - _running_maximum(scores)) @ v
    return kept / torch.exp(scores - scores.amax(dim=-1, keepdim=True)).sum(dim=-1, keepdim=True)


def _sum_not_rescaled(scores: Tensor, v: Tensor, rows: Tensor) -> Tensor:
    return _undivided(scores, v, rows) / torch.exp(scores - _running_maximum(scores)).sum(dim=-1, keepdim=True)


def _causal(scores: Tensor, v: Tensor, rows: Tensor) -> Tensor:
    return _exact(scores.masked_fill(torch.arange(scores.shape[-1]) > rows[:, None], -math.inf), v, rows)


def _unmasked(count: int) -> Callable[..., Tensor]:
    """``count`` more keys and values that are zeros, so that their scores are 0."""
    pad = torch.nn.functional.pad
    return lambda scores, v, rows: _exact(pad(scores, (0, count)), pad(v, (0, 0, 0, count)), rows)


def _only(keys: slice) -> Callable[..., Tensor]:
    return lambda scores, v, rows: _exact(scores[..., keys], v[..., keys, :], rows)
