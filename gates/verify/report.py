"""Check that COMPARE.md is the report of the run's evidence.

The whole text is compared if this version renders the report's version. Of a report of another version, only the
decision, the gates, the speed-up and the kernel times are compared, which every version has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gates.core import jsonio
from gates.evidence.run_directory import RunInfo, Verdict, read_record
from gates.render.compare import REPORT_VERSION, TIMES, footer
from gates.render.markdown import escape, read

if TYPE_CHECKING:
    from gates.comparison.record import Comparison

_VERSION = re.compile(r"^Report version ([0-9]{1,6})\.\s*$", re.M)  # what ``footer`` writes
_SPEED = re.compile(r"^\*\*Speed-up ([+-][0-9.]+) % ", re.M)
_ROUNDING = 1.0001e-3  # four significant digits


def report_problems(run: Path) -> tuple[list[str], list[str]]:
    """Return (problems of COMPARE.md, what was not checked), one sentence each. The run's other files must be sound."""
    from gates.comparison.within import compare_within

    if not (run / "COMPARE.md").exists():
        return [], ["COMPARE.md is missing: not checked"]
    info: RunInfo = read_record(RunInfo, run, "run.json")
    comparison = compare_within(run, info, read_record(Verdict, run, "verdict.json"))
    told, again = jsonio.read_text(run / "COMPARE.md"), comparison.markdown()
    version = int(found[1]) if (found := _VERSION.search(told)) else 0
    if not version and info.task.build:  # reports had their version before runs named their builds
        return ["COMPARE.md has lost its last line, which gives the report's version"], []
    if told == again or told == again.removesuffix(footer(REPORT_VERSION)).removesuffix("\n"):
        return [], []
    if version == REPORT_VERSION:
        return [f"COMPARE.md differs from what the evidence gives: {_first_difference(told, again)}"], []
    problems = [f"COMPARE.md {text}" for text in _claims(told, comparison)]
    by = f"report version {version}" if version else "an earlier version of gates"
    return problems, [] if problems else [
        f"COMPARE.md was rendered by {by}: not checked beyond its decision, gates, speed-up and kernel times"
    ]


def _first_difference(told: str, again: str) -> str:
    ours, theirs = again.splitlines(), told.splitlines()
    for number in range(max(len(ours), len(theirs))):
        line = theirs[number] if number < len(theirs) else None
        if line != (ours[number] if number < len(ours) else None):
            return f"line {number + 1} is missing" if line is None else f"line {number + 1} is {line[:120]!r}"
    return "its line ends"


def _claims(told: str, comparison: Comparison) -> Iterator[str]:
    """Yield the contradictions between a report of another version and the evidence."""
    title = f"# {comparison.decision.value}: "
    if not told.startswith(title):
        yield f"does not begin with {title!r}"
    rows = _rows(told)
    for result in comparison.gates:
        row = (result.gate, result.status.value.replace("_", " "), result.code, result.sentence)
        if tuple(read(escape(cell)).strip() for cell in row) not in rows:
            yield f"does not give {result.gate} as {result.status.value} ({result.code})"
    speed = comparison.speed
    if (found := _SPEED.search(told)) and (speed is None or not _alike(found[1], speed.speedup_pct)):
        yield f"gives a speed-up of {found[1]} %, the evidence gives {f'{speed.speedup_pct:+.2f} %' if speed else 'none'}"
    times = {row.name: (row.baseline, row.candidate) for section in comparison.sections if section.title == TIMES for row in section.rows}
    for cells in rows:
        if len(cells) == 5 and cells[1] == "us" and cells[0] in times:
            for cell, value in zip(cells[2:4], times[cells[0]], strict=True):
                if isinstance(value, (int, float)) and not _alike(cell, value):
                    yield f"says {cells[0]} {cell} us, the evidence {value:.4g} us"


def _rows(text: str) -> list[tuple[str, ...]]:
    """The cells of each table row, without their escapes."""
    return [tuple(read(cell).strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]) for line in text.splitlines() if line.startswith("| ")]


def _alike(told: str, value: float) -> bool:
    try:
        return abs(float(told) - value) <= max(_ROUNDING * abs(value), 0.0051)
    except ValueError:
        return False
