"""Check evidence of memory checks: counts that add up, and every check that was planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gates.evidence.differences import Told, differences
from gates.evidence.run_directory import RunInfo, TaskInfo
from gates.gate.sanitizer.evidence import EMULATOR
from gates.gate.sanitizer.judge import DEVICE_TOOLS

ORDERS = ("forward", "reversed", "shuffled")  # of AddressSanitizer's runs


def contradictions(evidence: Any) -> Iterator[str]:
    """Yield what does not add up in the evidence, one sentence each."""
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


def departures(info: RunInfo, side: TaskInfo, evidence: Any, others: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the evidence of ``side`` has otherwise than run.json says, and the checks that were planned and are missing, one sentence
    each.
    """
    yield from differences([("target", evidence.target, side.name), *_terms(info, side, evidence)])
    if not evidence.unavailable:
        yield from _memory_checks(side, evidence, others.get("correctness"))


def _terms(info: RunInfo, side: TaskInfo, evidence: Any) -> Told:
    yield "mode", evidence.mode, "device" if info.device else "emulator"
    asan = any(run.tool == "asan" for run in evidence.runs)  # without a device in runs of before
    tool = "compute-sanitizer" if info.device else "g++" if asan else ""
    if evidence.runs and (version := info.toolchain.get(tool)):
        yield "tool_version", version if version in evidence.tool_version else evidence.tool_version, version
    yield "orders", sorted({run.order for run in evidence.runs} - set(ORDERS if asan else ("",))), []
    yield (
        "tools",
        sorted({run.tool for run in evidence.runs} - set(DEVICE_TOOLS if info.device else ("asan",) if asan else (EMULATOR,))),
        [],
    )


def _memory_checks(task: TaskInfo, evidence: Any, correctness: Any) -> Iterator[str]:
    """On each side the same: the smallest of the judged shapes (on a device a larger one too) and the problem's odd ones, by each tool in
    each order.

    Structured values (``small zero_rows``) are tried in one order, on a shape that is checked with ordinary inputs, too.
    """
    judged = task.judged_shapes or tuple(task.shapes)
    plain = [(run.tool, run.order, [shape for shape in run.shapes if " " not in shape]) for run in evidence.runs]
    checked = {shape for _, _, shapes in plain for shape in shapes}
    for tool, order in sorted({(tool, order) for tool, order, _ in plain}):
        if missing := checked - {shape for other, way, shapes in plain if (other, way) == (tool, order) for shape in shapes}:
            yield f"{' '.join([tool, order]).strip()} checked no {', '.join(sorted(missing))}, others did"
    structured = {shape for run in evidence.runs for shape in run.shapes if " " in shape}
    if elsewhere := sorted(label for label in structured if label.partition(" ")[0] not in checked):
        yield f"{', '.join(elsewhere)} was checked, and its shape with ordinary inputs was not"
    if checked and checked.isdisjoint(judged):
        yield f"none of the judged shapes {', '.join(judged)} was checked"
    if correctness and checked and not correctness.replay and all(case.status == "ok" for case in correctness.cases):
        odd = {case.shape for case in correctness.cases if case.role == "odd"}
        if unchecked := sorted(odd - checked):
            yield f"the odd shapes {', '.join(unchecked)} were not checked"
        if unjudged := sorted(checked - {case.shape for case in correctness.cases}):
            yield f"the shapes {', '.join(unjudged)} were checked, and correctness.json has no case of them"
