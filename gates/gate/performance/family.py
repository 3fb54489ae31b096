"""Judge several timed shapes together: each by its own threshold, and their geometric mean by its own.

The intervals are those of a family (``gates.stats.stopping_rule``): at most 5 % of families have a verdict that is wrong about any shape or
about the mean. The mean takes as many pairs of every shape: pair i of all shapes gives one number, the mean of their logarithms.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gates.core.records import Check, GateResult, Status, conclude, worst_status
from gates.gate.performance import codes
from gates.gate.performance.reading import GATE, SPEEDUP, Reading, standing
from gates.gate.performance.thresholds import Thresholds
from gates.stats.stopping_rule import MEAN_PAIRS, Ruling, interval, rule_at

MEAN = "geometric mean"
_OF_SPEED = (SPEEDUP, "speedup_p90", "speedup_mean", "std", "share_of_limit")
_OPEN = (Status.FAIL, Status.INCONCLUSIVE, Status.NOT_RUN)


def judge(asked: Thresholds, found: Mapping[str, GateResult], readings: Mapping[str, Reading], seed: int) -> GateResult:
    """The verdict of all shapes; ``found`` and ``readings`` are by shape."""
    checks = [check for shape, result in found.items() for check in _checks(shape, result, judged=asked.shapes[shape] is not None)]
    ruling, judged = mean_ruling(asked, readings, seed), any(check.name == SPEEDUP for check in checks)
    if asked.mean_pct is not None and judged:
        checks.append(_mean(asked.mean_pct, ruling, readings, checks))
    line = "; ".join(_told(asked, found, readings, ruling))
    status = worst_status(check.status for check in checks)
    if status is Status.PASS and not judged:
        told = next(iter(found.values()))
        return GateResult(GATE, told.status, told.code, told.sentence, tuple(checks))
    if status is Status.PASS:
        return GateResult(GATE, status, codes.PASS, line, tuple(checks))
    concluded = conclude(GATE, checks, passed=line)
    decisive = next(check for check in checks if check.status is status)
    return GateResult(GATE, status, concluded.code, line if decisive.name == SPEEDUP else f"{concluded.sentence}; {line}", tuple(checks))


def worst_first(asked: Thresholds, readings: Mapping[str, Reading]) -> list[str]:
    """The shapes with an interval, those furthest below their threshold first, those without a threshold last."""

    def margin(shape: str) -> tuple[bool, float]:
        ruling, pct = readings[shape].ruling, asked.shapes.get(shape)
        assert ruling is not None
        return pct is None, math.log(ruling.interval.ratio) - math.log1p((pct or 0.0) / 100.0)

    return sorted((shape for shape, reading in readings.items() if reading.ruling is not None), key=margin)


def mean_ruling(asked: Thresholds, readings: Mapping[str, Reading], seed: int) -> Ruling | None:
    """What the first pairs of all shapes say about the geometric mean; None if a shape has too few pairs, or no mean is asked for."""
    if asked.mean_pct is None or set(readings) != set(asked.shapes):
        return None
    taken = _means([reading.taken for reading in readings.values()])
    least_pct = statistics.fmean(reading.least_pct for reading in readings.values())
    return None if taken is None else rule_at(taken, asked.mean_pct, least_pct, seed, asked.confidence)


def _means(taken: Sequence[Sequence[float]]) -> list[float] | None:
    """The mean over shapes of each of the first pairs; None if a shape has fewer."""
    if any(len(one) < MEAN_PAIRS for one in taken):
        return None
    return [statistics.fmean(pair) for pair in zip(*(one[:MEAN_PAIRS] for one in taken), strict=True)]


def _mean(mean_pct: float, ruling: Ruling | None, readings: Mapping[str, Reading], checks: Sequence[Check]) -> Check:
    unfit = next((check for check in checks if check.status in _OPEN and check.name not in _OF_SPEED), None)
    observed = None if ruling is None else round(100.0 * (ruling.interval.ratio - 1.0), 9)
    if unfit is not None:
        return Check(SPEEDUP, Status.INCONCLUSIVE, observed, mean_pct, "%", MEAN, unfit.code, unfit.hint)
    if ruling is None:
        return Check(SPEEDUP, Status.INCONCLUSIVE, None, mean_pct, "%", MEAN, codes.TOO_FEW_PAIRS)
    in_cycles = [reading.in_cycles for reading in readings.values() if reading.in_cycles is not None]
    taken = _means(in_cycles) if len(in_cycles) == len(readings) else None
    cycles = interval(taken) if taken else None
    status, code, hint = standing(ruling, cycles.ratio if cycles else None, mean_pct)
    return Check(SPEEDUP, status, observed, mean_pct, "%", MEAN, code, hint)


def _checks(shape: str, result: GateResult, *, judged: bool) -> list[Check]:
    """The checks of one shape, each with its shape; of a shape that is not judged only those that fail."""
    checks = result.checks or (Check("timing", result.status, None, None, "", code=result.code, hint=result.sentence),)
    if not judged:
        failed = [check for check in checks if check.status is Status.FAIL]
        checks = tuple(failed) or (Check("timing", Status.PASS, "shown", None, "", "not judged"),)
    return [check if check.where.startswith(f"{shape},") else replace(check, where=f"{shape}: {check.where}") for check in checks]


def _told(asked: Thresholds, found: Mapping[str, GateResult], readings: Mapping[str, Reading], mean: Ruling | None) -> list[str]:
    """The mean, the worst shape in full, the ratios of the others, and the shapes without an interval."""
    parts = [] if asked.mean_pct is None or mean is None else [_ratio(MEAN, mean, 100.0 * asked.confidence, asked.mean_pct)]
    ordered = worst_first(asked, readings)
    if ordered:
        parts.append(f"worst shape {ordered[0]} {found[ordered[0]].sentence}" if parts else f"{ordered[0]} {found[ordered[0]].sentence}")
    parts += [f"{shape} {ruling.interval.ratio:.3f}x" for shape in ordered[1:] if (ruling := readings[shape].ruling) is not None]
    return parts + [f"{shape}: {result.sentence}" for shape, result in found.items() if shape not in ordered]


def _ratio(name: str, ruling: Ruling, confidence_pct: float, pct: float) -> str:
    seen = ruling.interval
    return (
        f"{name} {seen.ratio:.3f}x, {confidence_pct:.1f} % interval {seen.low:.3f} to {seen.high:.3f}, threshold {1.0 + pct / 100.0:.3f}, "
        f"{seen.pairs} pairs per shape"
    )
