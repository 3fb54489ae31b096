"""The rule by which pairs decide about a threshold; the sampler stops by it and the judge repeats it.

A ratio is baseline / candidate: 1.15 is a speed-up of 15 %. Looks are planned (12, 24 and 48 pairs)
and paid for with 98.3 % intervals: looking after every pair at 95 % would be wrong at the threshold in
about one of five gates.

Several thresholds judged together (a family) share the chance of an error: each gets an interval that is wrong in that share of 1.7 %
(Bonferroni), whatever the ratios have in common. The geometric mean of several shapes is judged once, at ``MEAN_PAIRS`` pairs of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gates.stats.estimators import bootstrap_interval, hodges_lehmann, signed_rank_interval

LOOKS = (12, 24, 48)
CONFIDENCE = 0.983
MEAN_PAIRS = LOOKS[1]
CONTROL_LIMIT_PCT = 2.0
ABOVE, BELOW, OPEN = "above", "below", "open"
_ROUNDING = 1e-9  # of a logarithm: far below any timer, far above float rounding, so a bar met exactly is met


@dataclass(frozen=True)
class Interval:
    """A ratio with its interval, from the first ``pairs`` pairs."""

    pairs: int
    ratio: float
    low: float
    high: float

    @property
    def half_width_pct(self) -> float:
        return 50.0 * (self.high - self.low)

    @property
    def reach_pct(self) -> float:
        """Return the larger distance of its two ends from 1, in percent."""
        return 100.0 * max(abs(self.low - 1.0), abs(self.high - 1.0))

    def outcome(self, bar_pct: float) -> str:
        """``above``: the low end reaches the threshold. ``below``: the high end does not. Else ``open``."""
        bar = math.log1p(bar_pct / 100.0)
        if math.log(self.low) >= bar - _ROUNDING:
            return ABOVE
        return BELOW if math.log(self.high) < bar - _ROUNDING else OPEN


@dataclass(frozen=True)
class Ruling:
    """What the pairs say about a threshold. ``outcome`` is open unless both intervals agree that it is clear."""

    outcome: str
    interval: Interval
    bootstrap: Interval | None  # computed where the exact interval was clear
    within_noise: bool  # the whole gain, or loss, is no larger than what two loads of one binary may show


def family_confidence(members: int) -> float:
    """The confidence of each interval if ``members`` of them are judged together."""
    return 1.0 - (1.0 - CONFIDENCE) / members


def interval(differences: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Centre and exact interval of exp(``differences``); None below about 8 pairs, and below 12 in a family of more than 34."""
    ends = signed_rank_interval(differences, confidence)
    if ends is None:
        return None
    return Interval(len(differences), math.exp(hodges_lehmann(differences)), math.exp(ends[0]), math.exp(ends[1]))


def noise_floor_pct(control: Interval) -> float:
    """Return the smallest difference that the A/A control can resolve, in percent."""
    return control.reach_pct


def control_fits(control: Interval | None) -> bool:
    """Whether the A/A interval lies wholly within 1 +- 2 %."""
    return control is not None and noise_floor_pct(control) <= CONTROL_LIMIT_PCT


def control_may_fit(control: Interval | None) -> bool:
    """Whether more pairs could bring the A/A interval within 1 +- 2 %: some of it is."""
    return control is not None and max(control.low - 1.0, 1.0 - control.high) <= CONTROL_LIMIT_PCT / 100.0


def rule_at(differences: Sequence[float], bar_pct: float, floor_pct: float, seed: int, confidence: float = CONFIDENCE) -> Ruling | None:
    """The ruling from all ``differences``; None where they are too few for an interval.

    ``floor_pct`` is the least difference that can be told: the noise floor and the share of the clockwork. A threshold below 0 % claims
    no gain. In a family, one of 0 % or less is a guard against a loss, which must be larger than that, too.
    """
    exact = interval(differences, confidence)
    if exact is None:
        return None
    outcome = exact.outcome(bar_pct)
    if outcome == OPEN:
        return Ruling(OPEN, exact, None, False)
    low, high = bootstrap_interval(differences, confidence, seed)
    second = Interval(exact.pairs, exact.ratio, math.exp(low), math.exp(high))
    claims = bar_pct >= 0.0 if outcome == ABOVE else bar_pct <= 0.0 and confidence > CONFIDENCE
    within_noise = claims and 100.0 * abs(exact.ratio - 1.0) <= floor_pct
    agreed = second.outcome(bar_pct) == outcome and not within_noise
    return Ruling(outcome if agreed else OPEN, exact, second, within_noise)


def rule(differences: Sequence[float], bar_pct: float, floor_pct: float, seed: int, confidence: float = CONFIDENCE) -> Ruling | None:
    """The ruling of the first planned look that is clear, else of the last one that was reached."""
    ruling = None
    for look in LOOKS:
        if len(differences) < look:
            break
        ruling = rule_at(differences[:look], bar_pct, floor_pct, seed, confidence)
        if ruling is not None and ruling.outcome != OPEN:
            break
    return ruling
