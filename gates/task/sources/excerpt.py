"""Show the lines of source around a place that a checker names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

_MOST = 8  # places of a run
_WIDTH = 140
_AROUND = 1


def excerpts(files: Iterable[Path], places: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """``name:line`` -> the lines around it, the line itself marked: ``>  122 | code``.

    A place is left out if two of ``files`` have its name, or the file does not have the line.
    """
    named: dict[str, list[Path]] = {}
    for path in files:
        named.setdefault(path.name, []).append(path)
    found: dict[str, tuple[str, ...]] = {}
    for place in places:
        name, _, number = place.rpartition(":")
        key = f"{PurePosixPath(name).name}:{number}"
        if key in found or len(found) == _MOST or not number.isdigit() or len(paths := named.get(PurePosixPath(name).name, [])) != 1:
            continue
        try:
            lines = paths[0].read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        if 1 <= int(number) <= len(lines):
            marked = int(number)
            around = range(max(1, marked - _AROUND), min(len(lines), marked + _AROUND) + 1)
            found[key] = tuple(_shown(lines, line, marked) for line in around)
    return found


def _shown(lines: list[str], number: int, marked: int) -> str:
    return f"{'>' if number == marked else ' '} {number:4} | {lines[number - 1].expandtabs(4).rstrip()[:_WIDTH]}"
