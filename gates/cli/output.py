"""Print text, JSON and paths that may come from evidence or kernels, safely for a terminal."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from gates.core.colour import paint, wanted
from gates.core.text import plain_json, plain_lines
from gates.evidence.packed_runs import origin


def print_text(text: str, *, end: str = "\n") -> None:
    """Print to stdout what may hold text of evidence or of kernels, with status words coloured on a terminal."""
    text = plain_lines(text)
    _print(paint(text) if wanted(sys.stdout) else text, end)


def width() -> int | None:
    """Return the width of the terminal in characters; None if stdout is none, so that a table's row stays one line."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_json(data: Any) -> None:
    """Print data as JSON."""
    from gates.core import jsonio

    _print(plain_json(jsonio.dumps(data)), "")


def _print(text: str, end: str) -> None:
    try:
        print(text, end=end)
    except UnicodeEncodeError:
        print(text.encode("ascii", "backslashreplace").decode(), end=end)


def short_path(path: Path) -> str:
    """Return the path relative to the current folder if it lies in it; of a packed run, that of its file."""
    place = origin(path)
    try:
        return str(place.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(place)
