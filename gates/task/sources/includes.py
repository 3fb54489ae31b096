"""Read the names that C++ and CUDA text includes: a superset of what a preprocessor would open."""

from __future__ import annotations

import re

# Also in parts that no compiler takes: one name too many costs nothing. A comment may stand before, a line may be continued by a backslash.
_INCLUDE = re.compile(
    rb"""^(?:\xef\xbb\xbf)?(?:[^\n"]*\*/)?[ \t]*(?:\#|%:|\?\?=)(?:[ \t]|\\\r?\n|/\*.*?\*/)*(?:include(?:_next)?|import|embed)"""
    rb"""(?:[ \t]|\\\r?\n|/\*.*?\*/)*(?:"([^"\n]+)"|<([^>\n]+)>)"""
    rb"""|^[ \t]*\#[ \t]*define[ \t]+\w+[ \t]+(?:"([^"\n]+)"|<([^>\n]+)>)"""  # a name that a macro includes
    rb"""|\b__has_(?:include(?:_next)?|embed)[ \t]*\([ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)""",
    re.MULTILINE,
)
_ASSEMBLED = re.compile(rb'\.incbin[ \t]+\\?"([^"\\\n]+)')
_BY_MACRO = re.compile(rb"^[ \t]*\#[ \t]*include[ \t]+\w", re.MULTILINE)
_LIKE_A_FILE = re.compile(rb"[\w./-]*\w\.(?:cuh?|[ch](?:pp|xx|h)?|in[cl]|[it]pp|def)\b")


def included(text: bytes) -> tuple[set[str], set[str]]:
    """Return (names in quotes, names in angle brackets) of the text's ``#include`` and ``#embed`` lines, ``__has_include``, and macros that
    are such a name.

    If a macro makes a name, every word of the text that is like a file's name counts as one in quotes.
    """
    quoted, angled = set[str](), set[str]()
    for names in _INCLUDE.findall(text):
        quoted |= set(map(_name, filter(None, names[::2])))
        angled |= set(map(_name, filter(None, names[1::2])))
    if _BY_MACRO.search(text):
        quoted |= set(map(_name, _LIKE_A_FILE.findall(text)))
    return quoted, angled


def assembled(text: bytes) -> set[str]:
    """Return the names of files that asm statements of the text take by ``.incbin``; no compiler lists them as dependencies."""
    return set(map(_name, _ASSEMBLED.findall(text)))


def _name(name: bytes) -> str:
    return name.decode("utf-8", errors="surrogateescape")
