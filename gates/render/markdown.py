"""Tables whose cells can hold any text, for Markdown and for a terminal."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from gates.core.text import plain

_SPECIAL = re.compile(
    r"[\\`*|~$<>&\[\]]"
    r"|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"  # within a word it means nothing to Markdown
    r"|(?<=:)/(?=/)|(?<=\bwww)\."  # GitHub makes links of bare addresses
    r"|^(?:#|[-+](?= ))",
    re.I,
)
_REFERENCE = re.compile(r"@(?=\w)|#(?=\d)|(?<=\bGH)-(?=\d)", re.I)  # GitHub's mentions and issue links, which no backslash stops
_TABLE = re.compile(r"(?m)^\|.*\n\|[ :|-]+\n(?:\|.*\n)*")
_CELL = re.compile(r"((?:\\.|[^|\\])*)\|")
_NARROWEST = 12  # characters to which a column is broken at most
_BREAK = "\u200b"  # of no width: it ends a reference, and no reader sees it
_WRITTEN = re.compile(rf"(```.*?```|`[^`\n]*`)|\\([!-/:-@\[-`{{-~])|(&(?:lt|gt|amp);)|{_BREAK}", re.S)


def escape(value: object) -> str:
    """One line of plain text: no part of it is Markdown, HTML, a link or a mention, and a cell ends at its end."""
    return _unreferring(_SPECIAL.sub(lambda found: _spelt(found[0]), _line(value)))


def read(text: str, width: int | None = None) -> str:
    """Markdown for a terminal: without the escapes, which only a renderer takes away, and with tables fitted to ``width`` characters; None:
    tables as they are.
    """
    pieces, end = list[str](), 0
    for found in _TABLE.finditer(text) if width is not None else ():
        pieces += [_unescaped(text[end : found.start()]), _fitted(found[0], width)]
        end = found.end()
    return "".join([*pieces, _unescaped(text[end:])])


def columns(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Sequence[int] = (),
    least: Sequence[int] = (),
    width: int | None = None,
) -> list[str]:
    """The lines of a table in columns, two spaces apart, those in ``right`` (by index) aligned right and each at least as wide as ``least``
    says.

    In a terminal of ``width`` characters the widest columns are broken into lines at words; None: no column is.
    """
    cells = [[_line(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    widths = [max(pair) for pair in zip_longest(widths, least, fillvalue=0)]
    while width is not None and sum(widths) + 2 * (len(widths) - 1) > width and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    lines = []
    for row in cells:
        broken = [textwrap.wrap(cell, size, break_on_hyphens=False) or [""] for cell, size in zip(row, widths, strict=True)]
        for parts in zip_longest(*broken, fillvalue=""):
            placed = [
                part.rjust(size) if index in right else part.ljust(size)
                for index, (part, size) in enumerate(zip(parts, widths, strict=True))
            ]
            lines.append("  ".join(placed).rstrip())
    return lines


def code(value: object) -> str:
    """One line of text as code: no backtick in it ends the code."""
    return _line(value).replace("`", "'")


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[int] = ()) -> str:
    """A table; cells are escaped, columns in ``right`` (by index) are aligned right."""
    marks = ["---:" if index in right else "---" for index in range(len(headers))]
    lines = [f"| {' | '.join(map(escape, headers))} |", f"| {' | '.join(marks)} |"]
    lines += [f"| {' | '.join(escape(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def details(summary: str, body: str) -> str:
    """A folded section; its summary is HTML, in which Markdown has no meaning."""
    title = _unreferring(html.escape(_line(summary), quote=False))
    return f"<details><summary>{title}</summary>\n\n{body.rstrip()}\n\n</details>\n"


def _unescaped(text: str) -> str:
    return _WRITTEN.sub(lambda found: found[1] or found[2] or html.unescape(found[3] or ""), text)


def _fitted(written: str, width: int | None) -> str:
    """A Markdown table as columns."""
    header, marks, *rows = [[cell.strip() for cell in _CELL.findall(line[1:])] for line in written.splitlines()]
    right = [index for index, mark in enumerate(marks) if mark.endswith(":")]
    lines = columns([_unescaped(cell) for cell in header], [[_unescaped(cell) for cell in row] for row in rows], right=right, width=width)
    return "\n".join([*lines, ""])


def _line(value: object) -> str:
    return plain(" ".join(str(value).split()))


def _spelt(sign: str) -> str:
    return html.escape(sign) if sign in "<>&" else f"\\{sign}"


def _unreferring(text: str) -> str:
    return _REFERENCE.sub(lambda found: found[0] + _BREAK, text)
