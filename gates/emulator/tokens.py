"""Split preprocessed C++ into tokens, each with the file and line that it came from."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r\f\v\n]+ | //[^\n]* | /\*.*?\*/)
    | (?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)")
    | (?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*" | (?:u8|[uUL])?'(?:\\.|[^'\\\n])*')
    | (?P<identifier>[A-Za-z_$][A-Za-z0-9_$]*)
    | (?P<number>\.?[0-9](?:[eEpP][+-]|'[A-Za-z0-9_]|[A-Za-z0-9_.])*)
    | (?P<open><<\s*<)
    | (?P<punctuation>::|->|\+\+|--|&&|\|\||==|!=|<=|\.\.\.|<<|.)
    """,
    re.VERBOSE | re.DOTALL,
)
MARKER = re.compile(r'^# (\d+) "((?:\\.|[^"\\])*)"([ \d]*)$', re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*$", re.MULTILINE)


@dataclass(frozen=True)
class Token:
    """``kind`` is identifier, number, string, punctuation or open (``<<<``); ``start:end`` is its place in the text."""

    kind: str
    text: str
    start: int
    end: int


class Lines:
    """From a place in preprocessed text to the file and line before preprocessing."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: list[int] = []
        self._origins: list[tuple[int, str]] = []
        for marker in MARKER.finditer(text):
            self._starts.append(marker.end() + 1)
            self._origins.append((int(marker[1]), re.sub(r"\\(.)", r"\1", marker[2])))

    def where(self, offset: int) -> tuple[str, int]:
        """File and line of ``offset``."""
        index = bisect.bisect_right(self._starts, offset) - 1
        if index < 0:
            return "", 0
        line, file = self._origins[index]
        return file, line + self._text.count("\n", self._starts[index], offset)


def user_parts(text: str, is_foreign: Callable[[str], bool]) -> list[tuple[int, int]]:
    """Stretches between line markers that come from the user's files: not from system headers, nor from
    files of which ``is_foreign`` is true.

    A macro of a system header is expanded under a marker that names the user's file with the system
    flag (3), so what counts is whether the file was entered (1) as a system header.
    """
    markers = [(match, re.sub(r"\\(.)", r"\1", match[2]), match[3].split()) for match in MARKER.finditer(text)]
    system = {file for _, file, flags in markers if "1" in flags and "3" in flags}
    foreign = {file for _, file, _ in markers if file in system or file.startswith("<") or is_foreign(file)}
    parts: list[tuple[int, int]] = []
    start: int | None = None
    for marker, file, _ in markers:
        if start is not None:
            parts.append((start, marker.start()))
        start = None if file in foreign else marker.end()
    if start is not None:
        parts.append((start, len(text)))
    return parts


def tokenize(text: str, parts: Sequence[tuple[int, int]]) -> list[Token]:
    """Tokens of the given stretches of ``text``; space, comments and directives are left out."""
    tokens: list[Token] = []
    for start, end in parts:
        position = start
        for directive in _DIRECTIVE.finditer(text, start, end):
            if directive.start() < position:
                continue  # inside a raw string
            position = _tokenize(text, position, directive.start(), end, tokens)
            position = max(position, directive.end())
        _tokenize(text, position, end, end, tokens)
    return tokens


def _tokenize(text: str, position: int, stop: int, end: int, tokens: list[Token]) -> int:
    while position < stop:
        match = _TOKEN.match(text, position, end)
        if match is None:
            break
        kind = match.lastgroup or ""
        kind = "string" if match["raw"] is not None else kind
        if kind != "space":
            tokens.append(Token(kind, match[0], position, match.end()))
        position = match.end()
    return position
