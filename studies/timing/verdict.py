"""One verdict as the study keeps it: what the judge said, and of the samples one number a block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gates.gate.performance import judge as performance
from gates.gate.performance.evidence import PerformanceEvidence, parse
from gates.gate.performance.reading import read
from gates.gate.performance.thresholds import thresholds
from gates.stats import stopping_rule
from gates.stats.samples import BASELINE, CONTROL
from gates.stats.sampling import differences
from timing import plan


def record(raw: Mapping[str, Any], limits: Mapping[str, Any], wall_s: float) -> dict[str, Any]:
    """Judge what ``gates.gate.performance.collect`` or its session returned; plain data."""
    return of_evidence(parse(raw), limits, wall_s)


def record_family(raws: Mapping[str, Mapping[str, Any]], wall_s: float) -> dict[str, Any]:
    """Judge the evidence of several timed shapes, by name, as one task's; ``shapes`` has the interval and the clock of each."""
    return of_family({name: parse({**raw, "shape": name}) for name, raw in raws.items()}, wall_s)


def of_family(every: Mapping[str, PerformanceEvidence], wall_s: float) -> dict[str, Any]:
    """Each shape's interval is wrong so rarely that all of them together are wrong in at most 5 %."""
    limits = plan.family_limits(every)
    first, *further = every.values()
    result = performance.judge(replace(first, further=tuple(further)), limits)
    shapes: dict[str, Any] = {}
    for name, evidence in every.items():
        reading = read(evidence, "cold", 0.0, thresholds(limits).confidence)
        seen = reading.ruling.interval if reading.ruling else None
        shapes[name] = {
            "low": seen and seen.low,
            "ratio": seen and seen.ratio,
            "high": seen and seen.high,
            "pairs": len(reading.taken),
            "floor_pct": reading.floor_pct,
        }
    return {"status": result.status.value, "code": result.code, "wall_s": wall_s, "seed": first.seed, "shapes": shapes}


def of_evidence(evidence: PerformanceEvidence, limits: Mapping[str, Any], wall_s: float) -> dict[str, Any]:
    """``low`` and ``high`` are the 98.3 % interval; ``block_medians_us`` are (candidate, baseline) by pair."""
    result = performance.judge(evidence, limits)
    found: dict[str, Any] = {"status": result.status.value, "code": result.code, "wall_s": wall_s, "seed": evidence.seed}
    if not evidence.series:
        return {**found, "message": evidence.message}
    reading = read(evidence, limits.get("cache", "cold"), float(limits["min_speedup_pct"]))
    series, control = evidence.series[0], evidence.control
    assert control is not None
    seen = reading.ruling.interval if reading.ruling else None
    off = stopping_rule.interval(differences(control, BASELINE, CONTROL))
    clocks = {block.sm_mhz for block in series.blocks}
    return {
        **found,
        "ratio": seen and seen.ratio,
        "low": seen and seen.low,
        "high": seen and seen.high,
        "pairs": len(reading.taken),
        "stopped": series.stopped,
        "floor_pct": reading.floor_pct,
        "cycles_ratio": reading.cycles_ratio,
        "control": [off.low, off.ratio, off.high] if off else None,
        "invalid_pct": series.invalid_pct(),
        "sampling_s": evidence.elapsed_s,
        "launches": dict(series.launches),
        "sm_mhz": sorted(clock for clock in clocks if clock),
        "clock_source": evidence.clock_source,
        "empty_pair_us": evidence.calibration.empty_pair_us if evidence.calibration else None,
        "block_medians_us": [[one.median_us, two.median_us] for one, two in series.pairs()],
        "control_medians_us": [[one.median_us, two.median_us] for one, two in control.pairs(BASELINE, CONTROL)],
    }
