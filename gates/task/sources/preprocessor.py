"""What flags of nvcc tell the preprocessor and the linker, in g++'s own spelling: macros, folders, headers that come first, libraries."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

# nvcc's long names beside g++'s; a value is joined to the name, with or without =, or follows as a word of its own.
_SPELLING = {
    "--define-macro": "-D",
    "-define-macro": "-D",
    "--undefine-macro": "-U",
    "-undefine-macro": "-U",
    "--include-path": "-I",
    "-include-path": "-I",
    "--system-include": "-isystem",
    "-system-include": "-isystem",
    "--pre-include": "-include",
    "-pre-include": "-include",
    "--library-path": "-L",
    "-library-path": "-L",
    "--library": "-l",
    "-library": "-l",
    "-L": "-L",
    "-l": "-l",
    "-iprefix": "-iprefix",
    "-isysroot": "-isysroot",
    "--sysroot": "--sysroot",
    "-isystem": "-isystem",
    "-iquote": "-iquote",
    "-idirafter": "-idirafter",
    "-include": "-include",
    "-D": "-D",
    "-U": "-U",
    "-I": "-I",
}
_OPTION = re.compile(f"({'|'.join(sorted(map(re.escape, _SPELLING), key=len, reverse=True))})(=?)(.*)", re.DOTALL)
_FOLDERS = ("-I", "-isystem", "-iquote", "-idirafter", "-iprefix", "-isysroot", "--sysroot")
_LINKER = ("-L", "-l")
_PASSED_ON = re.compile(r"(?:-Xcompiler|--compiler-options)(?:=(.*))?", re.DOTALL)


def options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(option, value) of each such flag: ``["-D", "A=1", "-Xcompiler=-iquote,inc"]`` gives ("-D", "A=1") and ("-iquote", "inc").

    Of nvcc's flags, and of those that it passes on to the host compiler; a list joined by commas is one for each.
    """
    plain, passed = list[str](), list[str]()
    rest = iter(words)
    for word in rest:
        if match := _PASSED_ON.fullmatch(word):
            passed += (next(rest, "") if match[1] is None else match[1]).strip("'\"").split(",")
        else:
            plain.append(word)
    for part in (plain, passed):
        waiting = iter(part)
        for word in waiting:
            if match := _OPTION.fullmatch(word):
                option, value = _SPELLING[match[1]], match[3] or next(waiting, "")
                yield from ((option, one) for one in ([value] if option == "-D" else value.split(",")) if one)


def for_preprocessor(words: Sequence[str]) -> list[str]:
    """The words for g++ that ask of its preprocessor what ``words`` ask of nvcc's."""
    return [part for option, value in options(words) if option not in _LINKER for part in (option, value)]


def named_folders(words: Sequence[str]) -> list[str]:
    """The header folders that flags of nvcc or g++ name."""
    return [value for option, value in options(words) if option in _FOLDERS]


def first_headers(words: Sequence[str]) -> list[str]:
    """The files that ``-include`` puts before a source."""
    return [value for option, value in options(words) if option == "-include"]


def macros(words: Sequence[str]) -> list[str]:
    """The names of the macros that flags define or undefine."""
    return [re.split(r"[=(]", value)[0] for option, value in options(words) if option in ("-D", "-U")]


def named_by_macros(words: Sequence[str]) -> list[str]:
    """The names of files that ``-D`` gives macros, for a source to include: ``-DTILE="tile.cuh"``."""
    values = (value.partition("=")[2].strip("\\'\"<>") for option, value in options(words) if option == "-D")
    return [value for value in values if re.fullmatch(r"[\w./-]*\w\.[a-z]+", value)]


def linked_files(words: Sequence[str]) -> list[str]:
    """The libraries that flags of nvcc link and that lie in the folders that they name, or are named themselves."""
    given = list(options(words))
    folders = [value for option, value in given if option == "-L"]
    names = [f"lib{value}{ending}" for option, value in given if option == "-l" for ending in (".so", ".a")]
    found = [os.path.join(folder, name) for name in names for folder in folders] + [
        word for word in words if word.endswith((".a", ".o", ".so"))
    ]
    return [path for path in found if os.path.isabs(path) and os.path.isfile(path)]
