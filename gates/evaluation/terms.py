"""How far a candidate is judged, and what it is timed against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from gates.core.errors import GatesError
from gates.evidence.run_directory import RunInfo, read_record, resolve_run
from gates.review.leaderboard import elite
from gates.task.load import Task, find_task, load_baseline
from gates.verify.checkout import same_files


@dataclass(frozen=True)
class Terms:
    """How far to judge: ``stage`` of ``STAGES``; ``budget_s`` of sampling. ``toggles``: what the task has before a candidate changes it.

    ``against``: ``task`` (unchanged), ``baseline``, ``elite`` (the best version that may be merged), or a run.
    """

    stage: str = "memory"
    against: str = "task"
    profile: str = "auto"
    device: int = 0
    budget_s: float = 10.0
    results: Path = Path("results")
    build_dir: Path = Path("build")
    jobs: int | None = None
    toggles: Mapping[str, int | str] = field(default_factory=dict)

    def task(self, name: str, toggles: Mapping[str, int | str] = MappingProxyType({})) -> Task:
        """The task of that name, or with ``toggles`` of a candidate; the environment has no say."""
        return find_task(name, {key: str(value) for key, value in {**self.toggles, **toggles}.items()}, environ={})


def incumbent(task: Task, terms: Terms) -> Task:
    """What candidates of ``task`` are timed against; raises GatesError if it can't be built from the files here."""
    if terms.against == "task":
        return task
    if terms.against == "baseline":
        if (baseline := load_baseline(task)) is None:
            raise GatesError(f"{task.name} has no baseline to be timed against", hint="leave --against out: the unchanged task")
        return baseline
    name = _best_run(task, terms) if terms.against == "elite" else terms.against
    run = resolve_run(name, terms.results)
    info: RunInfo = read_record(RunInfo, run, "run.json")
    if info.task.name != task.name:
        raise GatesError(f"{name} is a run of {info.task.name}, not of {task.name}", hint=f"e.g. --against latest:{task.name}")
    found = find_task(str(task.folder), {key: str(value) for key, value in info.task.toggles.items() if key in task.toggles}, environ={})
    if not same_files(found, info.task):
        raise GatesError(f"the files of {task.name} have changed since {name}", hint="check that version out, or time against task")
    return found


def _best_run(task: Task, terms: Terms) -> str:
    """The run of the best version of the task on any device, as `gates elite` ranks them."""
    best = [group.best[0] for group in elite(terms.results, task.name, 1).groups]
    if not best:
        raise GatesError(f"no version of {task.name} may be merged yet", hint="leave --against out: the unchanged task")
    return max(best, key=lambda one: one.started).path
