"""Markdown tables whose cells can hold any text."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from gates.core.text import plain

_SPECIAL = re.compile(
    r"[\\`*|~$<>&\[\]]"
    r"|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])"  # within a word it means nothing to Markdown
    r"|(?<=:)/(?=/)|(?<=\bwww)\."  # GitHub makes links of bare addresses
    r"|^(?:#|[-+](?= ))",
    re.I,
)
_REFERENCE = re.compile(r"@(?=\w)|#(?=\d)|(?<=\bGH)-(?=\d)", re.I)  # GitHub's mentions and issue links, which no backslash stops
_BREAK = "\u200b"  # of no width: it ends a reference, and no reader sees it
_WRITTEN = re.compile(rf"(```.*?```|`[^`\n]*`)|\\([!-/:-@\[-`{{-~])|(&(?:lt|gt|amp);)|{_BREAK}", re.S)


def escape(value: object) -> str:
    """One line of plain text: no part of it is Markdown, HTML, a link or a mention, and a cell ends at its end."""
    return _unreferring(_SPECIAL.sub(lambda found: _spelt(found[0]), _line(value)))


def read(text: str) -> str:
    """Markdown for a terminal: without the escapes, which only a renderer takes away."""
    return _WRITTEN.sub(lambda found: found[1] or found[2] or html.unescape(found[3] or ""), text)


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


def _line(value: object) -> str:
    return plain(" ".join(str(value).split()))


def _spelt(sign: str) -> str:
    return html.escape(sign) if sign in "<>&" else f"\\{sign}"


def _unreferring(text: str) -> str:
    return _REFERENCE.sub(lambda found: found[0] + _BREAK, text)
