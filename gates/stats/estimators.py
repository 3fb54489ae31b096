"""Estimators over pairs and over samples.

The pair is the unit of statistics: samples of one block share the clock, the temperature and the
neighbours of that moment, so their number says little about how well a ratio is known.
"""

from __future__ import annotations

import bisect
import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

MIN_P90 = 10  # of fewer samples nine tenths are all but the slowest, or not even that


def no_p90(samples: int) -> str:
    """Return why so few samples have no p90; empty if they are enough."""
    return "" if samples >= MIN_P90 else f"a p90 needs {MIN_P90} samples, and there are {samples}"


@dataclass(frozen=True)
class Figures:
    """A summary of samples in us. ``stalled_pct`` is the share beyond median + 10 MAD; none is deleted.

    ``p90_us`` is None for fewer samples than a p90 needs; ``p90_reason`` says so.
    """

    samples: int
    p50_us: float
    p90_us: float | None
    mean_us: float
    std_us: float | None  # None below two samples
    iqr_us: float
    stalled_pct: float
    p90_reason: str = ""

    def __post_init__(self) -> None:
        for name in ("p50_us", "p90_us", "mean_us"):
            value = getattr(self, name)
            if value is None and name == "p90_us" and self.p90_reason:
                continue
            if value is None or not (0.0 < value < 1e12):
                raise ValueError(f"{name} is {value!r}, which is no time")


def figures(samples_us: Sequence[float]) -> Figures | None:
    """The summary of ``samples_us``; None where there are none."""
    if not samples_us:
        return None
    ordered = sorted(samples_us)
    middle = quantile(ordered, 0.5)
    mad = statistics.median([abs(sample - middle) for sample in ordered])
    stalled = len(ordered) - bisect.bisect_right(ordered, middle + 10.0 * mad if mad > 0 else 2 * middle)
    return Figures(
        samples=len(ordered),
        p50_us=middle,
        p90_us=None if (why := no_p90(len(ordered))) else quantile(ordered, 0.9),
        p90_reason=why,
        mean_us=statistics.fmean(ordered),
        std_us=spread(ordered),
        iqr_us=quantile(ordered, 0.75) - quantile(ordered, 0.25),
        stalled_pct=100.0 * stalled / len(ordered),
    )


def spread(samples: Sequence[float]) -> float | None:
    """Sample standard deviation; None below two samples."""
    if len(samples) < 2:
        return None
    mean = math.fsum(samples) / len(samples)
    return math.sqrt(math.fsum([(sample - mean) ** 2 for sample in samples]) / (len(samples) - 1))


def quantile(ordered: Sequence[float], share: float) -> float:
    """Quantile of sorted values, linear between neighbours (numpy's default, Hyndman and Fan's type 7)."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def walsh_averages(differences: Sequence[float]) -> list[float]:
    """Means of all pairs i <= j, sorted: n (n + 1) / 2 of them."""
    return sorted([(one + other) / 2.0 for i, one in enumerate(differences) for other in differences[i:]])


def hodges_lehmann(differences: Sequence[float]) -> float:
    """The median of the Walsh averages: the centre that belongs to the signed-rank test."""
    return statistics.median(walsh_averages(differences))


@functools.lru_cache(maxsize=64)
def signed_rank_rank(count: int, confidence: float) -> int:
    """Which Walsh average, from the lowest, is the interval's low end; 0 where ``count`` is too small.

    The largest k with 2 P(W <= k - 1) <= 1 - confidence under the exact null distribution of the
    signed-rank statistic W for ``count`` differences (Hollander and Wolfe, Nonparametric Statistical
    Methods, 3.3). SciPy has the test but not its interval.
    """
    ways = [1] + [0] * (count * (count + 1) // 2)  # ways[w]: sets of ranks 1..count that sum to w
    for rank in range(1, count + 1):
        for total in range(len(ways) - 1, rank - 1, -1):
            ways[total] += ways[total - rank]
    allowed = (1.0 - confidence) / 2.0 * 2.0**count
    tail, k = 0, 0
    for way in ways:
        tail += way
        if tail > allowed:
            return k
        k += 1
    return k


def signed_rank_interval(differences: Sequence[float], confidence: float) -> tuple[float, float] | None:
    """The exact distribution-free interval for the centre; None where there are too few differences."""
    k = signed_rank_rank(len(differences), confidence)
    if k == 0:
        return None
    averages = walsh_averages(differences)
    return averages[k - 1], averages[-k]


def bootstrap_interval(differences: Sequence[float], confidence: float, seed: int) -> tuple[float, float]:
    """Percentile bootstrap over pairs of the Hodges-Lehmann centre, 1000 resamples from ``seed``."""
    return _bootstrap(tuple(differences), confidence, seed)


@functools.lru_cache(maxsize=64)  # a command may ask for the same ruling several times
def _bootstrap(differences: tuple[float, ...], confidence: float, seed: int) -> tuple[float, float]:
    import numpy  # and not scipy.stats, whose import takes longer than all else that `gates decide` does

    values = numpy.asarray(differences, dtype=float)
    if numpy.ptp(values) == 0.0:
        return float(values[0]), float(values[0])
    first, second = numpy.triu_indices(len(values))
    generator, centres = numpy.random.default_rng(seed), list[float]()
    for _ in range(4):  # 250 resamples at a time: all 1000 take much memory
        drawn = values[generator.integers(0, len(values), (250, len(values)))]
        centres += numpy.median((drawn[:, first] + drawn[:, second]) / 2.0, axis=1).tolist()
    ordered, tail = sorted(centres), (1.0 - confidence) / 2.0
    return quantile(ordered, tail), quantile(ordered, 1.0 - tail)
