"""Which limits judge a case, and whether a null answer keeps them too.

Limits that an output of zeros would keep prove nothing. So beside the kernel's own errors the run
records what null answers would score on the same case: zeros, the reference's mean, the reference's rows
shifted by one, and the problem's own (see ``gates/task/problem.py``). Where a null keeps every limit that judges
the case, the case is weak. On a headline case that is a fault of the limits or of the inputs, and fails. On
an odd or edge shape or special inputs it can't be helped (one key: the output is V itself), so such a
case is told, and counts for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gates.core.records import Check, Status
from gates.gate.correctness.evidence import UNJUDGED, Case, OutputErrors
from gates.task.problem import is_ordinary, widened

FIGURES = ("max_abs_err", "mean_abs_err", "bad_pct")
BOUND = "max_err_over_bound"
_FIRM = ("headline", "extra")  # roles in which a weak case is a fault


def limits_of(case: Case, limits: Mapping[str, Any]) -> dict[str, float]:
    """The limits on errors that judge ``case``.

    Absolute limits were chosen for the task's own shapes and for ordinary inputs. Edge shapes and special
    inputs have errors of another size, so there the error bound judges alone, where the task uses it. Without one, the absolute
    limits are as wide for drawn shapes and structured values as ``gates/gate/correctness/runner/yardstick.py`` found.
    """
    if BOUND in limits and not is_ordinary(case.role, case.inputs):
        return {BOUND: limits[BOUND]}
    own = {figure: limits[figure] for figure in (*FIGURES, BOUND) if figure in limits}
    return {
        figure: widened(limit, case.limit_scale, case.limit_floor) if figure in ("max_abs_err", "mean_abs_err") else limit
        for figure, limit in own.items()
    }


def tighter_than_format(output: OutputErrors, figure: str, limit: float) -> str:
    """Return that ``limit`` asks for less than the output's format can hold at the worst element, if the error is at most two of the
    format's steps beyond it; else "".
    """
    expected, error, allowed = output.worst_expected, output.max_abs_err, limit
    if figure == BOUND and output.bound_index == output.worst_index and output.bound_at is not None:
        error, allowed = output.bound_error, limit * output.bound_at
    elif figure != "max_abs_err":
        return ""
    if not isinstance(expected, float) or not expected or error is None:
        return ""
    step = output.unit_roundoff * 2.0 ** math.frexp(expected)[1]  # between neighbours of the format there
    if not allowed < 0.5 * step or error > allowed + 2.0 * step:
        return ""
    steps = f"{error / step:.2g}"
    return (
        f"{steps} unit{'s' * (steps != '1')} in the last place of {output.dtype}; "
        f"the limit is tighter than the format can hold: it allows {allowed:.3g} there, and one rounding may cost {0.5 * step:.3g}"
    )


def compared(case: Case) -> bool:
    """Whether ``match_baseline`` holds for ``case``: not on edge shapes and special inputs, where the bound judges."""
    return is_ordinary(case.role, case.inputs)


def passed_by(case: Case, limits: Mapping[str, Any]) -> str:
    """The null answer that keeps every limit of ``case``, as ``kind of output``; empty where all of them fail."""
    given = limits_of(case, limits)
    for output in case.outputs if given else ():
        for null in output.nulls:
            if output.elements == 1 and null.kind == "mean":
                continue  # the mean of one element is that element
            values = [(getattr(null, figure), limit) for figure, limit in given.items()]
            if all(value is not None and value <= limit for value, limit in values):
                return f"{null.kind} of {output.name}"
    return ""


def is_weak(case: Case, limits: Mapping[str, Any]) -> bool:
    """Return whether ``case`` is named but not counted: a null answer also passes it, or it has no element."""
    return case.empty or (case.status == "ok" and case.role not in _FIRM and bool(passed_by(case, limits)))


def weak_check(cases: Sequence[Case], limits: Mapping[str, Any]) -> list[Check]:
    """One passed check that names the weak cases of a run; none where there are none."""
    weak = [(case, passed_by(case, limits)) for case in cases if is_weak(case, limits)]
    if not weak:
        return []
    told = "; ".join(f"{case.where}: {null or 'no elements: nothing was compared'}" for case, null in weak)
    return [
        Check(
            "weak_cases",
            Status.PASS,
            len(weak),
            None,
            "cases",
            told,
            hint="a null answer keeps all limits there, or there is nothing to compare: not counted",
        )
    ]


def unjudged_check(cases: Sequence[Case]) -> list[Check]:
    """Return one passed check that names the cases without an answer of the problem, and those whose size the kernel refuses."""
    found = [case for case in cases if case.status in UNJUDGED]
    told = "; ".join(f"{case.where}: {case.message}" for case in found)
    hint = "declare what the kernel must accept: DIMS and OUT_OF_CONTRACT of the problem"
    return [Check("unjudged_cases", Status.PASS, len(found), None, "cases", told, hint=hint)] if found else []
