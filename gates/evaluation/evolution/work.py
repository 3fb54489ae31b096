"""What a worker does with one candidate: evaluate it, time it again, judge it whole. Plain functions of a picklable ``Ask``.

A GatesError that leaves them is about the machine, not the candidate, and ends the search.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from gates.build.toolchain import find_toolchain
from gates.core.scratch_folder import ScratchFolder
from gates.evaluation.evaluate import evaluate_task, session_of
from gates.evaluation.overlay import Candidate, laid_out, resolved
from gates.evaluation.record import Evaluation
from gates.evaluation.terms import Terms, incumbent
from gates.evidence.run_directory import RunDirectory
from gates.launch.device import card
from gates.pipeline.run import Options, run_task
from gates.render.console import Silence
from gates.sweep.record import Timing
from gates.sweep.work import build_pair, own_device, time_pair, timing_of
from gates.task.load import Task


@dataclass(frozen=True)
class Ask:
    """A candidate of the task in ``folder``, known as ``id``. Paths are absolute."""

    id: str
    folder: str
    candidate: Candidate
    terms: Terms


@dataclass(frozen=True)
class Evaluated:
    """What an evaluation said."""

    id: str
    evaluation: Evaluation


@dataclass(frozen=True)
class Timed:
    """A timing, and the text of its performance.json."""

    id: str
    timing: Timing
    evidence: str


@dataclass(frozen=True)
class Judged:
    """The name of a published run directory, and its decision."""

    id: str
    run: str
    decision: str


def evaluate_there(ask: Ask) -> Evaluated:
    """Evaluate the candidate; what was evaluated before a worker died is answered from what it kept."""
    return Evaluated(ask.id, evaluate_task(ask.folder, ask.candidate, ask.terms, Silence()))


def time_there(ask: Ask) -> Timed:
    """Time a valid candidate once more, alongside what it is timed against."""
    started, device = time.monotonic(), own_device()
    task, files = _found(ask)
    against = incumbent(ask.terms.task(ask.folder), ask.terms)
    with (
        ScratchFolder(Path(tempfile.gettempdir()), "gates-evaluate-") as scratch,
        RunDirectory(scratch / "evidence", task.name) as directory,
    ):
        session = session_of(task, files, ask.candidate, ask.terms, find_toolchain(), device, directory, scratch, Silence())
        pair = build_pair(session, against, ask.terms.build_dir)
        with card(device.uuid):
            evidence = time_pair(session, pair, ask.terms.budget_s)
        timing = timing_of(ask.id, evidence, session.task.gates["performance"], device.uuid, round(time.monotonic() - started, 3))
        return Timed(ask.id, timing, (directory.path / "performance.json").read_text(encoding="utf-8"))


def run_there(ask: Ask) -> Judged:
    """A whole `gates run` of the candidate, whose fresh seed and shapes no evaluation used."""
    task, files = _found(ask)
    toggles = {name: str(value) for name, value in {**ask.terms.toggles, **ask.candidate.toggles}.items()}
    shown = [part for name, value in toggles.items() for part in ("--toggle", f"{name}={value}")]
    with ScratchFolder(Path(tempfile.gettempdir()), "gates-evaluate-") as scratch:
        stage = laid_out(task, files, {}, scratch / "candidate", baseline=True) if files else task
        options = Options(
            task=str(stage.folder),
            toggles=toggles,
            profile="full" if ask.terms.stage == "speed" else "cpu",
            results=ask.terms.results,
            build_dir=scratch / "build" if files else ask.terms.build_dir,
            argv=("run", task.name, *shown),
        )
        outcome = run_task(options, Silence())
    return Judged(ask.id, outcome.path.relative_to(ask.terms.results).as_posix(), outcome.verdict.decision.value)


def _found(ask: Ask) -> tuple[Task, dict[str, str]]:
    """The task with the candidate's toggles, and the candidate's texts by their places."""
    task = ask.terms.task(ask.folder, ask.candidate.toggles)
    return task, resolved(task, ask.candidate)
