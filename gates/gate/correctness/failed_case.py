"""What a failing check of a case carries for the person who reads it: map, first elements, causes, and the command to replay it."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence

from gates.core.records import Check, Status
from gates.gate.correctness import codes
from gates.gate.correctness.causes import KNOWN_ANSWER, causes, elements_line, map_line
from gates.gate.correctness.evidence import Case, CorrectnessEvidence
from gates.task.problem import DEFAULT_INPUTS


def with_story(checks: Sequence[Check], case: Case, evidence: CorrectnessEvidence) -> list[Check]:
    """``checks`` of one case; those that failed get the replay command, and the first of them the notes."""
    cause = any(check.code == codes.OTHER_STREAM for check in checks)  # what the wrong elements look like would mislead
    told, notes = [], () if cause else _notes(case)
    for check in checks:
        if check.status is Status.FAIL:
            check = dataclasses.replace(check, reproduce=replay_command(case, evidence), notes=notes)
            notes = ()
        told.append(check)
    return told


def replay_command(case: Case, evidence: CorrectnessEvidence) -> str:
    """The command that runs just ``case``; empty where the evidence does not say how the runner is started.

    Example: ``python tasks/row_sum/runner.py --shape tail --seed 17 --inputs zeros --device emulator``.
    """
    if not evidence.runner:
        return ""
    inputs = "" if case.inputs == DEFAULT_INPUTS else f" --inputs {shlex.quote(case.inputs)}"
    device = evidence.device if evidence.device in ("emulator", "cpu") else "cuda"
    return f"{evidence.runner} --shape {shlex.quote(case.shape)} --seed {case.seed}{inputs} --device {device}"


def clearest_first(checks: Sequence[Check]) -> list[Check]:
    """The checks in their order, but before all the first whose notes name the cause for certain, if there is one."""
    clear = next((check for check in checks if any(note.startswith(f"likely: {KNOWN_ANSWER}") for note in check.notes)), None)
    return sorted(checks, key=lambda check: check is not clear)


def _notes(case: Case) -> tuple[str, ...]:
    lines: list[str] = []
    for output in case.outputs:
        found = output.error_map
        if found is None:
            continue
        name = f"{output.name}: " if len(case.outputs) > 1 else ""
        lines.append(f"where: {name}{map_line(found)}; {found.limit}")
        lines.append(f"first: {elements_line(found)}")
        unwritten = case.unwritten.get(output.name, 0)
        differs = case.differences > sum(case.unwritten.values())  # else the poison differs
        likely = causes(found, unwritten, half=output.dtype == "float16", differs=differs)
        lines += [f"likely: {cause}" for cause in likely]
    return tuple(lines)
