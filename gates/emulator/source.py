"""Preprocessed text with its tokens, brackets matched, and the edits to be made to it."""

from __future__ import annotations

from dataclasses import dataclass

from gates.core.errors import GatesError
from gates.emulator.tokens import MARKER, Lines, Token

OPEN = {"(": ")", "[": "]", "{": "}"}
CLOSE = {close: opening for opening, close in OPEN.items()}


@dataclass(frozen=True)
class Edit:
    """Replace ``start:end`` of the text."""

    start: int
    end: int
    text: str


def literal(text: str) -> str:
    """A C string literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Source:
    """One preprocessed file. Positions are indices into ``tokens``."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.lines = Lines(text)
        self.partner = self._match_brackets()
        self._edits: list[Edit] = []

    def _match_brackets(self) -> dict[int, int]:
        stack: list[int] = []
        partner: dict[int, int] = {}
        for index, token in enumerate(self.tokens):
            if token.kind != "punctuation":
                continue
            if token.text in OPEN:
                stack.append(index)
            elif token.text in CLOSE and stack and self.tokens[stack[-1]].text == CLOSE[token.text]:
                partner[stack[-1]] = index
                partner[index] = stack.pop()
        return partner

    def error(self, index: int, message: str, hint: str | None = None) -> GatesError:
        """A GatesError that names the file and line of a token."""
        file, line = self.lines.where(self.tokens[min(index, len(self.tokens) - 1)].start)
        return GatesError(f"{file}:{line}: {message}", hint=hint)

    def has(self, index: int, text: str) -> bool:
        """Whether the token at ``index`` exists and reads ``text``."""
        return 0 <= index < len(self.tokens) and self.tokens[index].text == text

    def other(self, index: int) -> int:
        """The bracket that belongs to the one at ``index``."""
        if index not in self.partner:
            raise self.error(index, f"{self.tokens[index].text!r} has no partner")
        return self.partner[index]

    def angle_open(self, index: int) -> int:
        """The ``<`` that the ``>`` at ``index`` closes."""
        depth = 0
        while index >= 0:
            text = self.tokens[index].text
            if text in (";", "{", "}"):
                break
            if text in CLOSE:
                index = self.other(index)
            elif text == ">":
                depth += 1
            elif text in ("<", "<<"):
                depth -= len(text)
                if depth <= 0:
                    return index
            index -= 1
        raise self.error(max(index, 0), "can't find the start of the template arguments")

    def words(self, first: int, last: int) -> str:
        """Tokens ``first`` to ``last``, a space between each."""
        return " ".join(token.text for token in self.tokens[first : last + 1])

    def site(self, index: int) -> str:
        """``"file", line`` of a token, as two C arguments."""
        file, line = self.lines.where(self.tokens[index].start)
        return f"{literal(file)}, {line}"

    def insert(self, offset: int, text: str) -> None:
        """Put ``text`` before the character at ``offset``."""
        self._edits.append(Edit(offset, offset, text))

    def replace(self, first: int, last: int, text: str) -> None:
        """Put ``text`` in place of tokens ``first`` to ``last``; lines after it keep their numbers."""
        start, end = self.tokens[first].start, self.tokens[last].end
        if MARKER.search(self.text, start, end):
            # a macro from a header was expanded in here, under line markers of its own
            file, line = self.lines.where(end)
            self._edits.append(Edit(start, end, f"{text}\n# {line} {literal(file)}\n"))
        else:
            self._edits.append(Edit(start, end, text + "\n" * self.text.count("\n", start, end)))

    def edited(self) -> str:
        """The text with all edits made."""
        out: list[str] = []
        position = 0
        for edit in sorted(self._edits, key=lambda edit: (edit.start, edit.end)):
            if edit.start < position:
                continue  # inside a stretch that was replaced as a whole
            out += (self.text[position : edit.start], edit.text)
            position = edit.end
        return "".join((*out, self.text[position:]))
