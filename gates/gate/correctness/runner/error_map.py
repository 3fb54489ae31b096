"""Where an output is wrong: index ranges of each axis, stripes, the first wrong elements.

What the wrong values look like instead is ``gates.gate.correctness.runner.likeness``. The result is the JSON form of
``gates.gate.correctness.error_map.ErrorMap``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from gates.gate.correctness.runner.likeness import likenesses, sub
from gates.gate.correctness.runner.threads import one_thread

_STRAY = 0.05  # an index with fewer wrong elements than this share of the fullest index's is no part of the pattern
_MOST_RANGES = 8
_MOST_ELEMENTS = 5
_PERIODS = (16, 32, 64, 128)  # fragments, warps' strips and tiles come in these


def error_map(
    got: torch.Tensor,
    want: torch.Tensor,
    bad: torch.Tensor,
    *,
    limit: str,
    axes: Sequence[str] = (),
    roundoff: float = 0.0,
    others: Mapping[str, Callable[[], torch.Tensor]] | None = None,
) -> dict[str, Any] | None:
    """The map of the elements where ``bad`` is set, as plain data; None where none is.

    ``got``, ``want``, ``bad``: one shape, on the CPU; ``want`` float64. ``limit`` says in words what ``bad``
    means. ``axes``: names of the axes, "axis 0" and so on where there are none. ``roundoff``: unit roundoff of
    the output's format. ``others``: wrong answers to compare with, made only here.
    """
    if not bool(bad.any()):
        return None
    with one_thread():
        return _map(got, want, bad, limit, axes, roundoff, others or {})


def _map(
    got: torch.Tensor,
    want: torch.Tensor,
    bad: torch.Tensor,
    limit: str,
    axes: Sequence[str],
    roundoff: float,
    others: Mapping[str, Callable[[], torch.Tensor]],
) -> dict[str, Any]:
    if got.dim() == 0:
        got, want, bad = got.reshape(1), want.reshape(1), bad.reshape(1)
    plain, want = got.to(torch.float64), want.to(torch.float64)
    names = list(axes) if len(axes) == got.dim() else [f"axis {i}" for i in range(got.dim())]
    chosen = [_indices(bad, axis) for axis in range(bad.dim())]
    inside, joined = sub(bad, chosen), _joined(bad, chosen, names)
    fewer = joined["indices"] / math.prod(len(index) for index in chosen[:-2]) if joined else 1.0
    finite = torch.isfinite(plain)
    both = bad & finite & torch.isfinite(want)
    error, size = (plain - want)[both], want[both]
    largest = float(torch.where(torch.isfinite(want), want, 0.0).abs().max())
    rows = bad.reshape(-1, bad.shape[-1]).any(dim=1)
    return {
        "limit": limit,
        "elements": bad.numel(),
        "bad": int(bad.sum()),
        "nonfinite": int((bad & ~finite).sum()),
        "infinite": int((bad & torch.isinf(plain)).sum()),
        "outside": int(bad.sum()) - int(inside.sum()),
        "filled": round(min(1.0, float(inside.double().mean()) / fewer), 6),
        "rows": int(rows.sum()),
        "rows_of": rows.numel(),
        "relative": _finite(float(error.norm() / size.norm())) if error.numel() and float(size.norm()) > 0 else None,
        "largest_roundoffs": _finite(float(error.abs().max()) / (roundoff * largest)) if error.numel() and roundoff * largest > 0 else None,
        "axes": [_span(name, size, index.tolist()) for name, size, index in zip(names, bad.shape, chosen, strict=True)],
        "joined": joined,
        "first": _first(plain, want, bad),
        "likenesses": likenesses(plain, want, bad, chosen, names, others),
    }


def _joined(bad: torch.Tensor, chosen: Sequence[torch.Tensor], names: Sequence[str]) -> dict[str, Any] | None:
    """The span of all axes before the last two as one, where it holds fewer indices than those axes by themselves."""
    if bad.dim() < 4:
        return None
    flat = bad.flatten(0, bad.dim() - 3)
    index = _indices(flat, 0)
    if len(index) >= math.prod(len(one) for one in chosen[:-2]):
        return None
    return _span("·".join(names[:-2]), flat.shape[0], index.tolist())


def _indices(bad: torch.Tensor, axis: int) -> torch.Tensor:
    """The indices of ``axis`` that hold wrong elements, without those that hold a few strays."""
    others = [i for i in range(bad.dim()) if i != axis]
    counts = bad.sum(dim=others) if others else bad.long()
    return torch.nonzero(counts >= max(1.0, _STRAY * float(counts.max()))).reshape(-1)


def _span(name: str, size: int, indices: list[int]) -> dict[str, Any]:
    ranges: list[list[int]] = []
    for index in indices:
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return {
        "name": name,
        "size": size,
        "indices": len(indices),
        "ranges": ranges[:_MOST_RANGES],
        "stripe": _stripe(size, indices) if len(ranges) > 1 else None,
    }


def _stripe(size: int, indices: list[int]) -> list[int] | None:
    """(period, first, last) where the wrong indices are those with first <= index mod period <= last, at least twice."""
    wrong = set(indices)
    for period in _PERIODS:
        if size < 2 * period:
            break
        places = {index % period for index in wrong}
        first, last = min(places), max(places)
        expected = {index for index in range(size) if first <= index % period <= last}
        if last - first + 1 < period and len(expected - wrong) <= 0.02 * len(expected):
            return [period, first, last]
    return None


def _first(got: torch.Tensor, want: torch.Tensor, bad: torch.Tensor) -> list[dict[str, Any]]:
    found = torch.nonzero(bad)[:_MOST_ELEMENTS]
    return [{"index": place, "expected": _number(want[tuple(place)]), "got": _number(got[tuple(place)])} for place in found.tolist()]


def _number(value: torch.Tensor) -> float | str:
    plain = float(value)
    return plain if math.isfinite(plain) else str(plain)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
