"""A run's candidate against the baseline that the same run built and measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gates.comparison.machine_code import machine_code
from gates.comparison.record import SCHEMA_VERSION, Comparison, SideInfo, Speed
from gates.comparison.sections import sections
from gates.evidence.judging import load_evidence, looser_terms
from gates.evidence.run_directory import RunInfo, TaskInfo, Verdict
from gates.gate.performance.evidence import MEASURED, PerformanceEvidence
from gates.gate.performance.family import worst_first
from gates.gate.performance.reading import Reading, read
from gates.gate.performance.thresholds import thresholds
from gates.stats.stopping_rule import ABOVE, BELOW


def compare_within(run: Path, info: RunInfo, verdict: Verdict) -> Comparison:
    """A run's candidate against the baseline of the same run."""
    evidence = load_evidence(run)
    other = load_evidence(run / "baseline")
    ours = side(info.task, None, info)
    base = side(info.baseline, None, info) if info.baseline else None
    speeds = speeds_of(evidence, info.task.limits.get("performance", {}))
    return Comparison(
        SCHEMA_VERSION,
        base,
        ours,
        verdict.decision,
        verdict.reason,
        verdict.gates,
        speed_of(evidence),
        (*slower_notes(speeds), *policy_notes(looser_terms(info.task, info.baseline)), *override_notes(info), *weak_notes(verdict)),
        tuple(sections(other, evidence, evidence)),
        speeds,
        machine_code(other, evidence, evidence),
    )


def speed_of(evidence: Mapping[str, Any]) -> Speed | None:
    """The speed-up that a run measured in interleaved pairs on its first timed shape; None where it measured none."""
    performance = evidence.get("performance")
    return None if performance is None else _speed(performance)


def speeds_of(evidence: Mapping[str, Any], limits: Mapping[str, Any]) -> tuple[Speed, ...]:
    """The speed-up on each timed shape, the worst first, if the run timed several."""
    performance = evidence.get("performance")
    if performance is None or not performance.further:
        return ()
    measured = {one.shape: one for one in performance.every_shape() if _speed(one) is not None}
    readings = {shape: _reading(one) for shape, one in measured.items()}
    asked = thresholds(limits)
    found = ((asked.shapes.get(shape), _speed(measured[shape])) for shape in worst_first(asked, readings))
    return tuple(replace(speed, bar_pct=pct) for pct, speed in found if speed is not None)


def _reading(performance: PerformanceEvidence) -> Reading:
    return read(performance, performance.gated_mode, performance.bar_pct or 0.0, performance.confidence)


def _speed(performance: PerformanceEvidence) -> Speed | None:
    if performance.status != MEASURED or performance.baseline is None:
        return None
    reading = _reading(performance)
    if reading.ruling is None:
        return None
    found, other = reading.ruling.interval, reading.other
    outcomes = {one.outcome(performance.bar_pct or 0.0) for one in (found, other) if one is not None}
    return Speed(
        reading.mode,
        performance.shape,
        found.pairs,
        100.0 * (found.ratio - 1.0),
        100.0 * (found.low - 1.0),
        100.0 * (found.high - 1.0),
        performance.bar_pct,
        reading.floor_pct,
        reading.other_mode,
        100.0 * (other.ratio - 1.0) if other else None,
        outcomes == {ABOVE, BELOW},
        100.0 * reading.confidence,
    )


def side(task: TaskInfo, run: Path | None, info: RunInfo) -> SideInfo:
    """One side of a comparison: a stage, and the run that its figures come from, if it is not the same for both."""
    device = info.device.name if info.device else None
    return SideInfo(task.name, task.title, task.digest, run.name if run else None, device, info.started)


def policy_notes(looser: Sequence[str]) -> Iterator[str]:
    """Name each looser term."""
    yield from (f"looser than the baseline: {text}" for text in looser)


def override_notes(info: RunInfo) -> Iterator[str]:
    """Name what was not as committed: debug builds, overrides, an unclean working tree."""
    for task in (info.task, info.baseline):
        if task and task.debug_build:
            yield f"debug build (nvcc -G) of {task.name}: its code is not optimised, so resources, speed and counters were not judged"
    yield from info.task.overridden()
    if info.git.sha is None and info.git.dirty:
        yield f"revision {info.git.source}"
    elif info.git.dirty:
        yield "the working tree had uncommitted changes"


def weak_notes(verdict: Verdict, most: int = 5) -> Iterator[str]:
    """Cases that the correctness gate tried and did not count, since a null answer passes them too."""
    for check in (check for result in verdict.gates for check in result.checks if check.name == "weak_cases"):
        cases, _, nulls = zip(*(told.rpartition(": ") for told in check.where.split("; ")), strict=True)
        more = f" and {len(cases) - most} more" if len(cases) > most else ""
        were = "cases were" if len(cases) > 1 else "case was"
        trivial = ", ".join(dict.fromkeys(nulls))
        yield f"{len(cases)} {were} not counted, because a trivial output ({trivial}) also passes: {', '.join(cases[:most])}{more}"


def slower_notes(speeds: Sequence[Speed]) -> Iterator[str]:
    """Name the timed shapes on which the candidate is slower and no threshold says how much it may be."""
    if slower := [speed for speed in speeds if speed.bar_pct is None and speed.high_pct < 0.0]:
        yield f"slower, without a threshold: {', '.join(f'{one.shape} {1 + one.speedup_pct / 100:.3f}x' for one in slower)}"
