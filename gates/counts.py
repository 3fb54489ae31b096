"""Counts and figures within one piece of evidence that must add up, whatever its verdict is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from gates.evidence import TaskInfo
from gates.parse.performance import MEASURED, summaries
from gates.records import to_json


def contradictions(evidence: Mapping[str, Any]) -> Iterator[str]:
    """What does not add up in the evidence of each gate, one sentence each, with its file."""
    for gate, check in (("sass", _sass), ("correctness", _correctness), ("sanitizer", _sanitizer), ("performance", _performance)):
        if gate in evidence:
            yield from (f"{gate}.json: {text}" for text in check(evidence[gate]))


def timed_otherwise(task: TaskInfo, evidence: Any) -> Iterator[str]:
    """What performance.json says otherwise than run.json: dimensions, bar, limits on outputs."""
    if evidence.status != MEASURED:
        return
    correctness = task.limits.get("correctness", {})
    for what, ours, theirs in (
        ("dimensions", dict(evidence.dimensions), task.shapes.get(evidence.shape)),
        ("bar_pct", evidence.bar_pct, task.limits.get("performance", {}).get("min_speedup_pct")),
        *((f"output_limits.{name}", limit, correctness.get(name)) for name, limit in evidence.output_limits.items()),
    ):
        if ours != theirs:
            yield f"performance.json: {what} is {ours}, run.json says {theirs}"


def _sass(evidence: Any) -> Iterator[str]:
    for function in evidence.functions:  # no instruction is of two classes
        if max(sum(function.classes.values()), sum(function.top_mnemonics.values())) > function.instructions:
            yield f"{function.base_name} {function.arch} has {function.instructions} instructions, fewer than those counted by kind"


def _correctness(evidence: Any) -> Iterator[str]:
    for name, cases in (("", evidence.cases), ("baseline ", evidence.baseline_cases)):
        if len({case.key for case in cases}) < len(cases):
            yield f"a {name}case stands twice"
        sizes: dict[tuple[str, str], int] = {}
        for case in cases:
            for output in case.outputs:
                if sizes.setdefault((case.shape, output.name), output.elements) != output.elements:
                    yield f"{name}{case.where}: {output.name} has {output.elements} elements, in another case of the shape {sizes[case.shape, output.name]}"
            for output in (*case.outputs, *case.end_to_end, *case.nudged):
                for what, count in (("not finite", output.nonfinite), ("not written", case.unwritten.get(output.name, 0))):
                    if count > output.elements:
                        yield f"{name}{case.where}: {count} elements of {output.name} are {what}, it has {output.elements}"
                if (output.mean_abs_err or 0.0) > (output.max_abs_err or 0.0) * (1.0 + 1e-9):
                    yield f"{name}{case.where}: the mean error of {output.name} is larger than the largest"


def _sanitizer(evidence: Any) -> Iterator[str]:
    for run in evidence.runs:
        told = sum(finding.severity in ("error", "library") for finding in run.findings)
        if run.summary_errors is not None and run.summary_errors < min(told, 1):
            yield f"{run.tool} tells of {told} errors and counts {run.summary_errors}"


def _performance(evidence: Any) -> Iterator[str]:
    if evidence.status != MEASURED:
        return
    counted, told = summaries(evidence), evidence.figures
    for mode in dict.fromkeys([*counted, *told]):
        for side in dict.fromkeys([*counted.get(mode, {}), *told.get(mode, {})]):
            ours, theirs = (to_json(figures.get(mode, {}).get(side)) or {} for figures in (counted, told))
            for key in dict.fromkeys([*ours, *theirs]):
                if not _close(ours.get(key), theirs.get(key)):
                    yield f"figures.{mode}.{side}.{key} is {theirs.get(key)}, its samples give {ours.get(key)}"


def _close(one: float | str | None, other: float | str | None) -> bool:
    return one == other if not isinstance(one, (int, float)) or not isinstance(other, (int, float)) else math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
