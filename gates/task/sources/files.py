"""List the files that make a stage. Its digest covers them: it identifies a run's stage, and shows which stages a change touches.

The list comes from the text of the files, without a compiler. So every existing file that a name may mean, in any folder that could be
searched, belongs to the stage. In folders that flags name, only files of the project count: other files (a toolkit, torch, a folder
of CPATH) belong to the machine, and the record of a build has them. Not found: names that a program puts together.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from gates.task.sources.includes import assembled, included
from gates.task.sources.preprocessor import first_headers, named_by_macros, named_folders

_ENGINE = "gates"  # the judge is no part of what it judges; a run names its version
_PYTHON = ".py"
_FILE = re.compile(r"[\w./-]*\w\.\w+")  # like a file's name
_MOST_BYTES = 2**24  # of a file that leads to others: larger ones hold data


@dataclass(frozen=True)
class StageFiles:
    """``files``: the files that make the stage, sorted. ``sought``: paths without a file; a new file there would belong to the stage."""

    files: tuple[Path, ...]
    sought: frozenset[str]


def stage_files(folder: Path, first: Iterable[Path], flags: Sequence[str]) -> StageFiles:
    """Return the files of the stage in ``folder``: its task.yaml and Python files, ``first`` (sources and problem), and what these include
    or import.

    ``flags``: nvcc's, for their include folders and the headers that they put first. A file that can't be read leads to no other.
    """
    first, above = list(first), [str(folder), *map(str, folder.parents)]
    own = [path for path in folder.iterdir() if path.suffix in (".yaml", _PYTHON) and path.is_file()]
    root = project_root(folder)
    named = (os.path.normpath(os.path.join(base, name)) for name in named_folders(flags) for base in above)
    searched = list(
        dict.fromkeys(
            [
                *(str(path.parent) for path in first if path.suffix != _PYTHON),
                *(place for place in named if Path(place).is_relative_to(root)),
            ]
        )
    )
    found, sought, waiting = dict[str, None](), set[str](), [str(path) for path in (*own, *first)]
    for path in (
        os.path.normpath(os.path.join(base, name))
        for name in (*first_headers(flags), *named_by_macros(flags))
        for base in (*above, *searched)
    ):
        (waiting.append if os.path.isfile(path) else sought.add)(path)
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found[path] = None
        for candidate in _candidates(path, above, searched):
            if candidate not in found and candidate not in sought:
                (waiting.append if os.path.isfile(candidate) else sought.add)(candidate)
    return StageFiles(tuple(sorted(map(Path, found))), frozenset(sought))


def project_root(start: Path) -> Path:
    """Return the nearest folder at or above ``start`` with a .git or a pyproject.toml, else ``start``."""
    for folder in (start, *start.parents):
        if (folder / ".git").exists() or (folder / "pyproject.toml").exists():
            return folder
    return start


def _candidates(path: str, above: Sequence[str], searched: Sequence[str]) -> Iterator[str]:
    """The files that the names in ``path`` may mean; ``above``: the task's folder and those above it."""
    beside = os.path.dirname(path)
    if path.endswith(_PYTHON):
        modules, files = _named(_content(path))
        yield from (os.path.normpath(os.path.join(beside, name)) for name in files)
        for level, name in modules:
            for place in (beside, *above) if level == 0 else (os.path.normpath(os.path.join(beside, *[".."] * (level - 1))),):
                base = f"{place.rstrip('/')}/{name}"
                yield from (f"{base}{suffix}" for suffix in (_PYTHON, *EXTENSION_SUFFIXES))
                yield f"{base}/__init__{_PYTHON}"
    elif not path.endswith(".yaml"):
        for name in _included(_content(path)):
            for place in (
                beside,
                *searched,
                *((os.path.realpath(beside),) if name.startswith("..") else ()),
            ):  # compilers follow a link before ..
                yield os.path.normpath(os.path.join(place, name))


@lru_cache(maxsize=512)  # by content: a run asks for the same files several times
def _included(content: bytes) -> frozenset[str]:
    quoted, angled = included(content)
    return frozenset(quoted | angled | assembled(content))


@lru_cache(maxsize=512)
def _named(content: bytes) -> tuple[frozenset[tuple[int, str]], frozenset[str]]:
    """What Python text names: modules that it may import, with their packages, and texts like a file's name, which it may read.

    A module is (level, path without a suffix); level 0 is no relative import.
    """
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset(), frozenset()
    found, files = set[tuple[int, str]](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            level, names = 0, [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            level, module = node.level, node.module or ""
            names = [".".join(filter(None, (module, alias.name))) for alias in node.names if alias.name != "*"] + [module]
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__"):
            level, names = 0, [one.value for one in node.args[:1] if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        else:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _FILE.fullmatch(node.value):
                files.add(node.value)
            continue
        for parts in (name.split(".") for name in names if name):
            if level or parts[0] != _ENGINE:
                found |= {(level, "/".join(parts[:count])) for count in range(1, len(parts) + 1)}
    return frozenset(found), frozenset(files)


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read() if os.fstat(file.fileno()).st_size <= _MOST_BYTES else b""
    except OSError:
        return b""
