"""Colour for the words that decide: green, red and yellow, where the reader's terminal wants it."""

from __future__ import annotations

import os
import re
from typing import Any

_COLOURS = {32: ("merge", "pass"), 31: ("reject", "FAIL", "NOT SOUND"), 33: ("hold", "inconclusive", "not run")}
_CODE = {word: code for code, words in _COLOURS.items() for word in words}
# a word that is a cell of a table, begins a line or is a decision: never one within a sentence
_WORD = re.compile(rf"(?m)(?:^|(?<=  )|(?<=decision: ))({'|'.join(_CODE)})(?=$| {{2}}| ·|: | \()")


def wanted(stream: Any) -> bool:
    """Whether text for ``stream`` is coloured: a terminal's is, unless NO_COLOR, CLICOLOR=0 or TERM=dumb; CLICOLOR_FORCE colours any."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("CLICOLOR_FORCE", "0") != "0":
        return True
    return bool(stream.isatty()) and os.environ.get("TERM") != "dumb" and os.environ.get("CLICOLOR") != "0"


def paint(text: str) -> str:
    """The text with its status words coloured; what a reader without colour sees is the same text."""
    return _WORD.sub(lambda match: f"\x1b[{_CODE[match[1]]}m{match[1]}\x1b[0m", text)
