"""Counts and errors of cases that must add up, whatever the verdict is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from gates.core.records import same_figure


def contradictions(evidence: Any) -> Iterator[str]:
    """Yield what does not add up in the evidence, one sentence each."""
    references = {case.key: {output.name: output for output in case.outputs} for case in evidence.cases}
    for name, cases in (("", evidence.cases), ("baseline ", evidence.baseline_cases)):
        if len({case.key for case in cases}) < len(cases):
            yield f"a {name}case appears twice"
        forms: dict[tuple[str, str], tuple[int, str]] = {}
        for case in cases:
            told = f"{name}{case.where}"
            for output in case.outputs:
                form = (output.elements, output.dtype)
                if (known := forms.setdefault((case.shape, output.name), form)) != form:
                    yield f"{told}: {output.name} has {form[0]} elements of {form[1]}, in another case of the shape {known[0]} of {known[1]}"
                if name and (one := references.get(case.key, {}).get(output.name)) and not _same_reference(one, output):
                    yield f"{told}: the reference of {output.name} is not that of the candidate's case"
            yield from (f"{told}: {text}" for text in _case(case))
            ordinary = case.role != "fresh"  # the limits of the engine's own inputs are scaled, and elements without an answer are left out
            for outputs, atol in (
                (case.outputs, evidence.bad_atol),
                (case.end_to_end, evidence.end_to_end_bad_atol),
                (case.nudged, evidence.bad_atol),
            ):
                yield from (f"{told}: {text} of {output.name}" for output in outputs for text in _errors(output, atol, ordinary))


def _case(case: Any) -> Iterator[str]:
    if bool(case.differences) != bool(case.first_difference):
        yield f"{case.differences} elements differ between calls, the first is {case.first_difference or 'not named'}"
    if case.launch_count and not 0 < len(case.launches) <= case.launch_count:
        yield f"{case.launch_count} launches are counted, {len(case.launches)} are listed"
    if case.status == "ok" and set(case.unwritten) != {output.name for output in case.outputs}:
        yield f"the outputs {', '.join(case.unwritten)} were written, the errors are of {', '.join(output.name for output in case.outputs)}"
    for output in case.outputs:
        for what, count in (("not finite", output.nonfinite), ("not written", case.unwritten.get(output.name, 0))):
            if count > output.elements:
                yield f"{count} elements of {output.name} are {what}, it has {output.elements}"


def _errors(output: Any, atol: float | None, ordinary: bool) -> Iterator[str]:
    """Yield the figures of an output's errors that can't be true together, by their names."""
    largest, over = output.max_abs_err, output.max_err_over_bound
    if (output.mean_abs_err or 0.0) > (largest or 0.0) * (1.0 + 1e-9):
        yield "the mean error is larger than the largest error"
    if output.reference_mean_abs > output.reference_max_abs * (1.0 + 1e-9):
        yield "reference_mean_abs is larger than reference_max_abs"
    if output.bad_pct is not None:
        bad = min(output.bad_pct, 101.0) * output.elements / 100.0
        if abs(bad - round(bad)) > 1e-6 * max(1.0, bad) or bad > output.elements:
            yield f"bad_pct {output.bad_pct} is no share of {output.elements} elements"
        if ordinary and atol is not None and bool(output.bad_pct) != bool(output.nonfinite or (largest or 0.0) > atol):
            yield f"bad_pct {output.bad_pct} does not follow from the largest error {largest} and bad_atol {atol}"
    worst = (output.worst_expected, output.worst_got)
    known = ordinary and not output.nonfinite and all(isinstance(value, float) for value in (*worst, largest))
    if known and not same_figure(abs(worst[0] - worst[1]), largest):
        yield f"the largest error is {largest}, the worst element is {worst[1]} in place of {worst[0]}"
    known = over is not None and output.bound_error is not None and output.bound_at
    if known and not same_figure(over, min(output.bound_error / output.bound_at, sys.float_info.max)):
        yield f"max_err_over_bound is {over}, its element has the error {output.bound_error} and the bound {output.bound_at}"
    if len({null.kind for null in output.nulls}) < len(output.nulls):
        yield "a trivial output appears twice, one"


def _same_reference(one: Any, other: Any) -> bool:
    return same_figure(one.reference_max_abs, other.reference_max_abs) and same_figure(one.reference_mean_abs, other.reference_mean_abs)
