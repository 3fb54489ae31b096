"""Does the kernel compute the right thing, every time, and touch nothing else?

What: every case of shapes x seeds (the headline, "6/6"), the problem's odd shapes and special inputs, fresh shapes and structured values
drawn from this run's seed and, with ``--thorough``, edge shapes. A case must run, write finite numbers into every element of its outputs
and nothing else, and give the same bits again. Then its errors against the float64 reference are judged. A check fails if
``not (err <= limit)``, so NaN and missing values fail.

- ``max_abs_err``, ``mean_abs_err``, ``bad_pct``: absolute limits for ordinary inputs.
- ``max_err_over_bound``: the largest error over the error that rounding explains, element by element (the problem's ``error_bound``). It
  holds for outputs of any size.
- ``match_baseline``: max and mean error at most ``1.25 x baseline + u x |reference|``, u the unit roundoff of the output's format. The
  factor covers another order of summation, the second part one more intermediate in that format.
- ``end_to_end``: the error against the result without the kernel's input format, on headline cases alone.

Why: a fast kernel that is wrong on a tail, on rare inputs or on the second call is worthless.

Example: limits {max_abs_err: 2e-3, mean_abs_err: 3e-4}: a kernel with 4.1e-4 and 1.0e-5 passes.

Limits: the reference is the problem's own; if it is wrong, so is the verdict. Equal bits in two calls do not prove that no race exists: the
sanitizer gate looks for those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gates.core.places import with_excerpts
from gates.core.reason_code import Code
from gates.core.records import Check, GateResult, Status, conclude
from gates.gate.correctness import codes
from gates.gate.correctness.evidence import UNJUDGED, Case, CorrectnessEvidence, OutputErrors
from gates.gate.correctness.failed_case import with_story
from gates.gate.correctness.failing_sizes import with_sizes
from gates.gate.correctness.limits import (
    BOUND,
    FIGURES,
    compared,
    is_weak,
    limits_of,
    passed_by,
    tighter_than_format,
    unjudged_check,
    weak_check,
)
from gates.gate.reasons import NOT_EMULATED, UNSUPPORTED
from gates.task.honest_error import FACTOR as FACTOR_OF_HONEST
from gates.task.problem import DEFAULT_INPUTS

FACTOR = 1.25


def judge(evidence: CorrectnessEvidence, limits: Mapping[str, Any], baseline: CorrectnessEvidence | None = None) -> GateResult:
    """The verdict on ``evidence`` under the ``correctness`` limits of task.yaml.

    ``baseline``: the baseline's own evidence, used where ``evidence`` has no baseline cases.
    """
    if not evidence.asked:
        return GateResult("correctness", Status.NOT_RUN, codes.NOTHING_CHECKED, "no case was asked for")
    others = evidence.baseline_cases or (baseline.cases if baseline else ())
    checks: list[Check] = [_fail(codes.FORGED, "result lines", line, None, line) for line in evidence.refused[:3]]
    per_case = [(case, with_story(_case(case, evidence, limits, others), case, evidence)) for case in evidence.cases]
    weak = {case.key for case in evidence.cases if is_weak(case, limits) or case.status in UNJUDGED}
    per_case = with_sizes(per_case, weak)
    checks += _merge(check for _, found in per_case for check in found)
    checks += _seeds(evidence.cases)
    checks += (told := weak_check(evidence.cases, limits)) + unjudged_check(evidence.cases)
    counted = [(case, found) for case, found in per_case if (evidence.replay or case.role == "headline") and case.key not in weak]
    good = sum(all(check.status is Status.PASS for check in found) for _, found in counted)
    asked = evidence.asked - sum(case.key in weak for case in evidence.cases if evidence.replay or case.role == "headline")
    if not asked:
        fails = any(check.status is Status.FAIL for check in checks)
        if all(case.empty for case in evidence.cases if case.key in weak):
            seen, code = "no elements: nothing was compared", codes.NO_ELEMENTS
        else:
            seen, code = "all weak, so none counts" if fails else "no case fails; all are weak by nature, so none counts", codes.TOO_WEAK
        where, hint = (told[0].where, told[0].hint) if told else (evidence.cases[0].where, evidence.cases[0].message)
        checks.append(Check("cases", Status.INCONCLUSIVE, seen, None, "", where, code, hint))
    whole = f"{asked}/{asked}"
    statuses = {check.status for check in checks}
    lost = next((one for one in (Status.INCONCLUSIVE, Status.NOT_RUN) if one in statuses and Status.FAIL not in statuses), None)
    if asked and good == asked:
        checks.append(Check("cases", Status.PASS, whole, whole, ""))
    elif asked:
        checks.append(Check("cases", lost or Status.FAIL, f"{good}/{asked}", None, "passed", code=codes.CASES))
    return conclude("correctness", with_excerpts(checks, evidence.excerpts), passed=_sentence(evidence, limits, whole, weak))


def worth(rule_over_bound: float | None) -> str:
    """What limits that come from the honest error are worth, beside the format's own rule."""
    text = f"the limit is {FACTOR_OF_HONEST:g} times the honest error"
    if rule_over_bound is None:
        return text
    if rule_over_bound < 1.0:
        return f"{text}, or what the format's own rule allows if that is less"
    return f"{text}, and the format's own rule {float(f'{rule_over_bound:.2g}'):,g} times as wide"


def baseline_limit(reference: float, roundoff: float, baseline: float) -> float:
    """The largest error that counts as not worse than ``baseline`` (see the module's docstring)."""
    return FACTOR * baseline + roundoff * reference


def _case(case: Case, evidence: CorrectnessEvidence, limits: Mapping[str, Any], others: Sequence[Case]) -> list[Check]:
    if (lacking := next((finding for finding in case.findings if finding.kind == UNSUPPORTED), None)) is not None:
        return [
            Check("case", Status.NOT_RUN, lacking.message, None, "", case.where, NOT_EMULATED.of("correctness"), NOT_EMULATED.explanation)
        ]
    if case.status in UNJUDGED:  # no answer to compare with, and still a launch to look at
        traces = [
            _zero(codes.GUARD, len(case.guards), case, "", "; ".join(case.guards)),
            _zero(codes.INPUT_MUTATED, len(case.mutated), case, "", "; ".join(case.mutated)),
        ]
        return [*(check for check in traces if check.status is Status.FAIL), *_findings(case)]
    if case.status != "ok":
        code = codes.MISSING_CASES if case.status == "missing" else codes.of(case.status)
        if case.findings:
            return [*_findings(case), _fail(code, "case", case.message, None, case.where)]
        if case.status in ("no_memory", "too_large"):
            return [_inconclusive(code, "case", case.message, case.where)]
        return [_fail(code, "case", case.message, None, case.where)]
    unwritten = sum(case.unwritten.values())
    checks = [
        _zero(codes.UNWRITTEN, unwritten, case, "elements", _first_bad(case)),
        _zero(codes.NON_FINITE, _besides(unwritten, sum(output.nonfinite for output in case.outputs)), case, "elements", _first_bad(case)),
        _zero(codes.GUARD, len(case.guards), case, "", "; ".join(case.guards)),
        _zero(codes.INPUT_MUTATED, len(case.mutated), case, "", "; ".join(case.mutated)),
        _zero(codes.NOT_REPEATABLE, _besides(unwritten, case.differences), case, "elements", case.first_difference),
        *_findings(case),
    ]
    refused = next((launch for launch in case.launches if launch.error), None)
    if refused is not None:  # the launcher hid it
        checks.append(_fail(codes.LAUNCH_ERROR, "launch", refused.error, None, case.where, refused.kernel))
    if evidence.emulated and not case.launch_count and not case.empty:
        checks.append(_fail(codes.NO_LAUNCH, "launches", 0, None, case.where))
    if case.empty:
        return checks
    checks += _rough_reference(case)
    if case.check:
        checks.append(_fail(codes.CHECK, "check", case.check, None, case.where))
    own = limits_of(case, limits)
    places = evidence.limits_at
    errors = _errors(case, case.outputs, own, "", codes.of, places)
    checks += errors
    if case.nudged and not any(check.status is Status.FAIL for check in errors):  # else a wrong answer, not a stale one
        checks += _errors(case, case.nudged, own, "exchanged_elements.", lambda _: codes.STALE_ANSWER)
    if "end_to_end" in limits and case.role == "headline":
        if case.end_to_end:
            checks += _errors(case, case.end_to_end, limits["end_to_end"], "end_to_end.", lambda _: codes.END_TO_END)
        else:
            checks.append(_fail(codes.END_TO_END, "end_to_end", "the problem has no end_to_end", None, case.where))
    if (told := _other_stream(case, evidence, own, checks)) is not None:
        return told
    if limits.get("match_baseline") and compared(case):
        checks += _baseline(case, others)
    return checks + _too_weak(case, limits)


def _besides(unwritten: int, count: int) -> int:
    """How many of ``count`` elements were written: others hold poison, which is not finite and differs from call to call."""
    return max(0, count - unwritten) if unwritten > 0 else count


def _other_stream(case: Case, evidence: CorrectnessEvidence, limits: Mapping[str, Any], checks: Sequence[Check]) -> list[Check] | None:
    """Return the cause instead of its symptoms, if a kernel that is wrong on its stream is right on the default one; else None."""
    right = (
        case.default_stream
        and not any(output.nonfinite for output in case.default_stream)
        and all(check.status is Status.PASS for check in _errors(case, case.default_stream, limits, "", codes.of))
    )
    if not right or not any(check.status is Status.FAIL for check in checks):
        return None
    places = "; ".join(evidence.default_launches[:3])
    cause = _fail(codes.OTHER_STREAM, "stream", "default", "current", case.where, f"launches without a stream: {places}" if places else "")
    return [cause, *(check for check in checks if check.name in ("guard", "input_mutated"))]


def _errors(
    case: Case,
    outputs: Sequence[OutputErrors],
    limits: Mapping[str, Any],
    prefix: str,
    code: Callable[[str], Code],
    places: Mapping[str, str] | None = None,
) -> list[Check]:
    """Return a check for each limit on errors. ``places``: file and line of each limit in task.yaml.

    A limit that the exact result itself breaks once it is rounded to the output's format is a fault of the task: the check
    says so, and comes to no verdict on an output that is nearly as good.
    """
    checks = []
    if prefix and (odd := next((output for output in outputs if output.nonfinite), None)):  # the case's own outputs have a check for it
        checks.append(_fail(code("non_finite"), f"{prefix}non_finite", odd.nonfinite, 0, case.where, _place(odd), "elements"))
    for figure in (name for name in (*FIGURES, BOUND) if name in limits):
        worst = _worst(outputs, figure)
        value, limit = getattr(worst, figure), limits[figure]
        unit = "%" if figure == "bad_pct" else ""
        best = max((getattr(output.best, figure) or 0.0 for output in outputs if output.best), default=0.0)
        if figure != BOUND and best > limit and value is not None and value <= limit + 2.0 * best and not worst.nonfinite:
            checks.append(
                _too_tight(
                    case,
                    max(outputs, key=lambda output: getattr(output.best, figure, None) or 0.0),
                    prefix + figure,
                    value,
                    best,
                    limit,
                    (places or {}).get(figure, ""),
                )
            )
        elif figure == BOUND and value is None and not worst.nonfinite:
            checks.append(_inconclusive(codes.NO_BOUND, prefix + figure, None, case.where))
        elif value is None or not (value <= limit):
            place = _bound_place(worst) if figure == BOUND else _place(worst)
            place += f": {told}" if (told := tighter_than_format(worst, figure, limit)) else ""
            seen = "wrong where the bound is 0" if figure == BOUND and worst.bound_at == 0 else value  # no ratio says it
            seen = "not finite" if seen is None and worst.nonfinite else seen
            checks.append(_fail(code(figure), prefix + figure, seen, limit, case.where, place, unit))
        else:
            checks.append(Check(prefix + figure, Status.PASS, value, limit, unit, case.where))
    if not checks:
        name = prefix.rstrip(".") or "limits"
        checks.append(_inconclusive(codes.NO_LIMIT, name, None, case.where))
    return checks


def _too_tight(case: Case, output: OutputErrors, name: str, value: float, best: float, limit: float, place: str) -> Check:
    unit = " %" if name.endswith("bad_pct") else ""
    detail = (
        f"rounding the exact result to {output.dtype} already costs {best:.3g}{unit} at {case.where}; no kernel can keep {limit:g}{unit}; "
        f"set about {2.0 * best:.1g}" + (f" ({place})" if place else "")
    )
    return _inconclusive(codes.LIMIT_TOO_TIGHT, name, value, case.where, detail)


def _rough_reference(case: Case) -> list[Check]:
    """Return an inconclusive check if the reference has, or is computed in, half precision or less."""
    rough = next(
        (
            output
            for output in case.outputs
            if output.reference_dtype in ("float16", "bfloat16") or output.reference_dtype.startswith("float8")
        ),
        None,
    )
    seen = f"{rough.name} in {rough.reference_dtype}" if rough else case.rough_reference
    return [_inconclusive(codes.ROUGH_REFERENCE, "reference", seen, case.where)] if seen else []


def _baseline(case: Case, others: Sequence[Case]) -> list[Check]:
    other = next((other for other in others if other.key == case.key), None)
    if other is None or other.status != "ok":
        seen = None if other is None else f"baseline: {other.status}: {other.message}"
        return [_inconclusive(codes.NO_BASELINE, "match_baseline", seen, case.where)]
    if other.inputs_sha256 != case.inputs_sha256:
        return [_fail(codes.OTHER_INPUTS, "match_baseline", case.inputs_sha256[:12], other.inputs_sha256[:12], case.where)]
    checks = []
    theirs = {output.name: output for output in other.outputs}
    for output in case.outputs:
        base = theirs.get(output.name)
        for figure, size in (("max_abs_err", output.reference_max_abs), ("mean_abs_err", output.reference_mean_abs)):
            value, before = getattr(output, figure), getattr(base, figure, None)
            name = f"{figure}_vs_baseline"
            if before is None:
                checks.append(_inconclusive(codes.NO_BASELINE, name, None, case.where))
                continue
            limit = baseline_limit(size, output.unit_roundoff, before)
            if value is None or not (value <= limit):
                checks.append(_fail(codes.WORSE_THAN_BASELINE, name, value, limit, case.where, f"the baseline has {before:.3g}"))
            else:
                checks.append(Check(name, Status.PASS, value, limit, "", case.where))
    return checks


def _too_weak(case: Case, limits: Mapping[str, Any]) -> list[Check]:
    """Fails where a null answer keeps all limits of a case that should count, or an input does not matter."""
    null = passed_by(case, limits)
    detail = f"a null answer keeps all limits: {null}" if null and not is_weak(case, limits) else ""
    if case.silent_inputs:
        detail = detail or f"the reference ignores {', '.join(case.silent_inputs)}"
    return [_blind(codes.TOO_WEAK, "sharpness", detail, case)] if detail else []


def _blind(code: Code, name: str, observed: str, case: Case) -> Check:
    """A check for a problem that can't tell right from wrong: a fault of whoever wrote limits and inputs, and of nobody where both came
    with the problem.
    """
    if any(output.honest_err is not None for output in case.outputs):
        return _inconclusive(code, name, observed, case.where, "the problem's own inputs and outputs can't tell")
    return _fail(code, name, observed, None, case.where)


def _seeds(cases: Sequence[Case]) -> list[Check]:
    """Fail if two seeds of one shape share inputs, or if on no shape any seed changes the reference.

    Two seeds may share an answer by chance: the place of a maximum, a count. Special inputs (all zeros) may share theirs.
    """
    by_shape: dict[str, list[Case]] = {}
    for case in cases:
        if case.status == "ok" and case.inputs == DEFAULT_INPUTS:
            by_shape.setdefault(case.shape, []).append(case)
    for found in by_shape.values():
        for index, case in enumerate(found):
            earlier = next((one for one in found[:index] if one.inputs_sha256 == case.inputs_sha256), None)
            if earlier is not None:
                return [_blind(codes.SAME_INPUTS, "seeds", f"inputs equal those of seed {earlier.seed}", case)]
    several = [found for found in by_shape.values() if len(found) > 1]
    if several and all(len({case.reference_sha256 for case in found}) == 1 for found in several):
        one = several[0]
        detail = f"the reference equals that of seed {one[0].seed}: it is constant over the inputs"
        return [_blind(codes.TOO_WEAK, "seeds", detail, one[1])]
    return []


def _findings(case: Case) -> list[Check]:
    return [
        _fail(
            codes.FAULTS.get(finding.kind, codes.EMULATOR_FINDING),
            finding.kind,
            finding.message,
            None,
            case.where,
            f"{finding.kernel} {finding.where}".strip(),
        )
        for finding in case.findings[:5]
    ]


def _merge(checks: Any) -> list[Check]:
    """One check for each quantity that passed everywhere (its worst case), and every other check by itself."""
    grouped: dict[str, list[Check]] = {}
    for check in checks:
        grouped.setdefault(check.name, []).append(check)
    bad = [check for found in grouped.values() for check in found if check.status is not Status.PASS]
    return bad + [max(found, key=_share) for found in grouped.values() if all(check.status is Status.PASS for check in found)]


def _share(check: Check) -> float:
    """The part of its limit that a check uses up."""
    seen, limit = check.observed or 0, check.limit or 1
    return seen / limit if isinstance(seen, (int, float)) and isinstance(limit, (int, float)) else 0.0


def _worst(outputs: Sequence[OutputErrors], figure: str) -> OutputErrors:
    return max(outputs, key=lambda output: float("inf") if getattr(output, figure) is None else getattr(output, figure))


def _first_bad(case: Case) -> str:
    return next((_place(output) for output in case.outputs if output.nonfinite), "")


def _place(output: OutputErrors) -> str:
    index = ", ".join(str(part) for part in output.worst_index)
    return f"{output.name}[{index}] is {_text(output.worst_got)}, expected {_text(output.worst_expected)}"


def _text(value: float | str | None) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _zero(code: Code, count: int, case: Case, unit: str, detail: str = "") -> Check:
    if count:
        return _fail(code, code.reason, count, 0, case.where, detail, unit)
    return Check(code.reason, Status.PASS, 0, 0, unit, case.where)


def _fail(code: Code, name: str, observed: Any, limit: Any, where: str, detail: str = "", unit: str = "") -> Check:
    return Check(name, Status.FAIL, observed, limit, unit, where, code, _sentences(detail, code.explanation))


def _sentences(detail: str, text: str) -> str:
    return f"{detail}. {text[:1].upper()}{text[1:]}" if detail else text


def _bound_place(output: OutputErrors) -> str:
    index = ", ".join(str(part) for part in output.bound_index)
    honest = "the limit" if (output.max_err_over_rule or 0.0) > 1.0 else f"{FACTOR_OF_HONEST:g} times the honest error"
    explained = "rounding explains" if output.honest_err is None else f"{honest} there is"
    text = f"{output.name}[{index}] is off by {_text(output.bound_error)}, {explained} {_text(output.bound_at)}"
    if output.max_err_over_rule is None:
        return text
    return f"{text}; the format's own rule {'would let all of it pass' if output.max_err_over_rule <= 1.0 else 'refuses it, too'}"


def _inconclusive(code: Code, name: str, observed: Any, where: str, detail: str = "") -> Check:
    return Check(name, Status.INCONCLUSIVE, observed, None, "", where, code, _sentences(detail, code.explanation))


def _sentence(evidence: CorrectnessEvidence, limits: Mapping[str, Any], whole: str, weak: set[Any]) -> str:
    words = {"odd": "odd shape", "edge": "edge case", "family": "case with special inputs", "fresh": "fresh case"}
    plural = {"odd": "odd shapes", "edge": "edge cases", "family": "cases with special inputs", "fresh": "fresh cases"}
    counts = {role: sum(case.role == role and case.key not in weak for case in evidence.cases) for role in words}
    others = [f"{count} {(words if count == 1 else plural)[role]}" for role, count in counts.items() if count and not evidence.replay]
    parts = [f"{whole} cases" + (f" and {', '.join(others)}" if others else "")]
    if evidence.extra_seeds:
        parts.append(f"fresh seed {', '.join(str(seed) for seed in dict.fromkeys(evidence.extra_seeds))}")
    for word, found in (
        ("weak", [case for case in evidence.cases if case.key in weak and case.status == "ok" and not case.empty]),
        ("without elements", [case for case in evidence.cases if case.empty]),
        ("without an answer", [case for case in evidence.cases if case.status in UNJUDGED]),
    ):
        if found:
            parts.append(f"{len(found)} {word}, not counted" + (f" ({', '.join(case.where for case in found)})" if len(found) <= 3 else ""))
    if single := next((output.name for case in evidence.cases for output in case.outputs if output.reference_dtype == "float32"), ""):
        parts.append(f"the reference gives {single} in float32, whose rounding counts as the kernel's error")
    derived = [output for case in evidence.cases if case.role == "headline" for output in case.outputs if output.honest_err is not None]
    if derived:
        parts.append(worth(max((output.rule_over_bound for output in derived if output.rule_over_bound is not None), default=None)))
    if limits.get("bad_pct", 0) > 5:
        parts.append(f"loose by choice: {limits['bad_pct']} % may be off by more than {limits.get('bad_atol')}")
    if len({case.shape for case in evidence.cases}) == 1:
        parts.append("one shape only")
    return "; ".join(parts)
