"""Check evidence of correctness: figures of cases that add up, and every case that was planned."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from gates.core.records import same_figure
from gates.evidence.differences import Told, differences, stages
from gates.evidence.run_directory import RunInfo, TaskInfo
from gates.gate.correctness.plan import orders
from gates.task.load import CUDA, EXTENSION, NUMBA, TRITON, WARP
from gates.task.problem import DEFAULT_INPUTS, is_ordinary


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
                    yield (
                        f"{told}: {output.name} has {form[0]} elements of {form[1]}, in another case of the shape {known[0]} of {known[1]}"
                    )
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


def departures(info: RunInfo, side: TaskInfo, evidence: Any, others: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the evidence of ``side`` has otherwise than run.json says, and the cases that were planned and are missing, one sentence
    each.
    """
    yield from differences([*stages(info, side, "candidate", evidence), *_terms(info, side, evidence)])
    yield from headline_problems(side, evidence)
    yield from _cases(side, evidence)


def _terms(info: RunInfo, side: TaskInfo, evidence: Any) -> Told:
    limits = side.limits.get("correctness", {})
    emulated = {
        CUDA: "emulator",
        EXTENSION: "emulator",
        NUMBA: "emulator",
        WARP: "emulator",
        TRITON: evidence.device if evidence.device == "cpu" else "emulator",
    }  # cpu: in Triton's interpreter, before
    yield "device", evidence.device.partition(":")[0], "cuda" if info.device else emulated.get(side.kind, "cpu")
    yield "bad_atol", evidence.bad_atol, limits.get("bad_atol")
    yield "end_to_end_bad_atol", evidence.end_to_end_bad_atol, limits.get("end_to_end", {}).get("bad_atol")
    yield "limits_at without a limit", sorted(set(evidence.limits_at) - set(limits)), []


def headline_problems(task: TaskInfo, evidence: Any) -> list[str]:
    """Return what the headline cases are otherwise than run.json asks for."""
    if evidence.replay != bool(task.judged_inputs):
        return ["it and run.json disagree about whether the inputs were named from outside"]
    headline = [case.key for case in evidence.cases if evidence.replay or case.role == "headline"]
    expected = {
        (shape, seed, inputs)
        for shape in task.judged_shapes or tuple(task.shapes)
        for seed in task.seeds
        for inputs in task.judged_inputs or (DEFAULT_INPUTS,)
    }
    if set(headline) != expected or len(headline) != len(expected) or evidence.asked != len(expected):
        return [f"it holds {len(set(headline))} headline cases, run.json asks for {len(expected)}"]
    return []


def _cases(task: TaskInfo, evidence: Any) -> Iterator[str]:
    if evidence.planned is not None:  # the first runs do not have it
        found = Counter(case.role for case in evidence.cases)
        for role in dict.fromkeys([*evidence.planned, *found]):
            if found[role] != evidence.planned.get(role, 0):
                yield f"{evidence.planned.get(role, 0)} {role} cases were planned, it holds {found[role]}"
    yield from _otherwise_planned(task, evidence)
    if not evidence.replay:
        if not evidence.extra_seeds:
            yield "no fresh seed was tried"
        shapes = _judged(task)[:1] if evidence.device in ("emulator", "cpu") else _judged(task)
        extra = {case.key for case in evidence.cases if case.role == "extra"}
        for key in ((shape, seed, DEFAULT_INPUTS) for seed in dict.fromkeys(evidence.extra_seeds) for shape in shapes):
            if key not in extra:
                yield f"the fresh seed {key[1]} is named and has no case on {key[0]}"
    if evidence.baseline is not None:
        beside = {case.key for case in evidence.baseline_cases}
        for case in evidence.cases:
            if case.status == "ok" and is_ordinary(case.role, case.inputs) and case.key not in beside:
                yield f"the baseline has no case {case.where}"


def _otherwise_planned(task: TaskInfo, evidence: Any) -> Iterator[str]:
    """Yield the cases whose seed or thread orders the plan of the run does not give (``gates.gate.correctness.plan``)."""
    emulated, fresh = evidence.device in ("emulator", "cpu"), evidence.extra_seeds
    seeds = {"headline": task.seeds, "extra": fresh, "odd": (0,), "edge": task.seeds, "family": (0, *task.seeds), "fresh": fresh[:1]}
    turns = {"extra": (0,), "odd": (0,), "edge": (1, 2), "family": (1, 2), "fresh": (1, 2)}
    if evidence.planned is not None and len(set(fresh)) < len(fresh):  # the first runs have it twice
        yield f"the fresh seeds {', '.join(map(str, fresh))} name one twice"
    for case in evidence.cases:
        role = "headline" if evidence.replay else case.role
        if case.seed not in seeds[role]:
            yield f"{case.where}: the plan has no such seed for {role} cases"
        elif case.status == "ok":
            planned = {tuple(orders(emulated, turn)) for turn in ((task.seeds.index(case.seed),) if role == "headline" else turns[role])}
            if role == "fresh" and case.inputs != DEFAULT_INPUTS:  # structured values
                planned = {tuple(orders(emulated, 0)[: 1 if emulated else 2])}
            if case.orders not in planned:
                yield f"{case.where}: its thread orders {', '.join(case.orders)} are not those of the plan"
    ours = {case.key: case for case in evidence.cases}
    for case in evidence.baseline_cases:
        if (one := ours.get(case.key)) is None:
            yield f"the baseline has the case {case.where}, which the candidate has not"
        elif (case.role, case.orders) != (one.role, ("forward",) if case.status == "ok" else case.orders):
            yield (
                f"the baseline's {case.where} has the role {case.role} and the thread orders {', '.join(case.orders)}, the plan has "
                f"{one.role} and forward"
            )


def _judged(task: TaskInfo) -> tuple[str, ...]:
    return task.judged_shapes or tuple(task.shapes)
