"""What the page shows of one run. A run that is not sound shows its faults and nothing of its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gates.comparison.record import Comparison
from gates.comparison.within import compare_within
from gates.core.records import Decision
from gates.evidence.judging import load_evidence
from gates.evidence.run_directory import RunInfo, Verdict, read_record
from gates.review.decide import decision_in
from gates.review.history import Entry
from gates.review.report.ladders import Chain
from gates.verify.run import verify_run


@dataclass(frozen=True)
class RunView:
    """One run. With ``problems`` it is not sound: ``decision`` is what it recorded, and there is no evidence."""

    name: str
    info: RunInfo
    verdict: Verdict
    decision: Decision
    reason: str
    problems: tuple[str, ...] = ()
    comparison: Comparison | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """The whole report; ``left_out`` counts tasks and devices whose newest run is in the history alone."""

    tool_version: str
    made: str  # UTC, ISO 8601
    runs: tuple[RunView, ...]
    left_out: int
    chains: tuple[Chain, ...]
    entries: tuple[Entry, ...]


def view(run: Path) -> RunView:
    """The view of a run directory; raises GatesError where run.json or verdict.json can't be read."""
    info: RunInfo = read_record(RunInfo, run, "run.json")
    verdict: Verdict = read_record(Verdict, run, "verdict.json")
    problems = tuple(verify_run(run))
    if problems:
        return RunView(run.name, info, verdict, verdict.decision, verdict.reason, problems)
    return RunView(run.name, info, verdict, *decision_in(run), (), compare_within(run, info, verdict), load_evidence(run))
