"""The one answer to "which files make this stage?": by its digest, a run's stage is known again, and a change tells whom it touches.

It is read from the files, without a compiler, so it errs on the side of more: whatever a name may mean, in any folder that could
be searched, belongs to the stage if it is there. In folders that flags name only files of the project count: what lies
elsewhere (a toolkit, torch, a folder of CPATH) is the machine's, and a build's record has it. Not seen: names that a macro or a program makes up.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gates.stage.includes import included, named_folders

_ENGINE = "gates"  # the judge is no part of what it judges; a run names its version
_PYTHON = ".py"


@dataclass(frozen=True)
class StageFiles:
    """``files``: those that make the stage, sorted. ``sought``: where a name was looked for in vain; a file there would be one of them."""

    files: tuple[Path, ...]
    sought: frozenset[Path]


def stage_files(folder: Path, first: Iterable[Path], flags: Sequence[str]) -> StageFiles:
    """What makes the stage in ``folder``: its task.yaml and Python files, ``first`` (sources and problem), and what these include or import.

    ``flags``: nvcc's, for their include folders. A file that can't be read leads to no other.
    """
    first = list(first)
    own = [path for path in folder.iterdir() if path.suffix in (".yaml", _PYTHON) and path.is_file()]
    root = project_root(folder)
    named = (Path(os.path.normpath(base / name)) for name in named_folders(flags) for base in (folder, *folder.parents))
    searched = list(dict.fromkeys([*(path.parent for path in first if path.suffix != _PYTHON), *(place for place in named if place.is_relative_to(root))]))
    found, sought, waiting = dict[Path, None](), set[Path](), [*own, *first]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found[path] = None
        for candidate in _candidates(path, folder, searched):
            if candidate not in found and candidate not in sought:
                (waiting.append if candidate.is_file() else sought.add)(candidate)
    return StageFiles(tuple(sorted(found)), frozenset(sought))


def project_root(start: Path) -> Path:
    """The nearest folder at or above ``start`` that holds a .git or a pyproject.toml, else ``start``."""
    for folder in (start, *start.parents):
        if (folder / ".git").exists() or (folder / "pyproject.toml").exists():
            return folder
    return start


def _candidates(path: Path, folder: Path, searched: Sequence[Path]) -> Iterator[Path]:
    """The files that the names in ``path`` may mean."""
    if path.suffix == _PYTHON:
        for name, places in _imported(path, folder):
            for place in places:
                base = place.joinpath(*name.split("."))
                yield base.with_name(f"{base.name}{_PYTHON}")
                yield base / f"__init__{_PYTHON}"
    elif path.suffix != ".yaml":
        quoted, angled = included(_content(path))
        for name in quoted | angled:
            for place in (path.parent, *searched):
                yield Path(os.path.normpath(place / name))


def _imported(path: Path, folder: Path) -> Iterator[tuple[str, tuple[Path, ...]]]:
    """(dotted name, the folders that it may be found from) of each module that a Python file may import, its packages among them."""
    places = (path.parent, folder, *folder.parents)
    try:
        tree = ast.parse(_content(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names, here = [alias.name for alias in node.names], places
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            here = (path.parents[node.level - 1],) if 0 < node.level <= len(path.parents) else places
            names = [".".join(filter(None, (module, alias.name))) for alias in node.names if alias.name != "*"] + [module]
        else:
            continue
        for name in filter(None, names):
            parts = name.split(".")
            if parts[0] != _ENGINE or here is not places:
                yield from ((".".join(parts[:count]), here) for count in range(1, len(parts) + 1))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
