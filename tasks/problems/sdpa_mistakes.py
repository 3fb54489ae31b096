"""Wrong answers that are known by their cause: what O would be after one of the usual slips in such a kernel.

A wrong output is compared with each, so that a failing case can say "the final division by the row sum is
left out" rather than "wrong everywhere". Each is made in float64, and only for a wrong output;
of a long sequence, for some query rows only: the others are NaN, which is not compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from tasks.problems.sdpa import hidden

_TILE = 64  # keys that a kernel takes at a time
_PADDING = (64, 32, 16)
_ROWS = 64  # query rows of a head that are worked out

Tensor = torch.Tensor
Make = Callable[[], dict[str, Tensor]]


class Mistakes:
    """The slips on float64 tensors q [B, H, Sq, D], k and v [B, H, Sk, D]."""

    def __init__(self, q: Tensor, k: Tensor, v: Tensor, factor: float, causal: bool = False) -> None:
        self.q, self.k, self.v, self.factor, self.causal = q, k, v, factor, causal

    def changed(self, attend: Callable[..., Tensor] | None = None, *, causal: bool | int | None = None, **other: Tensor | float) -> Make:
        """A maker of {"out": float64 [B, H, Sq, D]} with ``attend``(scores, v, rows) or with ``other`` q, k, v or factor.

        ``causal``: a mask where there is none, none where there is one, or one that is off by so many keys.
        """
        values = {"q": self.q, "k": self.k, "v": self.v, "factor": self.factor, **other}
        mask = self.causal if causal is None else causal
        return lambda: {"out": _some_rows(attend or exact, **values, causal=mask)}

    def common(self) -> dict[str, Make]:
        """Cause -> maker; those that change nothing for these tensors are left out."""
        keys, changed = self.k.shape[2], self.changed
        found = {
            "no final division by the row sum": changed(_undivided),
            "the accumulator is not rescaled when the maximum rises": changed(_accumulator_not_rescaled),
            "the row sum is not rescaled when the maximum rises": changed(_sum_not_rescaled),
            "softmax_scale left out": changed(factor=1.0),
            "softmax_scale applied twice": changed(factor=self.factor * self.factor),
            "scores lack the factor log2(e) before exp2": changed(factor=self.factor * math.log(2)),
            "rows of V read one late": changed(v=self.v.roll(-1, 2)),
            "rows of V read one early": changed(v=self.v.roll(1, 2)),
            "rows of K read one late": changed(k=self.k.roll(-1, 2)),
        }
        if self.causal:
            found["the causal mask left out"] = changed(causal=False)
            found["the causal mask hides the diagonal"] = changed(causal=-1)
            found["the causal mask shows one key too many"] = changed(causal=1)
            if self.q.shape[2] != keys:
                found["the causal mask aligned at the other corner"] = changed(causal=keys - self.q.shape[2])
        else:
            found["a causal mask applied"] = changed(causal=True)
        for padding in _PADDING:
            if keys % padding and not self.causal:
                found[f"keys past the end not masked, tile of {padding}"] = changed(_unmasked(-keys % padding))
        if keys > _TILE:
            found["the first tile of keys skipped"] = changed(_only(slice(_TILE, None)))
            found["the last tile of keys skipped"] = changed(_only(slice(0, (keys - 1) // _TILE * _TILE)))
            found["only the first tile of keys used"] = changed(_only(slice(0, _TILE)))
        if keys % _TILE == 0 and self.k.shape[3] == _TILE:
            found["K not transposed"] = changed(k=self.k.unflatten(2, (-1, _TILE)).transpose(-1, -2).flatten(2, 3))
        if self.k.shape[0] * self.k.shape[1] > 1:
            found["K and V of the first head for every head"] = changed(
                k=self.k[:1, :1].expand_as(self.k), v=self.v[:1, :1].expand_as(self.v))
        if self.k.shape[0] > 1:
            found["K and V of batch 0 for every batch"] = changed(k=self.k[:1].expand_as(self.k), v=self.v[:1].expand_as(self.v))
        return found


def _some_rows(attend: Callable[..., Tensor], *, q: Tensor, k: Tensor, v: Tensor, factor: float, causal: bool | int) -> Tensor:
    """``attend``(scores [B, H, rows, Sk], v, rows) at most _ROWS query rows; the others are NaN."""
    out = torch.full_like(q, math.nan)
    rows = torch.linspace(0, q.shape[2] - 1, min(_ROWS, q.shape[2])).long()
    scores = q[:, :, rows] @ k.transpose(2, 3) * factor
    if causal is not False:
        scores = scores.masked_fill(hidden(rows + (0 if causal is True else causal), k.shape[2]), -math.inf)
    out[:, :, rows] = attend(scores, v, rows)
    return out


def exact(scores: Tensor, v: Tensor, rows: Tensor) -> Tensor:
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


def _unmasked(count: int) -> Callable[..., Tensor]:
    """``count`` more keys and values that are zeros, so that their scores are 0."""
    pad = torch.nn.functional.pad
    return lambda scores, v, rows: exact(pad(scores, (0, count)), pad(v, (0, 0, 0, count)), rows)


def _only(keys: slice) -> Callable[..., Tensor]:
    return lambda scores, v, rows: exact(scores[..., keys], v[..., keys, :], rows)
