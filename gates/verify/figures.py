"""Counts and figures within one piece of evidence that must add up, whatever its verdict is."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from gates.core.records import to_json
from gates.gate.performance.evidence import MEASURED, summaries
from gates.gate.sass.evidence import TOP, count_classes


def contradictions(evidence: Mapping[str, Any]) -> Iterator[str]:
    """What does not add up in the evidence of each gate, one sentence each, with its file."""
    for gate, check in (("sass", _sass), ("correctness", _correctness), ("sanitizer", _sanitizer), ("performance", _performance), ("ncu", _ncu)):
        if gate in evidence:
            yield from (f"{gate}.json: {text}" for text in check(evidence[gate]))


def _sass(evidence: Any) -> Iterator[str]:
    for function in evidence.functions:
        told, top = f"{function.base_name} {function.arch}", function.top_mnemonics
        rest = function.instructions - sum(top.values())
        if rest < 0 or (rest and len(top) < TOP):
            yield f"{told} has {function.instructions} instructions, its commonest are {sum(top.values())}"
        for name, counted in count_classes(top).items():  # the others may be of the class, too
            if not counted <= function.classes.get(name, counted) <= counted + max(rest, 0):
                yield f"{told} has {function.classes[name]} instructions of the class {name}, {counted} of its commonest are, and {rest} others exist"


def _correctness(evidence: Any) -> Iterator[str]:
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
            for outputs, atol in ((case.outputs, evidence.bad_atol), (case.end_to_end, evidence.end_to_end_bad_atol), (case.nudged, evidence.bad_atol)):
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
    if ordinary and not output.nonfinite and all(isinstance(value, float) for value in (*worst, largest)) and not _close(abs(worst[0] - worst[1]), largest):
        yield f"the largest error is {largest}, the worst element is {worst[1]} in place of {worst[0]}"
    known = over is not None and output.bound_error is not None and output.bound_at
    if known and not _close(over, min(output.bound_error / output.bound_at, sys.float_info.max)):
        yield f"max_err_over_bound is {over}, its element has the error {output.bound_error} and the bound {output.bound_at}"
    if len({null.kind for null in output.nulls}) < len(output.nulls):
        yield "a trivial output appears twice, one"


def _same_reference(one: Any, other: Any) -> bool:
    return _close(one.reference_max_abs, other.reference_max_abs) and _close(one.reference_mean_abs, other.reference_mean_abs)


def _sanitizer(evidence: Any) -> Iterator[str]:
    if len({(run.tool, run.order, run.shapes) for run in evidence.runs}) < len(evidence.runs):
        yield "a run appears twice"
    each = {run.expected_launches / len(run.shapes) for run in evidence.runs if run.shapes}
    if len(each) > 1 or 0 in each:
        yield f"the runs expect {', '.join(f'{count:g}' for count in sorted(each))} launches per shape"
    for run in evidence.runs:
        told = sum(finding.severity in ("error", "library") for finding in run.findings)
        if run.summary_errors is not None and run.summary_errors < min(told, 1):
            yield f"{run.tool} tells of {told} errors and counts {run.summary_errors}"
        if run.launches > run.expected_launches or len(set(run.shapes)) < len(run.shapes):
            yield f"{run.tool} {run.order} has {run.launches} launches of {run.expected_launches}, on the shapes {', '.join(run.shapes)}"
        if not run.cause.startswith("killed" if run.timed_out or run.returncode < 0 else f"exit {run.returncode}"):
            yield f"{run.tool} {run.order} ended with {run.cause}, its exit code is {run.returncode}"


def _performance(evidence: Any) -> Iterator[str]:
    if evidence.status != MEASURED:
        return
    yield from _pairs(evidence)
    counted, told = summaries(evidence), evidence.figures
    for mode in dict.fromkeys([*counted, *told]):
        for side in dict.fromkeys([*counted.get(mode, {}), *told.get(mode, {})]):
            ours, theirs = (to_json(figures.get(mode, {}).get(side)) or {} for figures in (counted, told))
            for key in dict.fromkeys([*ours, *theirs]):
                if not _close(ours.get(key), theirs.get(key)):
                    yield f"figures.{mode}.{side}.{key} is {theirs.get(key)}, its samples give {ours.get(key)}"


def _pairs(evidence: Any) -> Iterator[str]:
    """Yield what is wrong with the list of blocks: a valid pair has one block of each side, whose launches are the same in each mode."""
    modes, launches = [series.mode for series in evidence.series], dict[str, int]()
    if len(set(modes)) < len(modes):
        yield f"the modes {', '.join(modes)} name one twice"
    for series in filter(None, (*evidence.series, evidence.control, evidence.single)):
        pairs: dict[str, list[int]] = {}
        for block in series.blocks:
            if block.valid:
                pairs.setdefault(block.side, []).append(block.pair)
        if len({tuple(sorted(numbers)) for numbers in pairs.values()}) > 1 or any(len(set(numbers)) < len(numbers) for numbers in pairs.values()):
            yield f"{series.mode}: the valid blocks are not one of each side in each pair"
        for side, count in series.launches.items():
            if count != (1 if series is evidence.single else launches.setdefault(side, count)):
                yield f"{series.mode}: a sample of the {side} has {count} launches, {1 if series is evidence.single else launches[side]} elsewhere"
    if evidence.inputs and evidence.inputs.seeds != tuple(range(evidence.seed or 0, (evidence.seed or 0) + len(evidence.inputs.seeds))):
        yield f"the seeds of its inputs do not follow each other from {evidence.seed} on"


def _ncu(evidence: Any) -> Iterator[str]:
    for role, side in evidence.sides.items():
        for one in side.kernels:
            if f"{one.kernel} #{one.launch}" not in side.launches:
                yield f"sides.{role}: launch {one.launch} of {one.kernel} is not in its list of launches"
        if len(set(side.launches)) < len(side.launches):
            yield f"sides.{role}: a launch appears twice"
    metrics = {tuple(counter.metric for counter in one.counters) for side in evidence.sides.values() for one in side.kernels}
    if len(metrics) > 1 or any(len(set(names)) < len(names) for names in metrics):
        yield "the kernels have not the same counters, each once"


def _close(one: float | str | None, other: float | str | None) -> bool:
    return one == other if not isinstance(one, (int, float)) or not isinstance(other, (int, float)) else math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
