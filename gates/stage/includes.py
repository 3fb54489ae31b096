"""Read the names that C++ and CUDA text includes: a superset of what a preprocessor would open."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

# Also in parts that no compiler takes: one name too many costs nothing. A comment may stand before, a line may be continued by a backslash.
_INCLUDE = re.compile(
    rb"""^(?:[^\n"]*\*/)?[ \t]*(?:\#|%:|\?\?=)(?:[ \t]|\\\r?\n|/\*.*?\*/)*(?:include(?:_next)?|import)(?:[ \t]|\\\r?\n|/\*.*?\*/)*(?:"([^"\n]+)"|<([^>\n]+)>)"""
    rb"""|\b__has_include(?:_next)?[ \t]*\([ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)""",
    re.MULTILINE,
)


_FOLDER = re.compile(r"(?:-I|-isystem|-iquote|-idirafter|--?include-path|--?system-include|-iprefix|-isysroot|--sysroot)=?")
_PASSED_ON = re.compile(r",|^-Xcompiler=|^--compiler-options=")  # by nvcc to its host compiler


def included(text: bytes) -> tuple[set[str], set[str]]:
    """Return (names in quotes, names in angle brackets) of the text's ``#include`` lines and ``__has_include``."""
    quoted, angled = set[str](), set[str]()
    for one, other, asked, asked_angled in _INCLUDE.findall(text):
        if one or asked:
            quoted.add(_name(one or asked))
        else:
            angled.add(_name(other or asked_angled))
    return quoted, angled


def named_folders(words: Sequence[str]) -> Iterator[str]:
    """Yield the header folders that flags of nvcc or g++ name, joined to the flag or after it."""
    for number, word in enumerate(words):
        for part in _PASSED_ON.split(word):
            if match := _FOLDER.match(part):
                rest = part[match.end() :]
                yield from [rest] if rest else words[number + 1 : number + 2]


def _name(name: bytes) -> str:
    return name.decode("utf-8", errors="surrogateescape")
