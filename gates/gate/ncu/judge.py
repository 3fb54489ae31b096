"""Do the hardware counters show what the stage claims, and did nothing else get worse?

What: the counters of one launch of the stage, all its kernels together (counts are summed, percentages and ratios weighted by duration):

- ``rises: [tensor_pipe]``: strictly higher than the baseline's, profiled in the same run.
- ``steady: {dram_bytes_pct: 10}``: at most 10 % above the baseline's. A value at or below a small absolute floor is always steady. Bank
  conflicts are judged as wavefronts per request (1 is conflict-free).
- ``min: {occupancy: 30}``, ``max: {local_loads: 0}``: absolute limits; a limit met exactly is met.

Why: a kernel may be faster for another reason than the one it is merged for.

Example: tensor_pipe 21 % against 9 % rises.

Limits: the kernel runs alone, with cold caches, under the profiler. Its duration only has to agree with the performance gate's time
within a factor of 2 to 3. A counter that is absent, not a number or out of range never passes. One value that no card can have makes the
whole profile inconclusive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gates.core.records import Check, GateResult, Status, conclude, worst_status
from gates.gate.ncu import codes
from gates.gate.ncu.evidence import Counter, NcuEvidence, ProfiledKernel, ProfiledSide
from gates.hardware import ncu_metrics
from gates.hardware.ncu_metrics import METRICS, Metric

GATE = "ncu"
_DURATION = "duration_us"  # a check of each side that was timed
# Nsight Compute's own duration of a launch beside p50 of timed launches, cold both: 0.88 to 1.15 in all recorded runs. Clocks are those of
# the
# moment (an idle card may be at half of its clock), a short launch holds its ramp, and a kernel that task.yaml does not name is timed and
# not profiled.
SHORTER, SHORTER_US = 2.0, 2.0  # p50 may be shorter than the profiled duration by this factor and these us,
LONGER, LONGER_US = 3.0, 10.0  # and longer by these

_INCONCLUSIVE = (codes.AMBIGUOUS_KERNEL, codes.UNREADABLE, codes.NOT_LAUNCHED)


def judge(
    evidence: NcuEvidence,
    limits: Mapping[str, Any],
    baseline: NcuEvidence | None = None,
    *,
    not_applicable_reason: str | None = None,
    timed_us: Mapping[str, float] | None = None,
) -> GateResult:
    """The verdict on ``evidence`` under task.yaml's ``ncu`` section.

    ``baseline`` is accepted as for every gate and not needed: the baseline was profiled in the same run.
    ``not_applicable_reason`` is task.yaml's; the comparison with a baseline is then left out. ``timed_us``: side -> cold p50 of a launch of
    the same shape, as the performance gate was told, if it measured.
    """
    if evidence.code:
        return GateResult(GATE, Status.NOT_RUN, evidence.code, f"{evidence.message}. {codes.explanation(evidence.code)}".strip())
    side = evidence.sides["candidate"]
    if side.code:
        return _unprofiled(side)
    old = evidence.sides.get("baseline")
    checks = [_bound(side, name, limit, low=True) for name, limit in limits.get("min", {}).items()]
    checks += [_bound(side, name, limit, low=False) for name, limit in limits.get("max", {}).items()]
    if not not_applicable_reason:
        checks += [_rises(side, old, name) for name in limits.get("rises", ())]
        checks += [_steady(side, old, key.removesuffix("_pct"), pct) for key, pct in limits.get("steady", {}).items()]
    for profiled in (side, *([old] if old is not None and not old.code else [])):
        checks += _nonsense(profiled, evidence.chip)
    if checks:  # without a limit nothing was asked of the counters
        checks += [
            _as_long(one, role, timed_us[role]) for role, one in evidence.sides.items() if timed_us and role in timed_us and not one.code
        ]
    if not_applicable_reason and worst_status(check.status for check in checks) in (Status.PASS, Status.NOT_RUN):
        return GateResult(GATE, Status.NOT_APPLICABLE, codes.NOT_APPLICABLE, not_applicable_reason, tuple(checks))
    return conclude(GATE, checks, passed=_sentence(checks, evidence))


def _nonsense(side: ProfiledSide, chip: str) -> list[Check]:
    """Each counter of the side that no card can have counted, whether a limit asks for it or not."""
    found = []
    for kernel in side.kernels:
        lasted = _counter(kernel, "duration_ns")
        for counter in kernel.counters:
            if counter.value is None:
                continue
            why = ncu_metrics.impossible(
                counter.metric, counter.value, counter.unit, duration_ns=lasted.value if lasted else None, chip=chip
            )
            if why:
                shown = counter.value if math.isfinite(counter.value) else str(counter.value)
                found.append(
                    Check(
                        counter.metric,
                        Status.INCONCLUSIVE,
                        shown,
                        None,
                        counter.unit,
                        f"{side.name}, {kernel.kernel}",
                        codes.OUT_OF_RANGE,
                        why,
                    )
                )
    return found


def _as_long(side: ProfiledSide, role: str, p50_us: float) -> Check:
    """The launch's duration by the profiler against what the timing claims."""
    duration_ns, reason = value(side, "duration_ns")
    where = f"{role}, by the profiler, against p50 {p50_us:.4g} us"
    if duration_ns is None:
        return Check(_DURATION, Status.NOT_RUN, None, None, "us", where, codes.ABSENT, reason)
    seen = 1e-3 * duration_ns
    most, least = SHORTER * p50_us + SHORTER_US, (p50_us - LONGER_US) / LONGER
    if seen > most:
        return Check(
            _DURATION,
            Status.INCONCLUSIVE,
            seen,
            most,
            "us",
            where,
            codes.TIME_DISAGREES,
            "the claimed time is too short for this launch",
        )
    if seen < least:
        return Check(
            _DURATION,
            Status.INCONCLUSIVE,
            seen,
            least,
            "us",
            where,
            codes.TIME_DISAGREES,
            "name every kernel of the launch in task.yaml",
        )
    return Check(_DURATION, Status.PASS, seen, most, "us", where)


def value(side: ProfiledSide, name: str) -> tuple[float | None, str]:
    """(value, reason why there is none) of a logical metric over all kernels of ``side``."""
    metric = METRICS[name]
    if metric.parts is not None:
        return _quotient(side, metric)
    values: list[float] = []
    for kernel in side.kernels:
        counter = _counter(kernel, name)
        if counter is None or counter.value is None:
            return None, counter.reason if counter else "not in the evidence"
        values.append(counter.value)
    if metric.adds:
        return sum(values), ""
    if len(values) == 1:
        return values[0], ""
    durations = [_counter(kernel, "duration_ns") for kernel in side.kernels]
    weights = [counter.value for counter in durations if counter is not None and counter.value]
    if len(weights) != len(values):
        return None, "no durations to weight the kernels by"
    return sum(one * weight for one, weight in zip(values, weights, strict=True)) / sum(weights), ""


def _counter(kernel: ProfiledKernel, name: str) -> Counter | None:
    return next((counter for counter in kernel.counters if counter.metric == name), None)


def _quotient(side: ProfiledSide, metric: Metric) -> tuple[float | None, str]:
    sums = []
    for names in metric.parts or ():
        total = 0.0
        for name in names:
            amount, reason = value(side, name.removeprefix("-"))
            if amount is None:
                return None, reason
            total += -amount if name.startswith("-") else amount
        sums.append(total)
    above, below = sums
    if below <= 0:
        return (0.0, "") if above == 0 else (None, f"its parts give {above:g} / {below:g}")
    return above / below, ""


def _unprofiled(side: ProfiledSide) -> GateResult:
    status = Status.INCONCLUSIVE if side.code in _INCONCLUSIVE else Status.NOT_RUN
    return GateResult(GATE, status, side.code, f"{side.name}: {side.message}. {codes.explanation(side.code)}".strip())


def _seen(side: ProfiledSide | None, name: str, limit: float | None) -> float | Check:
    """The value of a metric, or the check that says why there is no usable one."""
    if name not in METRICS:
        known = ", ".join(METRICS)
        return Check(name, Status.INCONCLUSIVE, None, limit, "", code=codes.UNKNOWN_METRIC, hint=f"known are {known}")
    unit = METRICS[name].unit
    if side is None:
        return Check(name, Status.INCONCLUSIVE, None, limit, unit, code=codes.NO_BASELINE)
    if side.code:
        return Check(name, Status.INCONCLUSIVE, None, limit, unit, side.name, codes.BASELINE_NOT_PROFILED, side.message)
    found, reason = value(side, name)
    if found is None:
        return Check(name, Status.NOT_RUN, None, limit, unit, side.name, codes.ABSENT, reason)
    if not (0.0 <= found < math.inf and (unit != "%" or found <= ncu_metrics.MOST_PCT)):
        shown = found if math.isfinite(found) else str(found)
        return Check(name, Status.INCONCLUSIVE, shown, limit, unit, side.name, codes.OUT_OF_RANGE, codes.OUT_OF_RANGE.next_step)
    return found


def _bound(side: ProfiledSide, name: str, limit: float, *, low: bool) -> Check:
    found = _seen(side, name, limit)
    if isinstance(found, Check):
        return found
    unit, where = METRICS[name].unit, "at least" if low else "at most"
    if found >= limit if low else found <= limit:
        return Check(name, Status.PASS, found, limit, unit, where)
    code = codes.BELOW_MIN if low else codes.ABOVE_MAX
    return Check(name, Status.FAIL, found, limit, unit, where, code, f"look at {METRICS[name].what} in profile.ncu-rep")


def _rises(side: ProfiledSide, old: ProfiledSide | None, name: str) -> Check:
    new, before = _seen(side, name, None), _seen(old, name, None)
    if isinstance(new, Check):
        return new
    if isinstance(before, Check):
        return before
    unit, where = METRICS[name].unit, "rises above the baseline"
    if new > before:
        return Check(name, Status.PASS, new, before, unit, where)
    hint = f"the stage does not raise {METRICS[name].what}; see the sass gate for the instructions that it claims"
    return Check(name, Status.FAIL, new, before, unit, where, codes.NOT_RISEN, hint)


def _steady(side: ProfiledSide, old: ProfiledSide | None, name: str, pct: float) -> Check:
    new, before = _seen(side, name, None), _seen(old, name, None)
    if isinstance(new, Check):
        return new
    if isinstance(before, Check):
        return before
    metric = METRICS[name]
    allowed = max(before * (100.0 + pct) / 100.0, metric.floor)
    where = f"baseline {before:g}, at most {pct:g} % more"
    if new * 100.0 <= before * (100.0 + pct) or new <= metric.floor:
        return Check(name, Status.PASS, new, allowed, metric.unit, where)
    hint = f"look at {metric.what} in profile.ncu-rep"
    return Check(name, Status.FAIL, new, allowed, metric.unit, where, codes.NOT_STEADY, hint)


def _sentence(checks: list[Check], evidence: NcuEvidence) -> str:
    parts = []
    for check in checks:
        if isinstance(check.observed, float):
            side = f"{check.where.partition(',')[0]} " if check.name == _DURATION else ""  # both sides have one
            parts.append(f"{side}{check.name} {check.observed:.4g} {check.unit}".strip())
    return f"{', '.join(parts)} on {evidence.chip}, {evidence.shape}"
