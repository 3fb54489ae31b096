"""Which stages does a change touch? Sets the output `stages`, a JSON list of task names.

A task is touched by a change to its folder, to a file that makes it (sources, problem, every header and module that these
lead to, as ``Task.made_of`` finds them), to a name that one of them looks for in vain, as after a header was deleted, or to the
baseline that it is measured against. Dependants are taken one step far: where stage 1 changes, stage 2 is
measured anew, but stage 3 is still measured against the same stage 2. A change to the engine or to what
installs and runs it touches every task; documentation and tests touch none.

Example: git diff --name-only -z --no-renames main...HEAD | python scripts/ci/touched_stages.py --tree . --files -
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci_common import CiError, add_summary, read_event, run_step, set_output

from gates.core.errors import GatesError
from gates.task.load import Task, load_baseline, load_task

ENGINE = (
    "gates/",
    "scripts/ci/",
    "scripts/setup_venv.py",
    ".github/",
    "constraints.txt",
    "pyproject.toml",
)
_NO_COMMIT = "0" * 40


@dataclass(frozen=True)
class Places:
    """Where a task lies, in paths below the tree; ``own`` is a folder, ``files`` are those that make it, or would if they were there."""

    name: str
    own: str
    files: frozenset[str] = frozenset()
    baselines: tuple[str, ...] = ()  # the folders that `baseline:` may mean, whether they exist or not
    baseline_files: frozenset[str] = frozenset()  # that make it
    broken: bool = False  # task.yaml can't be read: the run has to say so


def main() -> int:
    """Print and set the touched stages; the exit code is 0, or 2 where they can't be told."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tree", type=Path, default=Path(), help="the checkout whose tasks are meant")
    parser.add_argument("--files", help="file of changed paths, NUL-separated; - is stdin  [default: from the event]")
    arguments = parser.parse_args()
    tree = arguments.tree.resolve()
    files = changed_by_event(tree) if arguments.files is None else _listed(arguments.files)
    places = [places_of(folder.parent, tree) for folder in sorted(tree.glob("tasks/*/task.yaml"))]
    touched = touched_stages(files, places)
    add_summary(_table(touched))
    set_output("stages", json.dumps(sorted(touched)))
    return 0


def touched_stages(files: Iterable[str] | None, places: list[Places]) -> dict[str, str]:
    """{task: why it is touched}; ``files`` None means that everything changed."""
    if files is None:
        return {place.name: "no earlier commit to compare with" for place in places}
    files = list(files)
    touched = {}
    for place in places:
        why = _why(place, files)
        if why:
            touched[place.name] = why
    return touched


def places_of(folder: Path, tree: Path) -> Places:
    """The places of the task in ``folder``; a task that can't be read is all its folder and is broken."""
    own = _below(folder, tree)
    try:
        task = load_task(folder, environ={})
    except GatesError:
        return Places(folder.name, own, broken=True)
    try:
        baseline = load_baseline(task)
    except GatesError:  # it has vanished, or can't be read
        baseline = None
    return Places(task.name, own, _files(task, tree), tuple(_baselines(task, tree)), _files(baseline, tree) if baseline else frozenset())


def changed_by_event(tree: Path) -> list[str] | None:
    """The paths that the event's commits change; None where there is nothing to compare with."""
    name, event = read_event()
    if name in ("pull_request", "pull_request_target"):
        return _git_diff(tree, f"{_sha(event, 'base')}...{_sha(event, 'head')}")
    before = event.get("before")
    if name == "push" and isinstance(before, str) and re.fullmatch(r"[0-9a-f]{40}", before) and before != _NO_COMMIT:
        return _git_diff(tree, f"{before}..HEAD")
    return None


def _why(place: Places, files: list[str]) -> str:
    if place.broken:
        return "its task.yaml can't be read"
    for path in files:
        if path.startswith(ENGINE):
            return f"the engine changed ({path})"
        if path.startswith(f"{place.own}/"):
            return f"its folder changed ({path})"
        if path in place.files:
            return f"a file that it is made of changed ({path})"
    for path in files:
        if path in place.baseline_files or any(path.startswith(f"{folder}/") for folder in place.baselines):
            return f"its baseline changed ({path})"
    return ""


def _files(task: Task, tree: Path) -> frozenset[str]:
    made_of = task.made_of()
    paths = {*made_of.files, *map(Path, made_of.sought)}
    folders = {folder: tuple(_places(folder)) for folder in {path.parent for path in paths}}  # thousands of names lie in a few folders
    found: set[Path] = set()
    for path in paths:
        _, real_folder, *links = folders[path.parent]
        found |= {*(_places(path) if path.is_symlink() else (path, real_folder / path.name)), *links}
    return frozenset(filter(None, (_below(place, tree) for place in found)))


def _places(path: Path) -> Iterable[Path]:
    """``path``, where it leads, and the symbolic links in it: git names a link and its target, and no path through it."""
    return path, Path(os.path.realpath(path)), *(place for place in (path, *path.parents) if place.is_symlink())


def _baselines(task: Task, tree: Path) -> Iterable[str]:
    if task.baseline:
        for start in (task.folder.parent, task.folder):
            yield _below(Path(os.path.normpath(start / task.baseline)), tree)


def _below(path: Path, tree: Path) -> str:
    """``path`` below ``tree`` with forward slashes; empty for the tree itself and for what lies outside."""
    try:
        text = path.relative_to(tree).as_posix()
    except ValueError:
        return ""
    return "" if text == "." else text


def _sha(event: dict[str, Any], side: str) -> str:
    try:
        sha = event["pull_request"][side]["sha"]
    except (KeyError, TypeError):
        sha = None
    if not isinstance(sha, str) or not re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", sha):
        raise CiError(f"the event names no commit for the pull request's {side}")
    return sha


def _git_diff(tree: Path, what: str) -> list[str]:
    command = ["git", "-C", str(tree), "diff", "--name-only", "--no-renames", "-z", what]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or [""]
        raise CiError(f"git can't compare {what}: {said[0]}", "check out with fetch-depth: 0")
    return _split(done.stdout)


def _listed(name: str) -> list[str]:
    return _split(sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes())


def _split(data: bytes) -> list[str]:
    return [part.decode("utf-8", "surrogateescape") for part in data.split(b"\0") if part]


def _table(touched: dict[str, str]) -> str:
    if not touched:
        return "No stage is touched by this change."
    rows = "\n".join(f"| {name} | {_cell(why)} |" for name, why in sorted(touched.items()))
    return f"| stage | judged because |\n| --- | --- |\n{rows}"


def _cell(text: str) -> str:
    plain = "".join(sign if sign.isprintable() else "?" for sign in text)
    return plain.replace("|", "\\|").replace("<", "&lt;").encode("utf-8", "replace").decode()


if __name__ == "__main__":
    sys.exit(run_step(main))
