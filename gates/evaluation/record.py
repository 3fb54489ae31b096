"""evaluation.json: what an evaluation says of a candidate."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from gates.evidence.run_directory import read_record
from gates.gate.registry import ROWS, gates_of

SCHEMA_VERSION = 1
FILE = "evaluation.json"
STAGES = ("static", "numbers", "memory", "speed")  # in the order of their cost
PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"
EXIT_CODES = {PASS: 0, FAIL: 1, INCONCLUSIVE: 3}


def stages_to(stage: str) -> list[str]:
    """The stages from the first to ``stage``; none for a name that is no stage."""
    return list(STAGES[: STAGES.index(stage) + 1]) if stage in STAGES else []


def gates_in(stage: str, limits: Collection[str]) -> list[str]:
    """The gates of ``stage`` for a task whose task.yaml names those in ``limits``."""
    return [gate for gate in gates_of(limits) if ROWS[gate].evaluated == stage]


@dataclass(frozen=True)
class GateSeen:
    """A gate's word, and how long it took."""

    gate: str
    status: str
    code: str
    sentence: str
    seconds: float


@dataclass(frozen=True)
class Evaluation:
    """An answer to a search loop.

    ``status``: pass, fail, or inconclusive where a gate came to no verdict. ``stage``: the last that was judged, of ``STAGES``.
    ``valid``: no check failed and the numbers were judged. ``score``: the low end of the speed-up's interval over the incumbent, a ratio;
    None unless valid and timed. ``seconds``: wall time by what it was spent on. ``evidence``: the folder of everything, below the results.
    """

    schema_version: int
    tool_version: str
    id: str
    parent: str | None
    name: str
    note: str
    task: str
    status: str
    stage: str
    code: str
    valid: bool
    score: float | None
    score_high: float | None
    p50_us: float | None
    metrics: Mapping[str, float]
    gates: tuple[GateSeen, ...]
    feedback: str
    artifacts: Mapping[str, str]
    seconds: Mapping[str, float]
    evidence: str
    files: Mapping[str, str]  # the overlay: path relative to the project -> sha256 of the text
    toggles: Mapping[str, int]
    device: str | None
    cached: bool = False
    asked: str = "numbers"  # the stage up to which it was asked
    against: str = "task"  # what it is timed against: task, baseline, or the digest of another version

    @property
    def exit_code(self) -> int:
        """0 pass, 1 fail, 3 inconclusive."""
        return EXIT_CODES[self.status]


def read_evaluation(folder: Path) -> Evaluation:
    """The evaluation in a folder; raises GatesError where it is missing or broken."""
    found: Evaluation = read_record(Evaluation, folder, FILE)
    return found
