"""``gates new``: a task folder of a kind that runs at once, or the next rung of a task that there is.

The templates in ``gates/task/templates`` are a whole task each, of a kernel called my_kernel; a new one is their text with another
name. Everything is made under a temporary name and renamed when whole.
"""

from __future__ import annotations

import importlib.machinery
import json
import math
import re
import shutil
import sys
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from gates.core.errors import GatesError
from gates.gate.registry import ROWS
from gates.task.load import PYTHON, Task, load_task

TEMPLATES = Path(__file__).with_name("templates")
UNTITLED = "say what it does that"  # in the title of a next rung
_PLACEHOLDER = "my_kernel"
_SCRIPTS = ("build.py", "runner.py")


def new_task(name: str, kind: str, directory: Path) -> list[Path]:
    """Make ``name`` and its baseline ``name_eager`` with their problem ``name_problem.py`` in ``directory``; returns the three paths.

    Raises GatesError for a name that no task can have, and where one of them exists or can't be written.
    """
    check_name(name)
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


def next_rung(name: str, task: Task) -> list[Path]:
    """Copy ``task``'s folder as ``name`` beside it, with ``task`` as its baseline; returns the new folder and the other files made.

    A source of ``task``'s name elsewhere is copied, too, beside it. In task.yaml name, title, baseline and such a source are changed, and a
    gate that ``task`` declares not applicable for being a first rung is judged. The scripts get the new name. Every other byte stays.
    Raises GatesError as ``new_task`` does.
    """
    check_name(name)
    made = task.folder.parent / name
    copies = {
        source: source.with_name(name + source.suffix)
        for source in task.sources
        if source.stem == task.name and not source.is_relative_to(task.folder)
    }
    with _Place(task.folder.parent, [*copies.values(), made]) as folder:
        for source, copy in copies.items():
            shutil.copyfile(source, folder / copy.name)
        shutil.copytree(task.folder, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "build", "results"))
        path = folder / name / "task.yaml"
        path.write_bytes(_next_yaml(path.read_bytes().decode("utf-8"), name, task, bool(copies)).encode("utf-8"))
        for script in (folder / name / script for script in _SCRIPTS if (task.folder / script).is_file()):
            script.write_bytes(re.sub(rb"\b%s\b" % task.name.encode(), name.encode(), script.read_bytes()))
    load_task(made, environ={})
    return [made, *copies.values()]


def _next_yaml(text: str, name: str, task: Task, own_source: bool) -> str:
    """The text of ``task``'s task.yaml as that of the rung ``name`` after it."""
    values = {"name": name, "title": json.dumps(f"{name}: {UNTITLED} {task.name} does not")}
    if own_source:
        sources = map(PurePosixPath, yaml.safe_load(text)["sources"])
        named = [str(path.with_name(name + path.suffix) if path.stem == task.name else path) for path in sources]
        values["sources"] = yaml.safe_dump(named, default_flow_style=True, width=math.inf).strip()
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


def check_name(name: str, by: str = "choose another name") -> None:
    """Raise GatesError for a name that no task can have; ``by`` says how to give another."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise GatesError(f"{name!r} can't be the name of a task", hint=f"{by}: lower-case letters, digits and _, a letter first")
    here = Path.cwd()  # `python -m gates` looks there, a task's runner does not
    spec = importlib.machinery.PathFinder.find_spec(name, [place for place in sys.path if Path(place).resolve() != here])
    if name in sys.stdlib_module_names or (spec is not None and spec.origin is not None):
        raise GatesError(f"the name {name!r} is that of a Python module, which would hide the task's problem", hint=by)


class _Place:
    """A temporary folder in ``directory``, whose content is moved into place at the end; ``made`` is what must not exist yet."""

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
            raise self._refused(self._directory, error) from None
        return self._folder

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                for path in self._made:
                    shutil.move(self._folder / path.name, path)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
        if isinstance(error, OSError):
            inside = Path(error.filename or self._folder)
            meant = self._directory / inside.relative_to(self._folder) if inside.is_relative_to(self._folder) else inside
            raise self._refused(meant, error) from None

    def _refused(self, path: Path, error: OSError) -> GatesError:
        return GatesError(f"can't write {path}: {error.strerror}", hint="choose a folder that has room and that you may write into")
