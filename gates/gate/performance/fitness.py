"""Whether the machine and the samples are fit for a verdict on speed at all; used by the performance judge."""

from __future__ import annotations

from gates.core.reason_code import Code
from gates.core.records import Check, Status
from gates.gate.performance import codes, limit
from gates.gate.performance.evidence import OutputCheck, PerformanceEvidence, summaries
from gates.stats import stopping_rule
from gates.stats.samples import BASELINE, CANDIDATE, CONTROL, Series
from gates.stats.sampling import INVALID_LIMIT_PCT, differences

MAX_REFUSED_PCT = 5.0


def checks(evidence: PerformanceEvidence, mode: str) -> list[Check]:
    """Checks that all must pass before a ratio means anything."""
    series = evidence.in_mode(mode)
    if series is None or not series.samples(CANDIDATE):
        throttled = sorted({reason for block in series.blocks for reason in block.throttle}) if series else []
        return [_check("samples", False, 0, 1, "", codes.NO_SAMPLES, f"{mode}, throttled: {', '.join(throttled)}" if throttled else mode)]
    return [
        _gated(evidence, mode),
        *_outputs(evidence),
        *_possible(evidence, mode),
        _pairs(evidence, series),
        _control(evidence),
        _clock(series),
        _throttling(evidence, series),
        _refused(evidence, series),
        *_timer(evidence, series),
        *_alone(evidence),
    ]


def _check(
    name: str,
    good: bool,
    observed: float | int | str | None,
    limit: float | int | str | None,
    unit: str,
    code: Code,
    where: str = "",
    *,
    failing: bool = False,
    hint: str = "",
) -> Check:
    bad = Status.FAIL if failing else Status.INCONCLUSIVE
    if good:
        return Check(name, Status.PASS, observed, limit, unit, where)
    return Check(name, bad, observed, limit, unit, where, code, hint or code.next_step)


def _gated(evidence: PerformanceEvidence, mode: str) -> Check:
    return _check(
        "cache_mode",
        mode == evidence.gated_mode,
        mode,
        evidence.gated_mode,
        "",
        codes.OTHER_MODE,
        hint="the control and the output checks are of the mode that was gated; run the stage with the other `cache:`",
    )


def _outputs(evidence: PerformanceEvidence) -> list[Check]:
    seen = {(check.when, check.side) for check in evidence.outputs}
    sides = (CANDIDATE,) if evidence.baseline is None else (CANDIDATE, BASELINE)
    result = [
        _check("outputs", False, None, None, "", codes.OUTPUTS_UNCHECKED, f"{side} {when} timing")
        for side in sides
        for when in ("before", "after")
        if (when, side) not in seen
    ]
    for check in evidence.outputs:
        code = codes.WRONG_OUTPUT if check.side == CANDIDATE else codes.WRONG_BASELINE_OUTPUT
        where = f"{check.side} {check.when} timing, against {check.against}"
        trouble = _trouble(check, evidence)
        result.append(
            _check(
                "outputs",
                not trouble,
                trouble or "right",
                "right",
                "",
                code,
                where,
                failing=check.side == CANDIDATE,
            )
        )
    return result


def _trouble(check: OutputCheck, evidence: PerformanceEvidence) -> str:
    if check.unwritten_sets:
        return f"{check.unwritten_sets} of {check.sets} outputs not written"
    if check.nonfinite:
        return f"{check.nonfinite} elements not finite"
    for name in ("max_abs_err", "mean_abs_err", "bad_pct"):
        limit, value = evidence.output_limits.get(name), getattr(check, name)
        if limit is None:
            continue
        allowed = limit if name == "bad_pct" else limit * check.allowance
        if value is None or not value <= allowed:
            return f"{name} {value} over {allowed:g}"
    return ""


def _possible(evidence: PerformanceEvidence, mode: str) -> list[Check]:
    """Times against what the card can do at most, at its highest clock."""
    floors = {limit.LAUNCH: 0.0}
    if evidence.calibration and evidence.calibration.empty_kernel_us:
        floors[limit.LAUNCH] = 0.5 * evidence.calibration.empty_kernel_us
    floors |= limit.least_us(evidence, mode, evidence.device.max_sm_mhz if evidence.device else None, certain=True)
    bound = max(floors, key=lambda name: floors[name])
    return [
        _check(
            f"{side}_p50",
            figures.p50_us >= floors[bound],
            figures.p50_us,
            floors[bound],
            "us",
            codes.IMPOSSIBLE,
            f"least time by {bound}",
            failing=side == CANDIDATE,
            hint="check that the work is inside the timed launches",
        )
        for side, figures in summaries(evidence).get(mode, {}).items()
    ]


def _control(evidence: PerformanceEvidence) -> Check:
    twin = CANDIDATE if evidence.baseline is None else BASELINE
    found = stopping_rule.interval(differences(evidence.control, twin, CONTROL)) if evidence.control else None
    floor = stopping_rule.noise_floor_pct(found) if found else None
    good = found is not None and found.pairs >= stopping_rule.LOOKS[0] and stopping_rule.control_fits(found)
    return _check(
        "noise_floor",
        good,
        floor,
        stopping_rule.CONTROL_LIMIT_PCT,
        "%",
        codes.CONTROL_OFF,
        "A/A control",
    )


def _pairs(evidence: PerformanceEvidence, series: Series) -> Check:
    if evidence.baseline is None:
        taken = len(evidence.control.pairs(CANDIDATE, CONTROL)) if evidence.control else 0
    else:
        taken = len(series.pairs())
    return _check(
        "pairs",
        taken >= stopping_rule.LOOKS[0],
        taken,
        stopping_rule.LOOKS[0],
        "",
        codes.TOO_FEW_PAIRS,
        f"stopped: {series.stopped}",
        hint="raise the time budget, or free the card",
    )


def _clock(series: Series) -> Check:
    """A card that never tells its clock is flagged in the sentence; one that stops telling has changed in the middle."""
    known = [block.sm_mhz is not None for block in series.blocks if block.valid]
    lost = len(known) - sum(known) if any(known) else 0
    return _check(
        "blocks_without_clock",
        lost == 0,
        lost,
        0,
        "",
        codes.CLOCK_LOST,
        hint="the driver stopped answering during timing; see the kernel log for an Xid error",
    )


def _throttling(evidence: PerformanceEvidence, series: Series) -> Check:
    share = max(series.invalid_pct(), evidence.control.invalid_pct() if evidence.control else 0.0)
    return _check(
        "disturbed_blocks",
        share <= INVALID_LIMIT_PCT,
        round(share, 3),
        INVALID_LIMIT_PCT,
        "%",
        codes.THROTTLED,
    )


def _refused(evidence: PerformanceEvidence, series: Series) -> Check:
    share = max(series.refused_pct(), evidence.control.refused_pct() if evidence.control else 0.0)
    return _check(
        "refused_samples",
        share <= MAX_REFUSED_PCT,
        round(share, 3),
        MAX_REFUSED_PCT,
        "%",
        codes.REFUSED_SAMPLES,
        hint="the timer is broken or too coarse for this kernel",
    )


def _timer(evidence: PerformanceEvidence, series: Series) -> list[Check]:
    if evidence.calibration is None:
        return [_check("event_overhead", False, None, None, "%", codes.TIMER_TOO_COARSE, "not calibrated")]
    result = []
    figures_by_side = summaries(evidence).get(series.mode, {})
    for side, launches in series.launches.items():
        figures = figures_by_side.get(side)
        if figures is None:
            continue
        sample_us = launches * figures.p50_us
        result.append(
            _check(
                "event_overhead",
                not evidence.calibration.too_coarse(sample_us),
                round(evidence.calibration.overhead_pct(sample_us), 4),
                5.0,
                "%",
                codes.TIMER_TOO_COARSE,
                f"{side}, {launches} launches a sample",
                hint="a larger shape takes longer than the timer's step",
            )
        )
    return result


def _alone(evidence: PerformanceEvidence) -> list[Check]:
    if evidence.other_processes is None:
        return []  # the driver does not tell; the control stands guard alone
    others = ", ".join(str(pid) for pid in evidence.other_processes)
    return [_check("other_processes", not others, others or "none", "none", "", codes.OTHER_PROCESS)]
