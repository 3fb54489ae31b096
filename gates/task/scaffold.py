"""``gates new``: a task folder of a kind that runs at once, or the next rung of a task that there is.

The templates in ``gates/task/templates`` are a whole task each, of a kernel called my_kernel; a new one is their text with another
name. Everything is made under a temporary name and renamed when whole.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import yaml

from gates.core.errors import GatesError
from gates.gate.registry import ROWS
from gates.task.load import PYTHON, Task, load_task

TEMPLATES = Path(__file__).with_name("templates")
_PLACEHOLDER = "my_kernel"


def new_task(name: str, kind: str, directory: Path) -> list[Path]:
    """Make ``name`` and its baseline ``name_eager`` with their problem ``name_problem.py`` in ``directory``; returns the three paths.

    Raises GatesError for a name that no task can have, and where one of them exists or can't be written.
    """
    _check_name(name)
    texts = {
        **{f"{name}/{path}": text for path, text in {**template("shared"), **template(kind)}.items()},
        **{f"{name}_eager/{path}": text for path, text in {**template("shared"), **template("eager")}.items()},
        f"{name}_problem.py": (TEMPLATES / "problem.py").read_text(encoding="utf-8"),
    }
    made = [directory / part for part in (name, f"{name}_eager", f"{name}_problem.py")]
    with _Place(directory, made) as folder:
        for path, text in texts.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text.replace(_PLACEHOLDER, name), encoding="utf-8")
        for task in made[:2]:
            load_task(folder / task.name, environ={})
    return made


def next_rung(name: str, task: Task) -> Path:
    """Copy ``task``'s folder as ``name`` beside it, with ``task`` as its baseline; returns the new folder.

    In task.yaml name, title and baseline are changed, and a gate that ``task`` declares not applicable for being a first rung is
    judged; every other byte stays. Raises GatesError as ``new_task`` does.
    """
    _check_name(name)
    made = task.folder.parent / name
    with _Place(task.folder.parent, [made]) as folder:
        shutil.copytree(task.folder, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "build", "results"))
        path = folder / name / "task.yaml"
        path.write_bytes(_next_yaml(path.read_bytes().decode("utf-8"), name, task).encode("utf-8"))
    load_task(made, environ={})
    return made


def _next_yaml(text: str, name: str, task: Task) -> str:
    """The text of ``task``'s task.yaml as that of the rung ``name`` after it."""
    values = {"name": name, "title": json.dumps(f"{name}: say what it does that {task.name} does not")}
    declared = dict(task.not_applicable)
    if task.baseline is None:
        for gate in (row.name for row in ROWS.values() if row.measured_anyway and not (row.of_kernels and task.kind == PYTHON)):
            declared.pop(gate, None)
    if declared != task.not_applicable:
        values["not_applicable"] = json.dumps(declared)
    values["baseline"] = task.name
    top: Any = yaml.compose(text, Loader=yaml.SafeLoader)  # a mapping: it has been loaded
    places = {key.value: (key, value) for key, value in top.value}
    if "baseline" not in places:
        values["name"] += f"\nbaseline: {values.pop('baseline')}"
    for key, (node, value) in sorted(places.items(), key=lambda place: -place[1][0].start_mark.index):
        if key in values:
            text = text[: node.end_mark.index] + f": {values[key]}" + text[_end(value) :]
    return text


def _end(node: yaml.Node) -> int:
    """Where a value ends in the text; PyYAML lets a block mapping reach up to the next key, over comments and blank lines."""
    while isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
        node = node.value[-1][1]
    return node.end_mark.index


def template(name: str) -> dict[str, str]:
    """The files of a template by name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted((TEMPLATES / name).iterdir()) if path.is_file()}


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise GatesError(f"{name!r} can't be the name of a task", hint="lower-case letters, digits and _, a letter first")


class _Place:
    """A temporary folder in ``directory``, whose content is renamed into place at the end; ``made`` is what must not exist yet."""

    def __init__(self, directory: Path, made: list[Path]) -> None:
        for path in made:
            if path.exists() or path.is_symlink():
                raise GatesError(f"{path} exists already", hint="nothing is overwritten: choose another name or folder")
        self._directory, self._made = directory, made

    def __enter__(self) -> Path:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._folder = Path(tempfile.mkdtemp(prefix=".new.", dir=self._directory))
        except OSError as error:
            raise GatesError(f"can't write {error.filename or self._directory}: {error.strerror}") from None
        return self._folder

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                for path in self._made:
                    (self._folder / path.name).rename(path)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise GatesError(f"can't write {error.filename or self._directory}: {error.strerror}") from None
