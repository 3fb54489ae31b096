"""Read ``cuobjdump --dump-resource-usage``: what the machine code itself says of its resources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_FUNCTION = re.compile(r"^\s*Function (?P<name>\S+):\s*$")
_FIGURE = re.compile(r"(\w+(?:\[\d+\])?):(\d+|UNKNOWN)")


@dataclass(frozen=True)
class FunctionUsage:
    """One function of a cubin. Bytes, registers per thread; None where the tool prints UNKNOWN (recursion)."""

    registers: int | None
    stack_bytes: int | None
    shared_bytes: int | None  # from sm_90 on with the kilobyte that the system keeps in a kernel that uses any
    local_bytes: int | None


def parse_resource_usage(text: str) -> Mapping[str, FunctionUsage]:
    """Mangled function name -> usage, of every function with a figures line after it."""
    functions: dict[str, FunctionUsage] = {}
    name: str | None = None
    for line in text.splitlines():
        if match := _FUNCTION.match(line):
            name = match["name"]
        elif name is not None and line.strip().startswith("REG:"):
            figures = {key: None if value == "UNKNOWN" else int(value) for key, value in _FIGURE.findall(line)}
            functions[name] = FunctionUsage(figures.get("REG"), figures.get("STACK"), figures.get("SHARED"), figures.get("LOCAL"))
            name = None
    return functions
