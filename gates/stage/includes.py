"""Read the names that C++ and CUDA text includes: a superset of what a preprocessor would open."""

from __future__ import annotations

import re

# Also in parts that no compiler takes: one name too many costs nothing. A comment may stand before, a line may be continued by a backslash.
_INCLUDE = re.compile(
    rb"""^(?:[^\n"]*\*/)?[ \t]*(?:\#|%:|\?\?=)(?:[ \t]|\\\r?\n|/\*.*?\*/)*(?:include(?:_next)?|import)(?:[ \t]|\\\r?\n|/\*.*?\*/)*(?:"([^"\n]+)"|<([^>\n]+)>)"""
    rb"""|^[ \t]*\#[ \t]*define[ \t]+\w+[ \t]+(?:"([^"\n]+)"|<([^>\n]+)>)"""  # a name that a macro includes
    rb"""|\b__has_include(?:_next)?[ \t]*\([ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)""",
    re.MULTILINE,
)


def included(text: bytes) -> tuple[set[str], set[str]]:
    """Return (names in quotes, names in angle brackets) of the text's ``#include`` lines, ``__has_include``, and macros that are such a name."""
    quoted, angled = set[str](), set[str]()
    for names in _INCLUDE.findall(text):
        quoted |= set(map(_name, filter(None, names[::2])))
        angled |= set(map(_name, filter(None, names[1::2])))
    return quoted, angled


def _name(name: bytes) -> str:
    return name.decode("utf-8", errors="surrogateescape")
