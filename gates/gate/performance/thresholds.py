"""What task.yaml asks of speed: a threshold for each timed shape, or one for the geometric mean of their speed-ups.

Three forms: ``shape: mission, min_speedup_pct: 15``; ``shapes: {mission: 15, long: 5, tiny: null}``, where a shape without a threshold is
timed and shown; ``shapes: [mission, long], min_speedup_pct: 15, no_regression_pct: 2``, where 15 % is asked of the mean and no shape may be
slower by 2 % or more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gates.stats.stopping_rule import LOOKS, MEAN_PAIRS, family_confidence


@dataclass(frozen=True)
class Thresholds:
    """Least speed-ups in percent, by shape (None: not judged) and of the geometric mean (None: not judged)."""

    shapes: Mapping[str, float | None]
    mean_pct: float | None = None

    @property
    def first(self) -> str:
        """The shape that is profiled, swept and shown where there is room for one."""
        return next(iter(self.shapes))

    @property
    def confidence(self) -> float:
        """The confidence of each interval, so that all of them together are wrong as rarely as one alone."""
        return family_confidence(max(1, sum(pct is not None for pct in (*self.shapes.values(), self.mean_pct))))

    @property
    def least_pairs(self) -> int:
        """Pairs that each shape needs before it may stop."""
        return LOOKS[0] if self.mean_pct is None else MEAN_PAIRS


def thresholds(limits: Mapping[str, Any]) -> Thresholds:
    """The thresholds of task.yaml's ``performance`` section."""
    named = limits.get("shapes")
    if named is None:
        return Thresholds({limits["shape"]: float(limits["min_speedup_pct"])})
    if isinstance(named, Mapping):
        return Thresholds({shape: None if pct is None else float(pct) for shape, pct in named.items()})
    return Thresholds(dict.fromkeys(named, -float(limits["no_regression_pct"])), float(limits["min_speedup_pct"]))


def comparable(limits: Mapping[str, Any], others: Mapping[str, Any]) -> Mapping[str, Any]:
    """``limits`` as terms to hold against ``others``: by shape as soon as one of both names several shapes."""
    if "shapes" not in limits and "shapes" not in others or not limits:
        return limits
    asked = thresholds(limits)
    rest = {key: value for key, value in limits.items() if key not in ("shape", "shapes", "min_speedup_pct", "no_regression_pct")}
    judged = {shape: _number(pct) for shape, pct in asked.shapes.items() if pct is not None}
    return {**rest, "shapes": judged, **({} if asked.mean_pct is None else {"min_speedup_pct": _number(asked.mean_pct)})}


def _number(pct: float) -> float:
    """A whole number of percent as task.yaml has it."""
    return int(pct) if pct.is_integer() else pct


def one_shape(limits: Mapping[str, Any]) -> dict[str, Any]:
    """The terms by which two variants are compared: the first shape's p50, and any gain counts."""
    first = limits["shape"] if "shape" in limits else next(iter(limits["shapes"]))
    return {"shape": first, "cache": limits.get("cache", "cold"), "min_speedup_pct": 0.0, "metrics": ["p50"]}
