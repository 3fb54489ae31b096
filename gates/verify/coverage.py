"""Whether the evidence holds every case that was planned, those beside the headline too: fresh seeds, odd shapes, the baseline's, memory checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from gates.evidence.run_directory import TaskInfo
from gates.gate.correctness.plan import orders
from gates.task.problem import DEFAULT_INPUTS, is_ordinary


def left_out(task: TaskInfo, evidence: Mapping[str, Any]) -> Iterator[str]:
    """What is missing from the evidence of ``task``, one sentence each, with its file."""
    correctness, sanitizer = evidence.get("correctness"), evidence.get("sanitizer")
    if correctness:
        yield from (f"correctness.json: {text}" for text in _cases(task, correctness))
    if sanitizer and not sanitizer.unavailable:
        yield from (f"sanitizer.json: {text}" for text in _memory_checks(task, sanitizer, correctness))


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
            yield f"the baseline's {case.where} has the role {case.role} and the thread orders {', '.join(case.orders)}, the plan has {one.role} and forward"


def _memory_checks(task: TaskInfo, evidence: Any, correctness: Any) -> Iterator[str]:
    """On each side the same: the smallest of the judged shapes (on a device a larger one too) and the problem's odd ones, by each tool in each order.

    Structured values (``small zero_rows``) are tried in one order, on a shape that is checked with ordinary inputs, too.
    """
    plain = [(run.tool, run.order, [shape for shape in run.shapes if " " not in shape]) for run in evidence.runs]
    checked = {shape for _, _, shapes in plain for shape in shapes}
    for tool, order in sorted({(tool, order) for tool, order, _ in plain}):
        if missing := checked - {shape for other, way, shapes in plain if (other, way) == (tool, order) for shape in shapes}:
            yield f"{' '.join([tool, order]).strip()} checked no {', '.join(sorted(missing))}, others did"
    structured = {shape for run in evidence.runs for shape in run.shapes if " " in shape}
    if elsewhere := sorted(label for label in structured if label.partition(" ")[0] not in checked):
        yield f"{', '.join(elsewhere)} was checked, and its shape with ordinary inputs was not"
    if checked and checked.isdisjoint(_judged(task)):
        yield f"none of the judged shapes {', '.join(_judged(task))} was checked"
    if correctness and checked and not correctness.replay and all(case.status == "ok" for case in correctness.cases):
        odd = {case.shape for case in correctness.cases if case.role == "odd"}
        if unchecked := sorted(odd - checked):
            yield f"the odd shapes {', '.join(unchecked)} were not checked"
        if unjudged := sorted(checked - {case.shape for case in correctness.cases}):
            yield f"the shapes {', '.join(unjudged)} were checked, and correctness.json has no case of them"


def _judged(task: TaskInfo) -> tuple[str, ...]:
    return task.judged_shapes or tuple(task.shapes)
