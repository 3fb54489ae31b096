"""Record the content that a product was made from, to decide whether it may be reused.

A record is written after its step succeeded. It has the command, the sha256 of the products and of every file that the compiler
opened. It also lists the search paths on which each included name had a file, because a new header may come first the next
time. File times decide nothing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from gates.build.graph import Edge
from gates.core import jsonio
from gates.core.errors import GatesError
from gates.task.sources.includes import assembled, included
from gates.task.sources.preprocessor import named_folders

_ESCAPED = re.compile(r"\\([ #:\\])|\$\$")


class Look:
    """Read the files of a build in ``folder``, each once. ``folders``: where every edge looks for headers, relative to ``folder``."""

    def __init__(self, folder: Path, folders: Iterable[str]) -> None:
        self.folder, self.folders = folder, sorted(set(folders))
        self._digests: dict[str, str | None] = {}
        self._names: dict[str, tuple[set[str], set[str], set[str]]] = {}
        self._there: dict[str, bool] = {}
        self._found: dict[tuple[tuple[str, ...], ...], list[str]] = {}

    def searched(self, edge: Edge) -> list[str]:
        """Return where this edge looks for headers: what else is built beside it changes nothing."""
        return sorted({*self.folders, *named_folders(edge.command)})

    def sha256(self, path: str) -> str | None:
        """Return the sha256 of the file; None if it can't be read."""
        if path not in self._digests:
            try:
                self._digests[path] = jsonio.sha256(self.folder / path)
            except GatesError:
                self._digests[path] = None
        return self._digests[path]

    def exists(self, path: str) -> bool:
        """Return whether ``path`` is a file."""
        if path not in self._there:
            self._there[path] = os.path.isfile(os.path.join(self.folder, path))
        return self._there[path]

    def found(self, names: Sequence[str], beside: Sequence[str], folders: Sequence[str]) -> list[str]:
        """Return the files with these names in ``folders``, and those of ``beside`` that exist."""
        key = tuple(names), tuple(beside), tuple(folders)
        if key not in self._found:
            places = {*beside, *(f"{folder}/{name}" for folder in folders for name in names)}
            self._found[key] = sorted(path for path in places if self.exists(path))
        return self._found[key]

    def names(self, path: str) -> tuple[set[str], set[str], set[str]]:
        """Return the names that the file includes: (in quotes, in angle brackets, by the assembler)."""
        if path not in self._names:
            try:
                text = Path(self.folder, path).read_bytes()
                self._names[path] = *included(text), assembled(text)
            except OSError:
                self._names[path] = set(), set(), set()
        return self._names[path]


def stale(edges: Sequence[Edge], look: Look) -> list[Edge]:
    """The edges, each after those that it needs, whose products must be made: inputs, command or product are not those of the record."""
    found: dict[str, Edge] = {}
    for edge in edges:
        if any(name in found for name in (*edge.inputs, *edge.implicit)) or not _holds(edge, look):
            found[edge.output] = edge
    return list(found.values())


def discard(edges: Iterable[Edge], folder: Path) -> None:
    """Remove the edges' products, records and logs: what is made anew can't be mistaken for what was there."""
    for edge in edges:
        names = (edge.output, edge.log, f"{edge.output}.failed.json", f"{edge.output}.failed.log", *filter(None, [edge.depfile]))
        for path in (_record(folder, edge), *(folder / name for name in names)):
            path.unlink(missing_ok=True)


def record(edge: Edge, look: Look) -> None:
    """Write the record of what ``edge`` has just made; its dependency file is read and removed."""
    opened, folders = [*edge.inputs, *edge.implicit], look.searched(edge)
    if edge.depfile:
        depfile = look.folder / edge.depfile
        opened += dependencies(depfile.read_text(encoding="utf-8", errors="surrogateescape"))
        depfile.unlink()
        taken = sorted({name for path in opened for name in look.names(path)[2]})
        opened += look.found(taken, taken, folders)
    opened = list(dict.fromkeys(opened))
    names, beside = map(sorted, _looked_up(opened, look, folders) if edge.depfile else (set(), set()))
    data = {
        "command": list(edge.command),
        "made": {name: look.sha256(name) for name in (edge.output, edge.log)},
        "inputs": {path: look.sha256(path) for path in opened},
        "folders": folders,
        "names": names,
        "beside": beside,
    }
    jsonio.write_text(_record(look.folder, edge), json.dumps({**data, "found": look.found(names, beside, folders)}))


def made_sha256(edge: Edge, folder: Path) -> str:
    """The sha256 of the edge's product, from its record."""
    return json.loads(_record(folder, edge).read_bytes())["made"][edge.output]


def dependencies(rule: str) -> list[str]:
    """The files that a make rule names after its targets, as gcc, nvcc and ld write them."""
    _, _, text = re.sub(r"\\\r?\n", " ", rule.partition("\n\n")[0]).partition(": ")
    words = re.findall(r"(?:\\.|[^\s\\])+", text)
    return [_ESCAPED.sub(lambda match: match[1] or "$", word) for word in words]


def _holds(edge: Edge, look: Look) -> bool:
    try:
        data = json.loads(_record(look.folder, edge).read_bytes())
        made, inputs, names = data["made"], data["inputs"], data["names"]
        return (
            data["command"] == list(edge.command)
            and data["folders"] == look.searched(edge)
            and set(made) == {edge.output, edge.log}
            and inputs.keys() >= set(edge.implicit)
            and all(digest is not None and look.sha256(path) == digest for path, digest in (*made.items(), *inputs.items()))
            and look.found(names, data["beside"], data["folders"]) == data["found"]
        )
    except (OSError, KeyError, TypeError, AttributeError, ValueError):  # none, or not whole
        return False


def _record(folder: Path, edge: Edge) -> Path:
    path = folder / edge.output
    return path.with_name(f".{path.name}.made.json")


def _looked_up(opened: Sequence[str], look: Look, folders: Sequence[str]) -> tuple[set[str], set[str]]:
    """The names that are looked for in all folders, and the paths at which one in quotes is looked for before."""
    names, beside = set[str](), set[str]()
    for path in opened:
        quoted, angled, taken = look.names(path)
        names |= quoted | angled | taken
        beside |= {os.path.join(os.path.dirname(path), name) for name in quoted}
    explained = beside | {os.path.join(folder, name) for folder in folders for name in names}
    for path in opened:
        if path not in explained:  # its name is a macro's, or a flag's
            within = (
                os.path.relpath(path, folder) for folder in folders if os.path.isabs(path) and path.startswith(folder.rstrip("/") + "/")
            )
            names |= {os.path.basename(path), *within}
    return names, beside
