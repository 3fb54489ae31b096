"""Markdown tables whose cells can hold any text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gates.plain import plain

_ESCAPES = {"|": "\\|", "<": "&lt;", ">": "&gt;", "`": "\\`", "*": "\\*", "[": "\\[", "]": "\\]", "\\": "\\\\", "&": "&amp;"}
_UNESCAPES = {escaped: character for character, escaped in _ESCAPES.items()}
_ESCAPED = re.compile("|".join(map(re.escape, _UNESCAPES)))
_EDGE_UNDERSCORE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")  # within a word it means nothing to Markdown


def escape(value: object) -> str:
    """One line of plain text: nothing in it is taken for Markdown or HTML, and a cell ends where it should."""
    text = plain(" ".join(str(value).split()))
    marked = _EDGE_UNDERSCORE.sub(r"\\_", "".join(_ESCAPES.get(character, character) for character in text))
    return f"\\{marked}" if marked.startswith("#") else marked


def read(text: str) -> str:
    """Markdown for a terminal: without the escapes, which only a renderer takes away."""
    return _ESCAPED.sub(lambda found: _UNESCAPES[found[0]], text)


def code(value: object) -> str:
    """One line of text as code: no backtick in it ends the code."""
    return plain(" ".join(str(value).split())).replace("`", "'")


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[int] = ()) -> str:
    """A table; cells are escaped, columns in ``right`` (by index) are aligned right."""
    marks = ["---:" if index in right else "---" for index in range(len(headers))]
    lines = [f"| {' | '.join(map(escape, headers))} |", f"| {' | '.join(marks)} |"]
    lines += [f"| {' | '.join(escape(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def details(summary: str, body: str) -> str:
    """A folded section."""
    return f"<details><summary>{escape(summary)}</summary>\n\n{body.rstrip()}\n\n</details>\n"
