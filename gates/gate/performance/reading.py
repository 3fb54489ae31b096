"""What the samples of one shape say about its threshold; used by the performance judge and by reports."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gates.core.records import Status
from gates.gate.performance import codes
from gates.gate.performance.evidence import PerformanceEvidence, summaries
from gates.stats import stopping_rule
from gates.stats.samples import BASELINE, CANDIDATE, CONTROL
from gates.stats.sampling import clockwork_pct, cycle_differences, differences

GATE, SPEEDUP = "performance", "speedup_p50"


@dataclass(frozen=True)
class Reading:
    """What the samples say, for the report: the ruling on the threshold, the floor, and what disagrees."""

    mode: str
    taken: tuple[float, ...]  # ln(baseline / candidate) of each pair
    in_cycles: tuple[float, ...] | None  # the same in clock cycles; None if the clock of a block is unknown
    ruling: stopping_rule.Ruling | None
    floor_pct: float | None
    least_pct: float  # the least gain that can be told: the floor and the event pairs' shares
    confidence: float
    cycles_ratio: float | None
    other_mode: str
    other: stopping_rule.Interval | None


def read(evidence: PerformanceEvidence, mode: str, bar_pct: float, confidence: float = stopping_rule.CONFIDENCE) -> Reading:
    """The ratio, its interval and its noise floor, computed again from the samples."""
    floor = _floor(evidence)
    series = evidence.in_mode(mode)
    other = next((series for series in evidence.series if series.mode != mode), None)
    taken = tuple(differences(series)) if series else ()
    empty_pair_us = evidence.calibration.empty_pair_us if evidence.calibration else math.inf
    least = math.inf if floor is None or series is None else floor + clockwork_pct(series, empty_pair_us)
    ruling = stopping_rule.rule(taken, bar_pct, least, evidence.seed or 0, confidence)
    in_cycles = cycle_differences(series) if series else None
    cycles = None
    if ruling is not None and in_cycles is not None:
        found = stopping_rule.interval(in_cycles[: ruling.interval.pairs])
        cycles = found.ratio if found else None
    return Reading(
        mode,
        taken,
        tuple(in_cycles) if in_cycles else None,
        ruling,
        floor,
        least,
        confidence,
        cycles,
        other.mode if other else "",
        stopping_rule.interval(differences(other), confidence) if other else None,
    )


def sentence(evidence: PerformanceEvidence, reading: Reading, bar_pct: float | None) -> str:
    """One line for people: ratio, interval, threshold, noise floor, pairs, mode, and what to know besides."""
    none, bar_pct = bar_pct is None, bar_pct or 0.0
    floor = "unknown" if reading.floor_pct is None else f"{reading.floor_pct:.2f} %"
    notes = [] if evidence.clock_source == "nvml" else [f"clock {evidence.clock_source}"]
    if evidence.warm_up and evidence.warm_up.power_limited:
        notes.append("power-limited")
    if reading.ruling is None:
        figures = summaries(evidence).get(reading.mode, {}).get(CANDIDATE)
        p50 = f"p50 {figures.p50_us:.3f} us" if figures else "no samples"
        return "; ".join([f"{p50}, noise floor {floor}, {reading.mode} L2", *notes])
    seen = reading.ruling.interval
    if reading.other and (other := reading.other.outcome(bar_pct)) not in (stopping_rule.OPEN, reading.ruling.outcome):
        notes.insert(0, f"with {reading.other_mode} L2 it is {reading.other.ratio:.3f}, {other} the threshold")
    if seen.outcome(bar_pct) == stopping_rule.OPEN:
        notes.insert(
            0, f"half width {seen.half_width_pct:.2f} %, a ratio of {(1 + bar_pct / 100) * (1 + seen.half_width_pct / 100):.3f} would pass"
        )
    bar = 1.0 + bar_pct / 100.0
    places = next((n for n in range(3, 10) if all(f"{one:.{n}f}" != f"{bar:.{n}f}" for one in (seen.ratio, seen.low, seen.high))), 3)
    return "; ".join(
        [
            f"{seen.ratio:.{places}f}x, {100 * reading.confidence:.1f} % interval {seen.low:.{places}f} to {seen.high:.{places}f}, "
            f"{'no threshold' if none else f'threshold {bar:.{places}f}'}, noise floor {floor}, {seen.pairs} pairs, {reading.mode} L2",
            *notes,
        ]
    )


def standing(ruling: stopping_rule.Ruling, cycles_ratio: float | None, bar_pct: float) -> tuple[Status, str, str]:
    """(status, code, hint) of a ratio against its threshold."""
    if ruling.within_noise:
        return Status.INCONCLUSIVE, codes.WITHIN_NOISE, "quieten the machine; to claim no gain, ask for a little less than 0 %"
    if ruling.outcome == stopping_rule.OPEN:
        disagree = ruling.interval.outcome(bar_pct) != stopping_rule.OPEN
        code = codes.ESTIMATES_DISAGREE if disagree else codes.BAR_WITHIN_INTERVAL
        return Status.INCONCLUSIVE, code, "the speed-up is as good as at the threshold; make the kernel faster"
    above = ruling.outcome == stopping_rule.ABOVE
    if cycles_ratio is not None and (math.log(cycles_ratio) >= math.log1p(bar_pct / 100.0) - 1e-9) != above:
        return Status.INCONCLUSIVE, codes.CLOCK_DIFFERED, f"in clock cycles the ratio is {cycles_ratio:.3f}"
    if above:
        return Status.PASS, "", ""
    return Status.FAIL, codes.TOO_SLOW, "see the ncu counters for what bounds the kernel"


def _floor(evidence: PerformanceEvidence) -> float | None:
    if evidence.control is None:
        return None
    twin = BASELINE if evidence.baseline is not None else CANDIDATE
    found = stopping_rule.interval(differences(evidence.control, twin, CONTROL))
    return stopping_rule.noise_floor_pct(found) if found else None
