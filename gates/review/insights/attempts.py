"""What was tried before: the runs of the same problem on the same device, rejected ones with their reasons too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gates.core.errors import GatesError
from gates.evidence.packed_runs import opened
from gates.review.history import Entry
from gates.review.insights.facts import Evidence


@dataclass(frozen=True)
class Attempt:
    """One run as it recorded itself; ``run`` is its directory, where run.json, verdict.json and performance.json say the same.

    ``speedup_pct`` is over ``baseline``, from interleaved pairs; times are of the gated cache mode. None: not measured.
    """

    run: str
    task: str
    title: str
    toggles: Mapping[str, int]
    started: str
    decision: str
    reason: str
    p50_us: float | None
    baseline: str | None
    speedup_pct: float | None
    shape: str | None  # that was timed


def attempts_at(problem: str, device: str, entries: Iterable[Entry]) -> tuple[Attempt, ...]:
    """The readable runs of ``problem`` on ``device`` among ``entries``, the oldest first. They are read, not verified."""
    found = []
    for entry in entries:
        if not entry.broken and entry.device == device:
            evidence = Evidence(opened(Path(entry.path)))
            try:
                if evidence.at("run.json", "task.problem") == problem:
                    found.append(_attempt(entry, evidence))
            except GatesError:
                continue  # `gates history` names it with the reason
    return tuple(sorted(found, key=lambda attempt: (attempt.started, attempt.run)))


def _attempt(entry: Entry, evidence: Evidence) -> Attempt:
    toggles, reason = evidence.at("run.json", "task.toggles"), evidence.at("verdict.json", "reason")
    return Attempt(
        entry.path,
        entry.task,
        entry.title,
        toggles if isinstance(toggles, dict) else {},
        entry.started,
        entry.decision,
        str(reason),
        entry.p50_us,
        entry.baseline,
        entry.speedup_pct,
        evidence.at("performance.json", "shape"),
    )
