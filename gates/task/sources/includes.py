"""Read the names that C++ and CUDA text includes: a superset of what a preprocessor would open."""

from __future__ import annotations

import re

# Also in parts that no compiler takes: one name too many costs nothing. A comment may stand before, a line may be continued by a backslash.
# Each pattern begins with what every match begins with, which `re` finds fast.
_BEFORE = re.compile(rb"""(?:\xef\xbb\xbf)?(?:[^"]*\*/)?[ \t]*""")
_GAP = rb"(?:[ \t]|\\\r?\n|/\*.*?\*/)*"
_NAME = rb"""(?:"([^"\n]+)"|<([^>\n]+)>)"""
_LINE = rb"(?:(?:include(?:_next)?|import|embed)" + _GAP + rb"|define[ \t]+\w+[ \t]+)" + _NAME  # a macro may be the name that is included
_INCLUDE = re.compile(rb"\#" + _GAP + _LINE)
_INCLUDE_SPELLED = re.compile(rb"(?:%:|\?\?=)" + _GAP + _LINE)  # other spellings of the same sign
_HAS_INCLUDE = re.compile(rb"__has_(?:include(?:_next)?|embed)[ \t]*\([ \t]*" + _NAME)
_ASSEMBLED = re.compile(rb'\.incbin[ \t]+\\?"([^"\\\n]+)')
_BY_MACRO = re.compile(rb"\#[ \t]*include[ \t]+\w")
_LIKE_A_FILE = re.compile(rb"[\w./-]*\w\.(?:cuh?|[ch](?:pp|xx|h)?|in[cl]|[it]pp|def)\b")


def included(text: bytes) -> tuple[set[str], set[str]]:
    """Return (names in quotes, names in angle brackets) of the text's ``#include`` and ``#embed`` lines, ``__has_include``, and macros that
    are such a name.

    If a macro makes a name, every word of the text that is like a file's name counts as one in quotes.
    """
    quoted, angled = set[str](), set[str]()
    patterns = (_INCLUDE, _INCLUDE_SPELLED) if b"%:" in text or b"??=" in text else (_INCLUDE,)
    lines = [line for pattern in patterns for line in pattern.finditer(text) if _begins_line(line)]
    for line in (*lines, *_HAS_INCLUDE.finditer(text)):
        if line[1]:
            quoted.add(_name(line[1]))
        else:
            angled.add(_name(line[2]))
    if any(_begins_line(line) for line in _BY_MACRO.finditer(text)):
        quoted |= set(map(_name, _LIKE_A_FILE.findall(text)))
    return quoted, angled


def _begins_line(match: re.Match[bytes]) -> bool:
    text, start = match.string, match.start()
    return _BEFORE.fullmatch(text, text.rfind(b"\n", 0, start) + 1, start) is not None


def assembled(text: bytes) -> set[str]:
    """Return the names of files that asm statements of the text take by ``.incbin``; no compiler lists them as dependencies."""
    return set(map(_name, _ASSEMBLED.findall(text)))


def _name(name: bytes) -> str:
    return name.decode("utf-8", errors="surrogateescape")
