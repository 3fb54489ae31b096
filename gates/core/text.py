"""Text of evidence, kernels and files as it may be shown: nothing in it steers a terminal or turns the direction of writing."""

from __future__ import annotations

import json


def plain(text: str) -> str:
    """``text`` as one line of printable characters; others are spelt out, like ``\\x1b``."""
    return "".join(char if char.isprintable() else " " if char.isspace() else f"\\x{ord(char):02x}" for char in text)


def plain_lines(text: str) -> str:
    """``text`` as ``plain`` has it, with its lines and tabs."""
    return "\n".join("\t".join(map(plain, line.split("\t"))) for line in text.split("\n"))


def plain_json(text: str) -> str:
    """JSON text with the same data, in which strings spell out every such character as ``\\u001b``."""
    return "".join(char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1] for char in text)
