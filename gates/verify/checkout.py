"""A recorded task in this checkout: where its kernels are defined, and whether it is still what was judged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from gates.core.errors import GatesError
from gates.evidence.run_directory import Git, RunInfo, TaskInfo
from gates.task.load import Task, find_task
from gates.task.sources.files import project_root

_NAMED = 3  # changed files that a note names


def source_places(info: TaskInfo) -> tuple[dict[str, tuple[str, int]], dict[str, str]]:
    """({kernel: (path, line)}, {file name: path}), relative to the project; empty where the checkout has another stage.

    Only the stage that was judged counts: its lines are those of a checkout with the same digest.
    """
    task = _task_here(info)
    if task is None or not same_files(task, info):
        return {}, {}
    root = project_root(task.folder)
    files = {path.name: _relative(path, root) for path in task.files() if path.suffix in (".cu", ".cuh", ".h", ".hpp")}
    return {name: place for name in task.kernels if (place := _definition(task, name, root))}, files


def same_files(task: Task, info: TaskInfo) -> bool:
    """Return whether the task's files here are those of ``info``, as far as its digest covers them."""
    return task.digest(info.digest_rule) == info.digest


def changed_since(run: RunInfo) -> list[str]:
    """What this checkout has otherwise than the run that judged these stages, one sentence each; no fault of the run."""
    notes, problems = list[str](), dict[str, None]()
    for info in (run.task, run.baseline):
        task = _task_here(info) if info else None
        if info is None:
            continue
        if task is None:
            notes.append(f"`gates list` has no {info.name} here to compare with")
        elif (digest := task.digest(info.digest_rule)) == info.digest:
            notes += _not_covered(task, info, run.git)
        else:
            digests = f"its files' digest was {info.digest[:12]} and is {digest[:12]}"
            notes.append(f"{info.name} has changed in this checkout since: {_changed(task, run.git) or digests}")
            if info.problem_sha256 is not None and task.problem_sha256() not in (None, info.problem_sha256):
                problems[f"the problem {info.problem} has changed in this checkout since"] = None
    return [*notes, *problems]


def _changed(task: Task, git: Git) -> str:
    """The names of the stage's files that differ from the run's commit; empty if git can't say."""
    from gates.evidence.revision import changed_files  # starts git, which reading evidence seldom needs

    files = sorted({*task.files(), *(path for path in task.folder.iterdir() if path.suffix in (".yaml", ".py"))})
    return _few(changed_files(git.sha, files) or ()) if git.sha and not git.dirty else ""


def _few(names: Sequence[str]) -> str:
    """The first ``_NAMED`` names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:_NAMED])} and {more} more"


def _not_covered(task: Task, info: TaskInfo, git: Git) -> list[str]:
    """What is to be said of files that the run's digest does not cover, as those of earlier versions: git may know them as they were."""
    files = task.uncovered(info.digest_rule)
    from gates.evidence.revision import changed_files  # starts git, which reading evidence seldom needs

    changed = changed_files(git.sha, files) if git.sha and not git.dirty and files else None
    if not files or changed == []:
        return []
    if changed:
        return [f"{info.name} has changed in this checkout since: {_few(changed)}"]
    names = ", ".join(path.name for path in files)
    return [
        f"{info.name} was recorded by an earlier version, whose digest leaves out {names}; it is not known whether they have changed since"
    ]


def contradicts_checkout(info: TaskInfo) -> list[str]:
    """What run.json says of a stage otherwise than the task.yaml of the same digest in this checkout; empty where that has none."""
    task = _task_here(info)
    if task is None or not same_files(task, info):
        return []
    toggles = {name: value for name, value in info.overrides.items() if name in info.toggles}
    pairs: list[tuple[str, object, object]] = [
        ("problem", info.problem, task.problem),
        ("kernels", info.kernels, task.kernels),
        ("arch", info.arch, task.arch),
        ("kind", info.kind, task.kind),
        ("stream", info.stream, task.stream),
        ("toggles", info.toggles, dict(task.toggles)),
        ("overridden toggles", toggles, dict(task.overrides)),
        *((f"limits of {gate}", info.limits.get(gate, {}), dict(limits)) for gate, limits in task.gates.items()),
        ("gates that are not applicable", info.not_applicable, dict(task.not_applicable)),
        ("problem_sha256", info.problem_sha256 or task.problem_sha256(), task.problem_sha256()),
        ("shapes", info.declared_shapes or task.shapes, task.shapes),
        ("seeds", info.declared_seeds or task.seeds, task.seeds),
    ]
    return [
        f"run.json gives {info.name} other {what} than the task.yaml of the same digest in this checkout: {ours} instead of {theirs}"
        for what, ours, theirs in pairs
        if ours != theirs
    ]


def _task_here(info: TaskInfo) -> Task | None:
    """Return this checkout's task of that name, with those recorded toggles that it still has. None if the task cannot be read."""
    if "/" in info.name:  # a name in evidence leads to no other folder
        return None
    try:
        task = find_task(info.name, environ={})
        toggles = {name: str(value) for name, value in info.toggles.items() if name in task.toggles}
        return find_task(info.name, toggles, environ={})
    except GatesError:
        return None


def _definition(task: Task, kernel: str, root: Path) -> tuple[str, int] | None:
    """The line on which ``kernel`` follows a __global__."""
    pattern = re.compile(rf"__global__[^;{{}}]*?\b({re.escape(kernel)})\s*\(")
    for path in task.files():
        if path.suffix in (".cu", ".cuh") and (found := pattern.search(path.read_text(encoding="utf-8", errors="replace"))):
            return _relative(path, root), found.string.count("\n", 0, found.start(1)) + 1
    return None


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
