"""The machine code of the timed kernel on both sides: whether it is the same, and what differs, readable."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gates.comparison.paired import TimedKernel, pair
from gates.comparison.record import MachineCode, Row

MOST_LINES = 400
_NAMED = re.compile(r"\b(UR|UP|R|P|B)(\d+)\b")
_TARGET = re.compile(r"(?<![\w.])(?:0x[0-9a-f]+|`\([^)]*\))(?=\s*$)")
_JUMPS = ("BRA", "BSSY", "CALL", "JMP", "RET", "BRX", "WARPSYNC")


def machine_code(before: Mapping[str, Any], after: Mapping[str, Any], timed: Mapping[str, Any] | None) -> MachineCode | None:
    """What became of the timed kernel's machine code; None if a run kept none."""
    found, sass = pair(before, after, timed), (before.get("sass"), after.get("sass"))
    if found is None or (same := unchanged(*found, sass)) is None:
        return None
    return MachineCode(same, () if same else diff(*found))


def mix_rows(before: Mapping[str, Any], after: Mapping[str, Any], timed: Mapping[str, Any] | None) -> Iterator[Row]:
    """A row per class of instructions of the timed kernel."""
    if (found := pair(before, after, timed)) is not None:
        for name, one, two in mix(*found):
            yield Row(name, "instructions", one, two)


def unchanged(before: TimedKernel, after: TimedKernel, sass: tuple[Any, Any]) -> bool | None:
    """Check that instructions, constants and shared memory are the same for the newest architecture of both; None if a run kept no code.

    ``sass``: the evidence that the two kernels are of. Registers count here: a renamed register is another instruction.
    """
    data = [one.data.get(kernel.arch) if one else None for one, kernel in zip(sass, (before, after), strict=True)]
    if before.code is None or after.code is None or not (before.code.code and after.code.code) or not all(data):
        return None
    return before.arch == after.arch and before.code.code == after.code.code and data[0] == data[1]


def diff(before: TimedKernel, after: TimedKernel) -> tuple[str, ...]:
    """A unified diff of readable code, at most 400 lines; empty if nothing differs, or if a side has no code."""
    if before.code is None or after.code is None or not (before.code.code and after.code.code):
        return ()
    lines = list(difflib.unified_diff(readable(before.code.code), readable(after.code.code), before.name, after.name, lineterm="", n=2))
    more = len(lines) - MOST_LINES
    return (*lines[:MOST_LINES], *((f"… {more} more lines",) if more > 0 else ()))


def readable(code: Sequence[str]) -> list[str]:
    """The instructions with registers numbered and jump targets lettered in the order in which they occur."""
    known: dict[str, str] = {}
    counts: Counter[str] = Counter()

    def numbered(word: str, letter: str) -> str:
        if word not in known:
            known[word] = f"{letter}{counts[letter]}"
            counts[letter] += 1
        return known[word]

    def named(found: re.Match[str]) -> str:
        return numbered(found[0], found[1].lower())

    def target(found: re.Match[str]) -> str:
        return numbered(found[0], "L")

    return [
        _TARGET.sub(target, _NAMED.sub(named, line)) if any(jump in line for jump in _JUMPS) else _NAMED.sub(named, line) for line in code
    ]


def mix(before: TimedKernel, after: TimedKernel) -> list[tuple[str, int, int]]:
    """(class, before, after) of each class of instructions that one of both has."""
    if before.code is None or after.code is None:
        return []
    classes: tuple[Mapping[str, int], Mapping[str, int]] = before.code.classes, after.code.classes
    found = [(name, classes[0].get(name, 0), classes[1].get(name, 0)) for name in dict.fromkeys([*classes[0], *classes[1]])]
    return [(name, one, two) for name, one, two in found if one or two]
