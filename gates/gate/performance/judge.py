"""Is the candidate as much faster than its baseline as the task asks, beyond doubt?

What: the ratio of the p50 kernel times, baseline over candidate, in the gated cache mode (cold unless the task says warm), from interleaved
pairs of blocks in one process. ``min_speedup_pct: 15`` asks for a ratio of 1.15, the threshold. The gate passes if the low end of the
interval reaches the threshold, fails if the high end does not, and is inconclusive between. The other ``metrics``, p90 and mean, and
``max_std_us`` are about single launches: the candidate must not be slower than the baseline by more than the noise floor.

Why: a card's speed changes over seconds, so two separate timings differ without a cause in the kernel. Before any claim the machine must
prove fit: an A/A control within 1 +- 2 %, few disturbed blocks, a fine enough timer, nobody else on the card, right outputs, and no time
that the card can't reach. docs/gates/performance.md has the whole decision tree.

Example: 1.21 (98.3 % interval 1.204 to 1.215) against a threshold of 15 % passes; 1.152 (1.146 to 1.158) after 48 pairs is inconclusive.

Limits: one card, one shape, its clocks as found. If the clock differs between the sides, counting in clock cycles shows it, provided that
the driver reports the clock.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from gates.core.records import Check, GateResult, Status, conclude, worst_status
from gates.gate.performance import codes, consistency, family, fitness
from gates.gate.performance.evidence import MEASURED, NOT_RUN, PerformanceEvidence, summaries
from gates.gate.performance.limit import Limit, limit_of
from gates.gate.performance.reading import GATE, SPEEDUP, Reading, read, sentence, standing
from gates.gate.performance.thresholds import thresholds
from gates.stats import stopping_rule
from gates.stats.estimators import no_p90, spread
from gates.stats.samples import CANDIDATE, Series
from gates.stats.sampling import INVALID_LIMIT_PCT, differences

CLOCK_PCT = 5.0  # a clock that changes by less between blocks is steady
_SLOWER = {"p90": codes.SLOWER_P90, "mean": codes.SLOWER_MEAN}
SHARE = "share_of_limit"
_FAILING = (codes.LAUNCH_FAILED, codes.NOT_CAPTURED, codes.TAMPERED)


def judge(
    evidence: PerformanceEvidence,
    limits: Mapping[str, Any],
    baseline: PerformanceEvidence | None = None,
    *,
    not_applicable_reason: str | None = None,
    output_limits: Mapping[str, Any] = MappingProxyType({}),
) -> GateResult:
    """The verdict on ``evidence`` under task.yaml's ``performance`` section.

    ``baseline`` is accepted as for every gate and not needed: the baseline was timed in the same run.
    ``not_applicable_reason`` is task.yaml's reason why the threshold can't apply; outputs and std are still judged.
    ``output_limits`` replace those that the outputs of timed launches were measured under.
    """
    asked, measured = thresholds(limits), {one.shape: one for one in evidence.every_shape()}
    if evidence.status == NOT_RUN:
        return _not_measured(evidence)
    found = {
        shape: _judge_shape(measured.get(shape, evidence), shape, pct, limits, asked.confidence, not_applicable_reason, output_limits)
        for shape, pct in asked.shapes.items()
    }
    if len(found) == 1:
        return found[asked.first]
    mode = str(limits.get("cache", "cold"))
    readings = {
        shape: read(measured[shape], mode, pct or 0.0, asked.confidence)
        for shape, pct in asked.shapes.items()
        if shape in measured and measured[shape].status == MEASURED
    }
    return family.judge(asked, found, readings, evidence.seed or 0)


def _judge_shape(
    evidence: PerformanceEvidence,
    shape: str,
    bar_pct: float | None,
    limits: Mapping[str, Any],
    confidence: float,
    not_applicable_reason: str | None,
    output_limits: Mapping[str, Any],
) -> GateResult:
    """The verdict on one timed shape; without a threshold only its outputs and times are checked."""
    evidence = replace(evidence, output_limits={name: output_limits.get(name, old) for name, old in evidence.output_limits.items()})
    if evidence.status != MEASURED:
        return _not_measured(evidence)
    if evidence.shape != shape:
        return conclude(GATE, (Check("shape", Status.INCONCLUSIVE, evidence.shape, shape, "", code=codes.OTHER_SHAPE),), passed="")
    mode = str(limits.get("cache", "cold"))
    checks = fitness.checks(evidence, mode)
    series = evidence.in_mode(mode)
    if series is not None and series.samples(CANDIDATE):
        checks += consistency.checks(evidence, series, bar_pct or 0.0)
    fit = worst_status(check.status for check in checks) is Status.PASS
    judged = bar_pct is not None and not not_applicable_reason
    if evidence.baseline is None and judged:
        checks.append(Check("baseline", Status.INCONCLUSIVE, None, None, "", code=codes.NO_BASELINE))
    reading = read(evidence, mode, bar_pct or 0.0, confidence)
    if evidence.baseline is not None and bar_pct is not None and judged:
        verdicts = [_speedup(reading, evidence, bar_pct), *_tails(evidence, limits, reading)]
        checks += verdicts if fit else [_undecided(check, checks) for check in verdicts]
    if "max_std_us" in limits and shape == thresholds(limits).first:
        steadiness = _steadiness(evidence, float(limits["max_std_us"]))
        checks.append(steadiness if fit else _undecided(steadiness, checks))
    reached = limit_of(evidence, mode)
    least_pct = limits.get("min_limit_pct") if shape == thresholds(limits).first else None
    if reached is not None or least_pct is not None:
        share = _share(reached, f"{shape}, {mode} L2", least_pct)
        checks.append(share if fit or share.status is Status.PASS else _undecided(share, checks))
    line = sentence(evidence, reading, bar_pct)
    if reached is not None:
        line += f"; {reached.words()}"
    status = worst_status(check.status for check in checks)
    if status is Status.PASS and not_applicable_reason:
        p50 = summaries(evidence)[mode][CANDIDATE].p50_us
        measured = Check("p50", Status.NOT_APPLICABLE, p50, None, "us", where=f"{evidence.shape}, {mode} L2")
        return GateResult(GATE, Status.NOT_APPLICABLE, codes.NOT_APPLICABLE, f"{not_applicable_reason}; {line}", (measured, *checks))
    if status is Status.PASS:
        return GateResult(GATE, status, codes.PASS, line, tuple(checks))
    concluded = conclude(GATE, checks, passed=line)
    decisive = next(check for check in checks if check.status is status)
    text = line if decisive.name == SPEEDUP else f"{concluded.sentence}; {line}"
    return GateResult(GATE, status, concluded.code, text, tuple(checks))


def _not_measured(evidence: PerformanceEvidence) -> GateResult:
    status = Status.NOT_RUN if evidence.status == NOT_RUN else Status.INCONCLUSIVE
    if evidence.code in _FAILING:
        status = Status.FAIL
    return GateResult(GATE, status, evidence.code, evidence.message)


def _speedup(reading: Reading, evidence: PerformanceEvidence, bar_pct: float) -> Check:
    where = f"{evidence.shape}, {reading.mode} L2"
    ruling = reading.ruling
    if ruling is None:
        return Check(SPEEDUP, Status.INCONCLUSIVE, None, bar_pct, "%", where, codes.TOO_FEW_PAIRS)
    status, code, hint = standing(ruling, reading.cycles_ratio, bar_pct)
    observed = round(100.0 * (ruling.interval.ratio - 1.0), 9)
    return Check(SPEEDUP, status, observed, bar_pct, "%", where, code, hint)


def _tails(evidence: PerformanceEvidence, limits: Mapping[str, Any], reading: Reading) -> list[Check]:
    """p90 and mean of single launches: not slower than the baseline by more than the noise floor."""
    allowed_pct = -(reading.floor_pct or 0.0)
    checks = []
    for metric in limits.get("metrics", ["p50"]):
        if metric == "p50":
            continue
        name, where = f"speedup_{metric}", f"{evidence.shape}, single launches"
        fewest = min((len(block.samples_us) for pair in evidence.single.pairs() for block in pair), default=0) if evidence.single else 0
        if metric == "p90" and fewest and (why := no_p90(fewest)):
            checks.append(
                Check(
                    name,
                    Status.INCONCLUSIVE,
                    None,
                    allowed_pct,
                    "%",
                    where,
                    codes.NO_P90,
                    f"{why} a block; ask for more iterations, or leave p90 out of metrics",
                )
            )
            continue
        found = stopping_rule.interval(differences(evidence.single, metric=metric), reading.confidence) if evidence.single else None
        if found is None:
            checks.append(Check(name, Status.INCONCLUSIVE, None, allowed_pct, "%", where, codes.NO_SINGLES))
            continue
        status, code = Status.PASS, ""
        if not 100.0 * (found.ratio - 1.0) >= allowed_pct:
            slower = 100.0 * (found.high - 1.0) < allowed_pct
            status = Status.FAIL if slower else Status.INCONCLUSIVE
            code = _SLOWER[metric] if slower else codes.TAIL_UNCLEAR
        checks.append(
            Check(
                name,
                status,
                100.0 * (found.ratio - 1.0),
                allowed_pct,
                "%",
                where,
                code,
                "" if status is Status.PASS else "look for rare slow launches in the single samples",
            )
        )
    return checks


def _steadiness(evidence: PerformanceEvidence, max_std_us: float) -> Check:
    where = f"{evidence.shape}, single launches, median of blocks"
    single = evidence.single
    found = _block_std(single) if single else None
    if single is None or found is None:
        return Check("std", Status.INCONCLUSIVE, None, max_std_us, "us", where, codes.NO_SINGLES)
    if found <= max_std_us:
        return Check("std", Status.PASS, found, max_std_us, "us", where)
    if (machine := _disturbed(single)) is not None:
        return Check("std", Status.INCONCLUSIVE, found, max_std_us, "us", where, *machine)
    return Check("std", Status.FAIL, found, max_std_us, "us", where, codes.UNSTEADY, "the work may depend on the data or on timing")


def _share(reached: Limit | None, where: str, least_pct: float | None) -> Check:
    """How near the kernel is to the card's limit; without ``least_pct`` it is only told."""
    if reached is None:
        return Check(SHARE, Status.INCONCLUSIVE, None, least_pct, "%", where, codes.NO_LIMIT)
    where, share = f"{where}, limited by {reached.bound}", round(reached.share_pct, 3)
    if least_pct is None or share >= least_pct:
        return Check(SHARE, Status.PASS, share, least_pct, "%", where)
    return Check(SHARE, Status.FAIL, share, least_pct, "%", where, codes.FAR_FROM_LIMIT, codes.FAR_FROM_LIMIT.next_step)


def _block_std(single: Series) -> float | None:
    blocks = [block for block in single.blocks if block.side == CANDIDATE and block.valid]
    spreads = [found for block in blocks if (found := spread(block.samples_us)) is not None]
    return statistics.median(spreads) if spreads else None


def _disturbed(single: Series) -> tuple[str, str] | None:
    """(code, hint) where the machine, and not the kernel, may be what made single launches scatter."""
    if single.invalid_pct() > INVALID_LIMIT_PCT:
        return codes.THROTTLED, codes.THROTTLED.next_step
    clocks = [block.sm_mhz for block in single.blocks if block.side == CANDIDATE and block.valid and block.sm_mhz]
    if clocks and max(clocks) > min(clocks) * (1.0 + CLOCK_PCT / 100.0):
        return codes.CLOCK_UNSTEADY, f"the SM clock went from {min(clocks):.0f} to {max(clocks):.0f} MHz between blocks"
    return None


def _undecided(check: Check, fitness_checks: list[Check]) -> Check:
    """The verdict of an unfit machine: the observation is kept, the status is not."""
    reason = next(found for found in fitness_checks if found.status in (Status.FAIL, Status.INCONCLUSIVE))
    return Check(check.name, Status.INCONCLUSIVE, check.observed, check.limit, check.unit, check.where, reason.code, reason.hint)
