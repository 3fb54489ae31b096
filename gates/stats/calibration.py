"""How many launches make one sample, given the timer's step and the cost of an empty event pair."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

MIN_STEPS = 200  # a sample is at least so many timer steps long,
MIN_EMPTY_PAIRS = 20  # so many empty event pairs,
MIN_SAMPLE_US = 500.0  # and so long
MAX_LAUNCHES = 1000
MAX_OVERHEAD_PCT = 100.0 / MIN_EMPTY_PAIRS
_SAME_US = 1e-4  # elapsed values closer than this differ by float rounding only


@dataclass(frozen=True)
class Calibration:
    """What the clockwork costs: nothing of it is ever subtracted from a figure.

    ``empty_kernel_us`` is the time of a kernel that does nothing, as a node of a CUDA graph: the
    part of every figure that no kernel can avoid.
    """

    timer_step_us: float
    empty_pair_us: float
    empty_kernel_us: float | None

    def overhead_pct(self, sample_us: float) -> float:
        """The share of one sample's length that the event pair around it takes, in percent."""
        return 100.0 * self.empty_pair_us / sample_us

    def too_coarse(self, sample_us: float) -> bool:
        """Whether a sample of this length is too short for the timer."""
        return not (sample_us >= MIN_STEPS * self.timer_step_us and self.overhead_pct(sample_us) <= MAX_OVERHEAD_PCT)


def timer(elapsed_us: Sequence[float]) -> tuple[float, float]:
    """(step, empty pair) in us from the elapsed values of many empty event pairs.

    The step is the smallest difference between distinct values. A timer that only ever shows one
    value is taken to have a step of that value (of 1 us where it is zero): nothing finer was seen.
    """
    distinct = sorted(set(elapsed_us))
    gaps = [high - low for low, high in itertools.pairwise(distinct) if high - low > _SAME_US]
    middle = max(statistics.median(elapsed_us), 0.0)
    return (min(gaps) if gaps else middle or 1.0), middle


def launches(kernel_us: float, timer_step_us: float, empty_pair_us: float) -> int:
    """Launches a sample for a kernel of ``kernel_us``: 1 to 1000."""
    needed_us = max(MIN_STEPS * timer_step_us, MIN_EMPTY_PAIRS * empty_pair_us, MIN_SAMPLE_US)
    return max(1, min(MAX_LAUNCHES, math.ceil(needed_us / kernel_us)))
