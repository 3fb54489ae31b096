"""Check an evaluation from its folder alone: files as they were written, and an answer that follows from the evidence.

Sentences are not compared, and of the feedback only the reason codes: another version says the same in other words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gates.core.errors import GatesError
from gates.evaluation.answer import answer, timed_status
from gates.evaluation.record import FILE, gates_in, read_evaluation, stages_to
from gates.evidence.judging import rejudge
from gates.evidence.run_directory import RunInfo, read_record
from gates.gate.performance.evidence import PerformanceEvidence
from gates.sweep.work import timing_of
from gates.verify.run import digest_problems, same


def verify_evaluation(folder: Path) -> list[str]:
    """What is wrong with the evaluation in ``folder``, one sentence each; empty where it is sound."""
    try:
        return digest_problems(folder, frozenset({FILE})) or list(_departures(folder))
    except GatesError as error:
        return [error.what]
    except OSError as error:
        return [f"can't read {error.filename or folder}: {error.strerror}"]


def _departures(folder: Path) -> Iterator[str]:
    told = read_evaluation(folder)
    info: RunInfo = read_record(RunInfo, folder, "run.json")
    if told.id != folder.name or info.task.name != told.task:
        yield f"evaluation.json is of {told.task} {told.id}, the folder of {info.task.name} {folder.name}"
    same_run = {
        "device": (told.device, info.device.name if info.device else None),
        "toggles": (dict(told.toggles), dict(info.task.toggles)),
        "tool_version": (told.tool_version, info.tool_version),
    }
    yield from (f"{name} is {here} in evaluation.json and {there} in run.json" for name, (here, there) in same_run.items() if here != there)
    if not told.gates or [one.gate for one in told.gates] != _gates_to(told.stage, info)[: len(told.gates)]:
        yield f"the gates are not those of the stages up to {told.stage}"
        return
    results, timing = [], None
    for one in told.gates:
        if one.gate == "performance":
            evidence: PerformanceEvidence = read_record(PerformanceEvidence, folder, "performance.json")
            limits = info.task.limits["performance"]
            timing = timing_of("candidate", evidence, limits, "", 0.0)
            status = timed_status(timing, evidence, limits).value
            if (status, timing.code) != (one.status, one.code):
                yield f"performance is {one.status} ({one.code}), its evidence gives {status} ({timing.code})"
            continue
        again = rejudge(folder, info, one.gate)
        if again is None:
            if one.status == "pass":
                yield f"{one.gate} passed, and there is no {one.gate}.json"
            continue
        results.append(again)
        if (again.status.value, again.code) != (one.status, one.code):
            yield f"{one.gate} is {one.status} ({one.code}), its evidence gives {again.status.value} ({again.code})"
    if len(results) + (timing is not None) == len(told.gates):
        for name, value in answer(folder, told.gates, results, timing).items():
            if not _agree(getattr(told, name), value) if name != "feedback" else _faults(told.feedback) != _faults(value):
                yield f"{name} does not follow from the evidence"


def _agree(told: Any, again: Any) -> bool:
    """Whether two values are one; of two tables, what both of them name, as another version may have more figures or fewer."""
    if isinstance(again, dict):
        return all(same(told[name], again[name]) for name in told.keys() & again.keys())
    return same(told, again)


def _faults(feedback: str) -> list[str]:
    """The reason codes that a feedback names."""
    return re.findall(r"\[([a-z]+\.\w+)\]$", feedback, re.M)


def _gates_to(stage: str, info: RunInfo) -> list[str]:
    return [gate for one in stages_to(stage) for gate in gates_in(one, info.task.limits)]
