"""compare.json: two sides, their rows, and what a reader must know about them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gates.core import jsonio, records
from gates.core.records import Decision, GateResult
from gates.evidence.run_directory import require_outside_a_run
from gates.gate.decision import EXIT_CODES
from gates.stats.stopping_rule import CONFIDENCE

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Row:
    """One quantity on both sides; None where a side does not have it."""

    name: str
    unit: str
    baseline: float | int | str | None
    candidate: float | int | str | None


@dataclass(frozen=True)
class Section:
    """Rows that belong together, under one title."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Speed:
    """The speed-up with its interval, from interleaved pairs; percent of (baseline / candidate - 1)."""

    mode: str
    shape: str
    pairs: int
    speedup_pct: float
    low_pct: float
    high_pct: float
    bar_pct: float | None
    noise_floor_pct: float | None
    other_mode: str  # the cache mode that is not gated
    other_speedup_pct: float | None
    modes_disagree: bool  # clearly on different sides of the threshold
    confidence_pct: float = 100.0 * CONFIDENCE  # of the interval


@dataclass(frozen=True)
class MachineCode:
    """The timed kernel's machine code: whether it is the baseline's, constants and shared memory included, else what differs."""

    unchanged: bool
    diff: tuple[str, ...]


@dataclass(frozen=True)
class SideInfo:
    """What stands on one side: a stage, and the run that its figures come from."""

    task: str
    title: str
    task_digest: str
    run: str | None
    device: str | None
    started: str


@dataclass(frozen=True)
class Comparison:
    """compare.json."""

    schema_version: int
    baseline: SideInfo | None
    candidate: SideInfo
    decision: Decision
    reason: str
    gates: tuple[GateResult, ...]
    speed: Speed | None
    notes: tuple[str, ...]  # differences of the set-up that a reader must know
    sections: tuple[Section, ...]
    shapes: tuple[Speed, ...] = ()  # of a task that times several shapes, the worst first
    machine_code: MachineCode | None = None  # None if a run kept none

    @property
    def exit_code(self) -> int:
        """0 merge, 1 reject, 3 hold."""
        return EXIT_CODES[self.decision]

    def markdown(self, *, folded: bool = True) -> str:
        """COMPARE.md's text; without ``folded`` only what a reviewer sees first."""
        from gates.render.compare import markdown

        return markdown(self, folded=folded)

    def write(self, root: Path) -> Path:
        """Write COMPARE.md and compare.json into a folder of ``root`` named after the sides."""
        base = self.baseline.task if self.baseline else "none"
        folder = root / f"{base}..{self.candidate.task}"
        require_outside_a_run(folder)
        jsonio.make_folder(folder)
        jsonio.write(folder / "compare.json", records.to_json(self))
        jsonio.write_text(folder / "COMPARE.md", self.markdown())
        return folder
