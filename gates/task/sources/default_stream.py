"""Find the launches in a stage's sources that name no stream, or the default one."""

from __future__ import annotations

import re
from collections.abc import Mapping

CURRENT, DEFAULT = "current", "default"
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)  # in Python // is no comment
_LAUNCH = re.compile(r"<<<(.*?)>>>", re.DOTALL)
_NO_STREAM = re.compile(
    r"0|nullptr|NULL|cudaStreamDefault|cudaStreamLegacy|(?:\(\s*cudaStream_t\s*\)|static_cast<\s*cudaStream_t\s*>)\s*\(?\s*0\s*\)?"
)
_OPEN, _CLOSE = "([{", ")]}"


def default_stream_launches(texts: Mapping[str, str]) -> list[str]:
    """Return ``file:line: kernel<<<grid, block>>>`` of each launch in ``texts`` (by file name) without a stream or on the default one.

    CUDA in the strings of a Python file counts too.
    """
    found = []
    for name, text in texts.items():
        plain = _COMMENT.sub(lambda comment: re.sub(r"[^\n]", " ", comment[0]), text)
        for launch in _LAUNCH.finditer(plain):
            stream = _parts(launch[1])[3:4]
            before = plain[plain.rfind("\n", 0, launch.start()) + 1 : launch.start()]
            if "//" not in before and (not stream or _NO_STREAM.fullmatch(stream[0].strip())):
                found.append(
                    f"{name}:{plain.count(chr(10), 0, launch.start()) + 1}: {before.strip()}<<<{' '.join(launch[1].split())}>>>"[:160]
                )
    return found


def _parts(text: str) -> list[str]:
    """``text`` at its commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
