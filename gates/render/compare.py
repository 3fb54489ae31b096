"""COMPARE.md: the decision first, then the gates, the speed, and the rows that changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gates.core.places import is_source
from gates.core.records import Status, shown
from gates.core.text import plain
from gates.gate.ptxas.judge import advice_in
from gates.render.findings import findings
from gates.render.markdown import code, details, escape, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gates.comparison.record import Comparison, Row, Section, Speed
    from gates.render.findings import Finding

REPORT_VERSION = 9  # of the whole text: raise it with every change of what a run's files render
UNCHANGED = "Machine code unchanged: the timed kernel has the baseline's instructions, constants and shared memory."
TIMES = "Kernel time"
_TIMED = (TIMES,)
_OPEN = ("The timed kernel",)  # what a reviewer wants to see without a click
_CONTEXT = ("Other implementations, for context", "Other shapes")  # times, too


def markdown(comparison: Comparison, *, folded: bool = True) -> str:
    """The report's text; ends with a newline. Without ``folded`` the sections that a browser folds are left out."""
    candidate, base = comparison.candidate, comparison.baseline
    against = f" against {base.task}" if base else ""
    found = findings(comparison.gates)
    parts = [
        f"# {comparison.decision.value}: {escape(candidate.task + against)}\n",
        *([f"**{escape(found[0].head)}**\n"] if found else []),
        f"{escape(comparison.reason)}.\n",
        _where(comparison),
    ]
    if comparison.notes:
        parts.append("".join(f"- note: {escape(note)}\n" for note in comparison.notes))
    parts.append(
        table(
            ("gate", "status", "code", "result"),
            [(result.gate, result.status.value.replace("_", " "), result.code, result.sentence) for result in comparison.gates],
        )
    )
    parts += _faults(found)
    if advice := advice_in(comparison.gates):
        parts.append("The compiler's advice:\n\n" + "".join(f"- {escape(line)}\n" for line in advice))
    if comparison.speed is not None:
        parts.append(_speed(comparison))
    if comparison.machine_code is not None and comparison.machine_code.unchanged:
        parts.append(f"{UNCHANGED}\n")
    if comparison.shapes:
        parts.append(f"## Timed shapes\n\n{table(SHAPES, map(shape_row, comparison.shapes), right=(1, 2, 3, 4, 5))}")
    for section in comparison.sections:
        if section.title in _OPEN:
            parts.append(f"## {section.title}\n")
            parts.append(_rows(section))
        elif folded:
            parts.append(details(_summary(section), _rows(section)))
    return "\n".join([*parts, footer(REPORT_VERSION)] if folded else parts)


def footer(version: int) -> str:
    """The last line of a report."""
    return f"Report version {version}.\n"


def _where(comparison: Comparison) -> str:
    side = comparison.candidate
    run = f"run `{code(side.run)}`, " if side.run else ""
    base = f"; baseline run `{code(comparison.baseline.run)}`" if comparison.baseline and comparison.baseline.run else ""
    return f"{run}{escape(side.device or 'no CUDA device')}, {escape(side.started)}{base}\n"


def _speed(comparison: Comparison) -> str:
    """One line: ratio, interval, threshold, noise floor, pairs, shape, mode, verdict, and a disagreement of the modes."""
    speed = comparison.speed
    assert speed is not None
    ratio, low, high = (f"{1 + pct / 100:.3f}" for pct in (speed.speedup_pct, speed.low_pct, speed.high_pct))
    bar = "no threshold" if speed.bar_pct is None else f"threshold {1 + speed.bar_pct / 100:.3f} ({speed.bar_pct:g} %)"
    floor = "noise floor unknown" if speed.noise_floor_pct is None else f"noise floor {speed.noise_floor_pct:.2f} %"
    line = (
        f"**Speed-up {speed.speedup_pct:+.2f} % ({ratio}x)**, {speed.confidence_pct:.1f} % interval {low} to {high}, {bar}, {floor}, "
        f"{speed.pairs} interleaved pairs, {escape(speed.shape)}, {escape(speed.mode)} L2: **{_verdict(comparison)}**"
    )
    if speed.modes_disagree and speed.other_speedup_pct is not None:
        side = "above" if speed.other_speedup_pct >= (speed.bar_pct or 0.0) else "below"
        line += (
            f"; the modes disagree: with {escape(speed.other_mode)} L2 it is {1 + speed.other_speedup_pct / 100:.3f}x, {side} the threshold"
        )
    return f"{line}.\n"


SHAPES = ("shape", "speed-up", "low", "high", "threshold", "pairs")


def shape_row(speed: Speed) -> tuple[str, ...]:
    """One timed shape: its ratio, the interval's ends, what is asked of it, and how many pairs there are."""
    ratios = (f"{1 + pct / 100:.3f}x" for pct in (speed.speedup_pct, speed.low_pct, speed.high_pct))
    return speed.shape, *ratios, "none" if speed.bar_pct is None else f"{1 + speed.bar_pct / 100:.3f}x", str(speed.pairs)


def _verdict(comparison: Comparison) -> str:
    result = next((result for result in comparison.gates if result.gate == "performance"), None)
    if result is None:
        return "no verdict"
    status = result.status.value.replace("_", " ")
    return status if result.status is Status.PASS else f"{status} ({escape(result.code)})"


def _faults(found: Sequence[Finding], most: int = 6) -> list[str]:
    """The faults, causes first: what the first looks like and how to see it again; every further place in a fold."""
    if not found:
        return []
    lines, told = ["## What is wrong\n"], set[str]()
    for number, one in enumerate(found[:most], start=1):
        lines.append(f"{number}. **{escape(one.head)}** {escape(one.elsewhere())} ({escape(one.code)})".replace("  ", " "))
        if not one.checks or (found[0].located and not one.located):
            continue
        first = one.checks[0]
        source = [line for line in first.notes if is_source(line)]
        lines += ["", "   ```cpp", *(f"   {plain(line)}" for line in source), "   ```", ""] if source else []
        lines += [f"   - {escape(line)}" for line in (first.hint, *first.notes) if line and line not in told and line not in source]
        told.update((first.hint, *first.notes))
    if len(found) > most:
        lines.append(f"\nAlso: {escape(', '.join(dict.fromkeys(one.code for one in found[most:])))}.")
    parts = ["\n".join(lines) + "\n"]
    places = {check.where: check for one in found for check in one.checks if check.reproduce}
    if places:
        first_place = next(iter(places.values()))
        parts.append(f"To see it again, in the folder in which the run was started:\n\n```sh\n{code(first_place.reproduce)}\n```\n")
    if len(places) > 1:
        stories = {check.where: check.notes[0] for one in found for check in reversed(one.checks) if check.notes}
        rows = [(where, stories.get(where, ""), check.reproduce) for where, check in places.items()]
        parts.append(details(f"{len(places)} failing cases", table(("case", "where it is wrong", "to run it again"), rows)))
    return parts


def _rows(section: Section) -> str:
    timed = is_timed(section)
    return table(
        ("quantity", "unit", "baseline", "candidate", "speed-up" if timed else "change"),
        [(row.name, row.unit, cell(row.baseline), cell(row.candidate), change(row, timed)) for row in section.rows],
        right=(2, 3, 4),
    )


def cell(value: float | int | str | None) -> str:
    """One side's figure; ``none`` where the side has none."""
    return "none" if value is None else shown(value)


def change(row: Row, timed: bool) -> str:
    """What became of the quantity: a speed-up in percent where it is a time, else a difference."""
    one, two = row.baseline, row.candidate
    if not isinstance(one, (int, float)) or not isinstance(two, (int, float)):
        return ""
    if timed:
        return f"{(one / two - 1) * 100:+.1f} %" if two and not row.name.endswith("std") else ""
    if one == two:
        return "="
    if isinstance(one, int) and isinstance(two, int):
        return f"{two - one:+d}"
    return f"{(two / one - 1) * 100:+.1f} %" if one else ""


def is_timed(section: Section) -> bool:
    """Whether the last column of a section is baseline / candidate - 1, as in the gate, and not a difference."""
    return section.title in (*_TIMED, *_CONTEXT)


def differing(section: Section) -> int:
    """How many of a section's rows differ between the sides."""
    return sum(row.baseline != row.candidate for row in section.rows if row.baseline is not None and row.candidate is not None)


def _summary(section: Section) -> str:
    alone = sum(row.baseline is None or row.candidate is None for row in section.rows)
    return f"{section.title}: {len(section.rows)} rows, {differing(section)} differ{f', {alone} on one side only' if alone else ''}"
