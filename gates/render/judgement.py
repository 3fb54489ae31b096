"""Verdicts judged again beside the recorded ones, as a terminal shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gates.evidence.run_directory import SCHEMA_VERSION, Verdict
from gates.render.console import MARKS, failures

if TYPE_CHECKING:
    from gates.review.rejudge import Judgement


def judgement_table(judgement: Judgement) -> str:
    """What was set, a row a gate (``*`` where its verdict is another now), failing checks, the decision or why there is none."""
    lines = [f"{judgement.task}, judged again from its evidence; nothing was written"]
    lines += [f"  {change.name}: {_text(change.recorded)} -> {_text(change.value)}" for change in judgement.changes]
    lines += ["", f"  {'gate':12} {'recorded':13} {'now':13} result"]
    for recorded, now in judgement.gates:
        changed = "*" if (recorded.status, recorded.code) != (now.status, now.code) else " "
        lines.append(f"{changed} {now.gate:12} {MARKS[recorded.status]:13} {MARKS[now.status]:13} {now.sentence}")
    verdict = Verdict(SCHEMA_VERSION, judgement.decision, judgement.reason, tuple(now for _, now in judgement.gates))
    lines += failures(verdict)
    if judgement.problems:
        lines += [
            "",
            "NOT SOUND, so nothing is decided by this run (gates verify says the same):",
            *(f"  {text}" for text in judgement.problems),
        ]
        return "\n".join(lines)
    under = " under these limits" if judgement.changes else ""
    lines += ["", f"decision{under}: {judgement.decision.value} ({judgement.reason}); recorded: {judgement.recorded_decision.value}"]
    return "\n".join(lines)


def _text(value: Any) -> str:
    return "no limit" if value is None else str(value)
