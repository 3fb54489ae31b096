"""Find flags by which nvcc compiles device code for a debugger or without optimisation."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

_DEBUG = re.compile(r"(?:-G|--device-debug)(?:=true)?|--?dopt=off|--?Ofast-compile=max|-Ofc=max")
_WITH_VALUE = {"--dopt", "-dopt", "--Ofast-compile", "-Ofast-compile", "-Ofc"}
# Options that pass others on to a program that makes device code: its value follows, or is joined by =.
_PASSED_ON = re.compile(
    r"(?:-Xptxas|--ptxas-options|-Xnvlink|--nvlink-options|-Xcicc|--cicc-options|-Xnvvm|--nvvm-options)(?:=(.*))?", re.DOTALL
)
_UNOPTIMISED = re.compile(r"--?O0|--?O=0|--opt-level=0|-opt-level=0|-g|-G|--device-debug(?:=true)?")  # of those programs
_LEVEL = {"-O", "--opt-level", "-opt-level"}
_OPTIONS_FILE = re.compile(r"(?:-optf|--options-file)(?:=(.*))?")


def unoptimised(words: Sequence[str]) -> str:
    """Return the flag, as given, by which nvcc compiles device code for a debugger or without optimisation; empty if there is none."""
    words, passed = _with_files(words), list[str]()
    for number, word in enumerate(words):
        value = words[number + 1] if number + 1 < len(words) else ""
        if _DEBUG.fullmatch(word) or (word in _WITH_VALUE and _DEBUG.fullmatch(f"{word}={value}")):
            return word
        if match := _PASSED_ON.fullmatch(word):
            given = re.split(r"[,\s]+", (value if match[1] is None else match[1]).strip("'\""))
            passed += given
            if any(_UNOPTIMISED.fullmatch(one) for one in given):
                return word if match[1] is not None else f"{word} {value}"
    found = next((f"{one} {other}" for one, other in zip(passed, passed[1:], strict=False) if one in _LEVEL and other == "0"), "")
    return found


def options_files(words: Sequence[str]) -> list[str]:
    """Return the options files that the flags name; their contents count as flags."""
    found = []
    for number, word in enumerate(words):
        if match := _OPTIONS_FILE.fullmatch(word):
            value = match[1] if match[1] is not None else "".join(words[number + 1 : number + 2])
            found += [name for name in value.split(",") if name]
    return found


def split(text: str) -> list[str]:
    """Split a variable of flags into words; at blanks if its quotes are not closed."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _with_files(words: Sequence[str]) -> list[str]:
    found = list(words)
    for name in options_files(words):
        try:
            found += split(Path(name).read_text(encoding="utf-8", errors="replace"))
        except (OSError, ValueError):  # nvcc says so
            continue
    return found
