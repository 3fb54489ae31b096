"""Make the structured values "small": inputs so small that a kernel's answers are far below absolute limits.

A kernel that gives zero for small numbers keeps any absolute limit that was chosen for ordinary ones. If scaling some float inputs by
2^-k scales the exact answers by 2^-kd, element by element, it also scales a kernel's roundings, and so the limits. The search tries all
inputs, all but one, and one (both factors of a product, gain and offset of a norm). If none fits (an exponential, a hyperbolic
tangent), 1e-9 may honestly be lost beside 1, and nothing is tried.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gates.task.problem import outputs_of
from gates.task.reals import all_reals, reals

_HALF, _USUAL = 8, 30  # the inputs become 2^-8 times as large if half is among the formats, else 2^-30
_TOLERANCE = 2.0**-10  # small halves lose bits
_NORMAL = 4.0  # the largest answer stays that far above the smallest normal number
_STEPS = 8.0  # steps of subnormal numbers that a kernel may lose in between


@dataclass(frozen=True)
class Small:
    """Small inputs, and the scale and floor of their limits for ``gates.task.problem.widened``."""

    inputs: Mapping[str, Any]
    room: tuple[float, float]


def find(problem: Any, shape: Mapping[str, int], seed: int) -> Small | None:
    """Return make_inputs(shape, seed) made small; None if the answers do not scale with any inputs."""
    ordinary = problem.make_inputs(shape, seed, "cpu")
    floats = {name: value for name, value in ordinary.items() if isinstance(value, torch.Tensor) and value.is_floating_point()}
    scalable = [name for name, value in floats.items() if name in problem.ARGUMENTS and value.dtype.itemsize > 1 and value.numel()]
    if not scalable:
        return None
    outputs = (value for value in all_reals(outputs_of(problem, shape)).values() if value.is_floating_point())
    narrowest = max(
        (torch.finfo(value.dtype) for value in (*floats.values(), *outputs) if value.dtype.itemsize > 1), key=lambda info: info.tiny
    )
    exponent, before = _HALF if narrowest.tiny > 2.0**-30 else _USUAL, _evaluated(problem, ordinary, shape)
    for names in _choices(scalable) if before else ():
        made = {**ordinary, **{name: floats[name] * 2.0**-exponent for name in names}}
        after = _evaluated(problem, made, shape)
        shares = {_share(value, after.get(name), exponent, _NORMAL * narrowest.tiny) for name, value in before.items()}
        if len(shares) == 1 and (share := shares.pop()) is not None:
            return Small(made, (share, _STEPS * narrowest.tiny * narrowest.eps))
    return None


def lost(outputs: Iterable[Any]) -> float:
    """Return what a kernel may lose to subnormal numbers of these outputs' formats: a function may return halves, and no make_outputs says
    so.
    """
    formats = [torch.finfo(value.dtype) for value in map(reals, outputs) if value.is_floating_point()]
    return max((_STEPS * one.tiny * one.eps for one in formats), default=0.0)


def _choices(names: Sequence[str]) -> list[tuple[str, ...]]:
    """All names, all but one, and each alone; each choice once."""
    without = [tuple(name for name in names if name != left) for left in names]
    return list(dict.fromkeys([tuple(names), *filter(None, without), *((name,) for name in names)]))


def _share(ordinary: Any, scaled: Any, exponent: int, least: float) -> float | None:
    """The power of 2^-exponent, one at least, times which ``ordinary`` is ``scaled``; None if there is none, or all is below ``least``."""
    if not isinstance(scaled, torch.Tensor) or scaled.shape != ordinary.shape or not ordinary.is_floating_point() or not ordinary.numel():
        return None
    was, now = ordinary.to(torch.float64), scaled.to(torch.float64)
    largest, left = float(was.abs().max()), float(now.abs().max())
    if not least <= left < largest < math.inf:
        return None
    share = 2.0 ** -(exponent * round(math.log2(largest / left) / exponent))
    return share if share < 1.0 and bool(((now - was * share).abs() <= _TOLERANCE * largest * share).all()) else None


def _evaluated(problem: Any, inputs: Mapping[str, Any], shape: Mapping[str, int]) -> dict[str, Any]:
    with contextlib.suppress(Exception):  # the problem is the user's code
        return all_reals(problem.reference(inputs, shape))
    return {}
