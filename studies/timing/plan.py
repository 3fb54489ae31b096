"""What the study asks, in the order in which it asks: what matters most comes first, since time may run out."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SIZES_US = {"4 us": 4.0, "100 us": 100.0, "10 us": 10.0, "2 ms": 2000.0}
MAIN = ("4 us", "100 us")
FAMILY, FAMILIES = ("4 us", "10 us", "100 us"), 50
TRUTHS = (1.13, 1.17)
BAR_PCT = 15.0
FIT_STEPS = (200, 400, 800, 1200, 1600, 2400, 4000, 8000, 40000, 400000)
LIMITS = {"shape": "wide", "metrics": ["p50"]}
OUTPUT_LIMITS = {"max_abs_err": 0.0, "mean_abs_err": 0.0, "bad_pct": 0.0, "bad_atol": 0.0}


@dataclass(frozen=True)
class Cell:
    """``gates`` verdicts on one pair. ``truth`` is the ratio asked for; the measured one is recorded beside."""

    size: str
    truth: float
    bar_pct: float
    gates: int

    @property
    def name(self) -> str:
        return f"{self.size}, truth {self.truth:.2f}, bar {self.bar_pct:g} %"


@dataclass(frozen=True)
class Line:
    """us a launch = ``floor_us`` + steps * ``step_us``; ``worst_pct`` is the largest residual in percent of the time."""

    floor_us: float
    step_us: float
    worst_pct: float

    def time_us(self, steps: int) -> float:
        return self.floor_us + steps * self.step_us

    def steps(self, time_us: float) -> int:
        """Steps of a kernel that takes about ``time_us``."""
        return max(8, round((time_us - self.floor_us) / self.step_us))


def fit(points: Mapping[int, float]) -> Line:
    """The straight line through (steps, us) by least squares of relative residuals."""
    weights = {steps: us**-2 for steps, us in points.items()}
    total = sum(weights.values())
    x = sum(weights[steps] * steps for steps in points) / total
    y = sum(weights[steps] * us for steps, us in points.items()) / total
    slope = sum(weights[s] * (s - x) * (us - y) for s, us in points.items()) / sum(weights[s] * (s - x) ** 2 for s in points)
    floor = y - slope * x
    worst = max(abs(floor + slope * steps - us) / us for steps, us in points.items())
    return Line(floor, slope, 100.0 * worst)


def cells(scale: float, sizes: Sequence[str]) -> list[Cell]:
    """20 gates a truth on either side of the threshold at each of ``sizes``."""
    return [Cell(size, truth, BAR_PCT, max(1, round(20 * scale))) for size in sizes for truth in TRUTHS]


def same(scale: float) -> list[Cell]:
    """One kernel against its copy, with no gain asked for: 25 gates at each of the two main sizes."""
    return [Cell(size, 1.0, 0.0, max(1, round(25 * scale))) for size in MAIN]


def family_limits(shapes: Iterable[str]) -> dict[str, Any]:
    """task.yaml's ``performance`` section for a family: no gain is asked for at any of ``shapes``."""
    return {"shapes": dict.fromkeys(shapes, 0.0), "metrics": ["p50"]}


def chain_steps(line: Line) -> dict[str, dict[str, int]]:
    """Steps of the candidate ("1.00") and of the baselines ("1.13", "1.17") by size."""
    return {size: {f"{truth:.2f}": line.steps(us * truth) for truth in (1.0, *TRUTHS)} for size, us in SIZES_US.items()}


def ratio_of_means(rounds: Sequence[Mapping[str, float]], side: str) -> float:
    """Mean block median of ``side`` over that of the candidate, in interleaved rounds."""
    return statistics.fmean(one[side] for one in rounds) / statistics.fmean(one["1.00"] for one in rounds)


def rounded(value: Any, digits: int = 6) -> Any:
    """The same data with floats of at most ``digits`` significant digits: more is noise, and takes room."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {key: rounded(item, digits) for key, item in value.items()}
    return [rounded(item, digits) for item in value] if isinstance(value, (list, tuple)) else value
