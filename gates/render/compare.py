"""COMPARE.md: the decision first, then the gates, the speed, and the rows that changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gates.core.records import Check, Status, shown
from gates.gate.correctness.failed_case import clearest_first
from gates.gate.ptxas.judge import advice_in
from gates.render.markdown import code, details, escape, table

if TYPE_CHECKING:
    from gates.comparison.record import Comparison, Row, Section

REPORT_VERSION = 4  # of the whole text: raise it with every change of what a run's files render
TIMES = "Kernel time"
_OPEN = (TIMES,)  # sections a reviewer wants to see without a click
_CONTEXT = ("Other implementations, for context", "Other shapes, for context")  # times, too


def markdown(comparison: Comparison, *, folded: bool = True) -> str:
    """The report's text; ends with a newline. Without ``folded`` the sections that a browser folds are left out."""
    candidate, base = comparison.candidate, comparison.baseline
    against = f" against {base.task}" if base else ""
    parts = [
        f"# {comparison.decision.value}: {escape(candidate.task + against)}\n",
        f"{escape(comparison.reason)}.\n",
        _where(comparison),
    ]
    if comparison.notes:
        parts.append("".join(f"- note: {escape(note)}\n" for note in comparison.notes))
    parts.append(
        table(
            ("gate", "status", "code", "what was seen"),
            [(result.gate, result.status.value.replace("_", " "), result.code, result.sentence) for result in comparison.gates],
        )
    )
    hints = _hints(comparison)
    if hints:
        parts.append("What to look at next:\n\n" + "".join(f"- {hint}\n" for hint in hints))
    if advice := advice_in(comparison.gates):
        parts.append("The compiler's advice:\n\n" + "".join(f"- {escape(line)}\n" for line in advice))
    parts += _failing_cases(comparison)
    if comparison.speed is not None:
        parts.append(_speed(comparison))
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
    """One line: ratio, interval, bar, noise floor, pairs, shape, mode, verdict, and a disagreement of the modes."""
    speed = comparison.speed
    assert speed is not None
    ratio, low, high = (f"{1 + pct / 100:.3f}" for pct in (speed.speedup_pct, speed.low_pct, speed.high_pct))
    bar = "no bar" if speed.bar_pct is None else f"bar {1 + speed.bar_pct / 100:.3f} ({speed.bar_pct:g} %)"
    floor = "noise floor unknown" if speed.noise_floor_pct is None else f"noise floor {speed.noise_floor_pct:.2f} %"
    line = (
        f"**Speed-up {speed.speedup_pct:+.2f} % ({ratio}x)**, 98.3 % interval {low} to {high}, {bar}, {floor}, "
        f"{speed.pairs} interleaved pairs, {escape(speed.shape)}, {escape(speed.mode)} L2: **{_verdict(comparison)}**"
    )
    if speed.modes_disagree and speed.other_speedup_pct is not None:
        side = "above" if speed.other_speedup_pct >= (speed.bar_pct or 0.0) else "below"
        line += f"; the modes disagree: with {escape(speed.other_mode)} L2 it is {1 + speed.other_speedup_pct / 100:.3f}x, {side} the bar"
    return f"{line}.\n"


def _verdict(comparison: Comparison) -> str:
    result = next((result for result in comparison.gates if result.gate == "performance"), None)
    if result is None:
        return "no verdict"
    status = result.status.value.replace("_", " ")
    return status if result.status is Status.PASS else f"{status} ({escape(result.code)})"


def _hints(comparison: Comparison, most: int = 6) -> list[str]:
    found: dict[str, None] = {}
    for result in comparison.gates:
        for check in result.checks:
            if check.status in (Status.FAIL, Status.INCONCLUSIVE) and check.hint:
                found[f"{result.gate}, {escape(check.where or check.name)}: {escape(check.hint)}"] = None
    return list(found)[:most]


def _failing_cases(comparison: Comparison, most: int = 3) -> list[str]:
    """Each failing case with its story: where its output is wrong, likely causes, and the command that replays it."""
    cases: dict[str, list[Check]] = {}
    for result in comparison.gates:
        for check in clearest_first(result.checks):
            if check.status is Status.FAIL and (check.notes or check.reproduce):
                cases.setdefault(check.where, []).append(check)
    if not cases:
        return []
    parts = ["## Failing cases\n", "The commands are for the folder in which the run was started.\n"]
    for where, checks in list(cases.items())[:most]:
        lines = [f"**{escape(where)}**: {escape(', '.join(check.name for check in checks))}\n"]
        lines += [f"- {escape(note)}" for check in checks for note in check.notes]
        parts.append("\n".join(lines) + "\n")
        if checks[0].reproduce:
            parts.append(f"```sh\n{code(checks[0].reproduce)}\n```\n")
    if len(cases) > most:
        rest = list(cases.items())[most:]
        parts.append(
            details(
                f"{len(rest)} more failing cases",
                table(
                    ("case", "where it is wrong", "to run it again"),
                    [(where, next((note for check in checks for note in check.notes), ""), checks[0].reproduce) for where, checks in rest],
                ),
            )
        )
    return parts


def _rows(section: Section) -> str:
    timed = is_timed(section)
    return table(
        ("quantity", "unit", "baseline", "candidate", "speed-up" if timed else "change"),
        [(row.name, row.unit, cell(row.baseline), cell(row.candidate), change(row, timed)) for row in section.rows],
        right=(2, 3, 4),
    )


def cell(value: float | int | str | None) -> str:
    """One side's figure; ``missing`` where the side has none."""
    return "missing" if value is None else shown(value)


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
    return section.title in (*_OPEN, *_CONTEXT)


def differing(section: Section) -> int:
    """How many of a section's rows differ between the sides."""
    return sum(row.baseline != row.candidate for row in section.rows)


def _summary(section: Section) -> str:
    return f"{section.title}: {len(section.rows)} rows, {differing(section)} differ"
