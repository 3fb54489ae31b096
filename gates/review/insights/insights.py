"""What an engineer, or a model that writes code, needs to make the next version of a kernel.

The task's facts, where its time goes and what limits it, what was tried before, and the steps that the evidence
speaks for: measured statements only, each with the file and field that it stands in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gates.core.records import Decision
from gates.evidence.packed_runs import origin
from gates.evidence.run_directory import RunInfo, read_record
from gates.review.decide import decision_in
from gates.review.history import NO_DEVICE, Entry, entry_of
from gates.review.insights.attempts import Attempt, attempts_at
from gates.review.insights.facts import Fact
from gates.review.insights.measured import facts_of
from gates.review.insights.rules import Step, steps_of, unjudged
from gates.verify.run import require_sound

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Insights:
    """All of it for one run. ``unjudged``: why there is no evidence -> the rules that could not be judged for it."""

    run: str
    task: str
    decision: Decision
    reason: str
    sections: dict[str, tuple[Fact, ...]]
    attempts: tuple[Attempt, ...]
    steps: tuple[Step, ...]
    unjudged: dict[str, tuple[str, ...]]


def insights_of(run: Path, entries: Sequence[Entry] = ()) -> Insights:
    """The insights of a run, with those runs of ``entries`` (``gates.review.history``) that tried the same problem on its device.

    Raises GatesError where the run is not sound.
    """
    require_sound(run)
    info: RunInfo = read_record(RunInfo, run, "run.json")
    facts, sections = facts_of(run)
    device = info.device.name if info.device else NO_DEVICE
    known = {Path(entry.path).resolve(): entry.path for entry in entries}
    place = origin(run)
    tried = [*entries, *(() if place.resolve() in known else (entry_of(run),))]
    return Insights(
        known.get(place.resolve(), str(place)),
        info.task.name,
        *decision_in(run),
        sections,
        attempts_at(info.task.problem, device, tried),
        steps_of(facts),
        unjudged(facts),
    )
