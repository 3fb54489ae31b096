"""A candidate: a task with other text in some of its source files, laid out in a folder of its own."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.task.load import Task, load_baseline, load_task, nearest

MOST_BYTES = 4 * 2**20  # of a candidate's text
_START, _END = "EVOLVE-BLOCK-START", "EVOLVE-BLOCK-END"
FIELDS = ("files", "toggles", "name", "parent", "note")


@dataclass(frozen=True)
class Candidate:
    """``files``: name of a source file -> its whole text; ``toggles`` beside the task's; the rest is handed on."""

    files: Mapping[str, str] = field(default_factory=dict)
    toggles: Mapping[str, int | str] = field(default_factory=dict)
    name: str = ""
    parent: str | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) for text in self.files.values()):
            raise GatesError("files must hold texts", hint="the name of a source and its whole text")


def editable(task: Task) -> dict[str, Path]:
    """What a candidate may replace: the sources and the headers of the stage, by their path below the folder that holds the stage.

    task.yaml, the problem and the Python files beside them say what is right, so they are not among these; of a Python or Triton
    task the sources are. ``editable`` of task.yaml leaves fewer; raises GatesError if it names anything else.
    """
    files = task.files()
    judging, root = {*task.problem_files(), *own_files(task)}, root_of(task, files)
    code = (path for path in files if path in task.sources or (path.suffix != ".py" and path not in judging))
    found = {path.relative_to(root).as_posix(): path for path in code}
    if unknown := [name for name in task.editable if not any(_is_named(place, name) for place in found)]:
        raise GatesError(
            f"{task.folder / 'task.yaml'}: editable: {unknown[0]} is not a source of the stage", hint=nearest(unknown[0], found)
        )
    chosen = (place for place in found if not task.editable or any(_is_named(place, name) for name in task.editable))
    return {place: found[place] for place in chosen}


def _is_named(place: str, name: str) -> bool:
    """Whether ``name`` is the end of the path ``place``."""
    parts = PurePosixPath(name).parts
    return bool(parts) and PurePosixPath(place).parts[-len(parts) :] == parts


def root_of(task: Task, files: Iterable[Path]) -> Path:
    """The folder that holds every one of the stage's ``files``, its own folder and its baseline's."""
    baseline = load_baseline(task)
    beside = [baseline.folder] if baseline else []
    return Path(os.path.commonpath([task.folder, *beside, *(path.parent for path in files)]))


def own_files(task: Task) -> list[Path]:
    """The YAML and Python files of the task's folder."""
    return [path for path in task.folder.iterdir() if path.is_file() and path.suffix in (".yaml", ".py")]


def resolved(task: Task, candidate: Candidate) -> dict[str, str]:
    """The text of each file that the candidate changes, by its path below ``root_of``.

    Raises GatesError for a name that fits no file of the stage, or several.
    """
    known, found = editable(task) if candidate.files else {}, dict[str, str]()
    for name, text in candidate.files.items():
        fitting = [place for place in known if _is_named(place, name)]
        if len(fitting) != 1:
            names = ", ".join(sorted(known))
            if fitting:
                raise GatesError(f"{name}: {task.name} has {len(fitting)} such files", hint=f"say which: {', '.join(fitting)}")
            near = nearest(name, [PurePosixPath(path).name for path in known])
            raise GatesError(f"{name or 'an empty name'}: {task.name} has no such source; a candidate may replace: {names}", hint=near)
        if fitting[0] in found:
            raise GatesError(f"{name}: {fitting[0]} is given twice", hint="each file once")
        if len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
            raise GatesError(f"{name}: more than {MOST_BYTES // 2**20} MiB of text", hint="a kernel source is smaller")
        before = known[fitting[0]].read_text(encoding="utf-8", errors="replace")
        if (outside := _outside(before)) and outside != _outside(text):
            raise GatesError(f"{name}: text outside the {_START} blocks differs", hint=f"change only what is between {_START} and {_END}")
        found[fitting[0]] = text
    return {name: text for name, text in found.items() if text != known[name].read_bytes().decode("utf-8", "replace")}


def _outside(text: str) -> list[str]:
    """The lines outside the marked blocks, the markers included; empty for a text without any."""
    kept, inside = list[str](), False
    for line in text.splitlines():
        inside = inside and _END not in line
        if not inside:
            kept.append(line)
        inside = inside or _START in line
    return kept if any(_START in line for line in kept) else []


def candidate_id(task: Task, files: Mapping[str, str], toggles: Mapping[str, int]) -> str:
    """24 hex digits that stand for the task, the replaced texts and the toggles in force."""
    return id_of(task.name, task.digest(), digests(files), toggles)


def id_of(task: str, stage: str, files: Mapping[str, str], toggles: Mapping[str, int]) -> str:
    """The same of the task's name and digest, and the sha256 of each replaced text."""
    told = {"task": task, "stage": stage, "files": dict(sorted(files.items())), "toggles": dict(sorted(toggles.items()))}
    return hashlib.sha256(jsonio.dumps(told).encode("utf-8")).hexdigest()[:24]


def digests(files: Mapping[str, str]) -> dict[str, str]:
    """The sha256 of each text."""
    return {name: hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for name, text in sorted(files.items())}


def laid_out(task: Task, files: Mapping[str, str], toggles: Mapping[str, int | str], root: Path, *, baseline: bool = False) -> Task:
    """Write the candidate as a task below ``root``. Each file of the stage keeps its path in the project; replaced files get the new text.

    ``baseline``: with all files of the task's baselines, for a whole run; without it, of the baseline only its task.yaml.
    """
    made_of, before = task.files(), list(_baselines(task))
    beside = [path for one in before for path in (*one.files(), *own_files(one))] if baseline else []
    start = root_of(task, [*made_of, *beside])
    for path in dict.fromkeys((*made_of, *own_files(task), *beside, *(one.folder / "task.yaml" for one in before[:1]))):
        target = root / path.relative_to(start)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    (root / "pyproject.toml").touch()  # marks the root, as texts name places below it
    own = root_of(task, made_of)
    for name, text in files.items():
        (root / (own / name).relative_to(start)).write_bytes(text.encode("utf-8", "surrogatepass"))
    folder = root / task.folder.relative_to(start)
    return load_task(folder, {name: str(value) for name, value in {**task.toggles, **toggles}.items()}, environ={})


def _baselines(task: Task) -> Iterator[Task]:
    """The task's baseline, that one's baseline, and so on."""
    while (before := load_baseline(task)) is not None:
        yield before
        task = before
