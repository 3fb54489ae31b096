"""Insights as Markdown and as JSON data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from gates.core.records import shown, to_json
from gates.render.markdown import code, escape, table

if TYPE_CHECKING:
    from gates.review.insights.attempts import Attempt
    from gates.review.insights.facts import Fact
    from gates.review.insights.insights import Insights
    from gates.review.insights.rules import Step

_MOST_ATTEMPTS = 12


def insights_json(found: Sequence[Insights]) -> dict[str, Any]:
    """The insights as JSON data."""
    return {"schema_version": 1, "runs": to_json(tuple(found))}


def insights_markdown(found: Sequence[Insights]) -> str:
    """One chapter a run; ends with a newline."""
    return "\n".join(_chapter(one) for one in found)


def _chapter(one: Insights) -> str:
    parts = [f"# {escape(one.task)}: {one.decision.value}\n\n{escape(one.reason)} (run `{code(PurePath(one.run).name)}`)\n"]
    parts += [f"## {title}\n\n{_facts(facts)}" for title, facts in one.sections.items()]
    parts.append(f"## Tried before\n\n{_attempts(one)}")
    steps = "\n".join(_step(number, step) for number, step in enumerate(one.steps, 1))
    parts.append("## Next steps\n\n" + (steps or "No rule speaks for a step on this evidence.\n"))
    if one.unjudged:
        lines = [f"- {escape(reason)}: {', '.join(rules)}" for reason, rules in one.unjudged.items()]
        parts.append("Rules that could not be judged, and for want of what:\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _facts(facts: Sequence[Fact]) -> str:
    """A line a fact; those without a value share a line for each reason."""
    lines = [_line(fact) for fact in facts if fact.value is not None]
    absent: dict[str, list[str]] = {}
    for fact in facts:
        if fact.value is None:
            absent.setdefault(fact.missing, []).append(escape(fact.what))
    lines += [f"- no value ({escape(reason)}): {'; '.join(names)}" for reason, names in absent.items()]
    return "\n".join(lines) + "\n"


def _line(fact: Fact) -> str:
    return f"- {escape(fact.what)}: {escape(f'{shown(fact.value)} {fact.unit}'.strip())} ({_sources(fact)})"


def _sources(fact: Fact) -> str:
    """The fact's sources as code; of several in one file the file's name stands once."""
    files: dict[str, list[str]] = {}
    for source in fact.sources:
        file, _, path = source.partition(": ")
        files.setdefault(code(file), []).append(code(path))
    return "; ".join(f"`{file}: {', '.join(paths)}`" for file, paths in files.items())


def _attempts(one: Insights) -> str:
    last = one.attempts[-_MOST_ATTEMPTS:]
    left_out = len(one.attempts) - len(last)
    rows = [_attempt(attempt, this=attempt.run == one.run) for attempt in last]
    text = table(("run", "stage", "shape", "p50 us", "over its baseline", "decision", "reason"), rows, right=(3, 4))
    return text + (f"\n{left_out} earlier ones: `gates history`\n" if left_out else "")


def _attempt(attempt: Attempt, *, this: bool) -> tuple[str, ...]:
    toggles = ", ".join(f"{name}={value}" for name, value in attempt.toggles.items())
    speed = "-" if attempt.speedup_pct is None else f"{attempt.speedup_pct:+.1f} %"
    return (
        PurePath(attempt.run).name + (" (this one)" if this else ""),
        f"{attempt.task}: {attempt.title}" + (f" ({toggles})" if toggles else ""),
        attempt.shape or "-",
        shown(attempt.p50_us),
        speed,
        attempt.decision,
        attempt.reason,
    )


def _step(number: int, step: Step) -> str:
    basis = escape(step.basis)
    ceiling = f" Ceiling ({step.kind}): {_reach(step)}{basis}." if step.ceiling_us is not None else f" {basis[0].upper()}{basis[1:]}."
    lines = [f"{number}. **{escape(step.step)}**{ceiling}"]
    lines += [f"   {_line(fact)}" for fact in step.evidence]
    return "\n".join(lines) + "\n"


def _reach(step: Step) -> str:
    gain = "" if step.gain_pct is None else f", {step.gain_pct:+.1f} %"
    return f"{shown(step.ceiling_us)} us{gain}: "
