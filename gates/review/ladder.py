"""Several runs as a ladder: stage by stage what each gained, and what they gained together.

A rung's gain is the one that its own run measured against the stage before, in interleaved pairs.
Gains are multiplied only along such rungs. Where a run measured another baseline, its rung has no gain and
nothing above it is cumulative: times of two runs are not interleaved and decide nothing. A rung that was timed on
another shape than the first has a gain on that shape, which is no part of what came before.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gates.comparison.within import speed_of
from gates.core import jsonio, records
from gates.core.errors import GatesError
from gates.core.records import Decision
from gates.evidence.judging import load_evidence
from gates.evidence.run_directory import RunInfo, Verdict, read_record, require_outside_a_run
from gates.gate.decision import EXIT_CODES
from gates.gate.performance.thresholds import thresholds
from gates.stats.samples import CANDIDATE
from gates.verify.run import require_sound

SCHEMA_VERSION = 1
_WORST_FIRST = (Decision.REJECT, Decision.HOLD, Decision.MERGE)


@dataclass(frozen=True)
class Rung:
    """One stage of the ladder; figures are None where its run did not measure them against the stage before."""

    task: str
    title: str
    run: str
    decision: Decision
    reason: str
    device: str | None
    shape: str | None  # that was timed
    p50_us: float | None  # of the gated cache mode, in its own run
    ratio: float | None  # stage before / this one, interleaved
    low: float | None
    high: float | None
    confidence_pct: float | None  # of the interval from low to high
    cumulative: float | None  # first stage / this one: the product of the ratios
    note: str


@dataclass(frozen=True)
class Ladder:
    """ladder.json."""

    schema_version: int
    rungs: tuple[Rung, ...]

    @property
    def decision(self) -> Decision:
        """The worst decision of the rungs, reject, hold or merge; at best hold where a rung was not measured against the one before."""
        unmeasured = any(rung.ratio is None for rung in self.rungs[1:])
        return min((*(rung.decision for rung in self.rungs), *((Decision.HOLD,) if unmeasured else ())), key=_WORST_FIRST.index)

    @property
    def exit_code(self) -> int:
        """0 merge, 1 reject, 3 hold."""
        return EXIT_CODES[self.decision]

    def markdown(self) -> str:
        """The table; ends with a newline."""
        from gates.render.ladder import markdown

        return markdown(self)

    def write(self, root: Path, *, picture: bool) -> Path:
        """Write LADDER.md, ladder.json and, if asked, ladder.png into a folder of ``root`` named after the ends."""
        folder = root / f"{self.rungs[0].task}...{self.rungs[-1].task}"
        require_outside_a_run(folder)
        jsonio.make_folder(folder)
        jsonio.write(folder / "ladder.json", records.to_json(self))
        jsonio.write_text(folder / "LADDER.md", self.markdown())
        if picture:
            from gates.render.ladder import draw

            draw(self, folder / "ladder.png")
        return folder


def ladder_of(runs: Sequence[Path]) -> Ladder:
    """The ladder of ``runs``, first stage first.

    Raises GatesError for a run that is not sound, and for runs of different problems or devices, whose times
    mean different things. A stage may bring a problem of its own if its run timed the stage before on it.
    """
    for run in dict.fromkeys(runs):
        require_sound(run)
    infos: list[RunInfo] = [read_record(RunInfo, run, "run.json") for run in runs]
    devices = [info.device.name if info.device else "no CUDA device" for info in infos]
    _require_alike("devices", devices)
    for before, info in itertools.pairwise(infos):
        if not _timed_against(info, before):
            _require_alike("problems", [before.task.problem, info.task.problem])
    rungs: list[Rung] = []
    for run, info in zip(runs, infos, strict=True):
        rungs.append(_rung(run, info, infos[: len(rungs)], rungs))
    return Ladder(SCHEMA_VERSION, tuple(rungs))


def _require_alike(what: str, values: Sequence[str]) -> None:
    if len(set(values)) > 1:
        raise GatesError(f"a ladder of different {what}: {', '.join(dict.fromkeys(values))}", hint="name runs of one kind")


def _timed_against(info: RunInfo, before: RunInfo) -> bool:
    return info.baseline is not None and info.baseline.digest == before.task.digest


def _rung(run: Path, info: RunInfo, earlier: Sequence[RunInfo], below: Sequence[Rung]) -> Rung:
    verdict: Verdict = read_record(Verdict, run, "verdict.json")
    evidence = load_evidence(run)
    performance = evidence.get("performance")
    p50 = performance.figures.get(performance.gated_mode, {}).get(CANDIDATE) if performance else None
    speed, note = None, ""
    ratios: tuple[float | None, float | None, float | None, float | None] = (None, None, None, None)
    limits, cumulative = info.task.limits.get("performance"), below[-1].cumulative if below else 1.0
    shape = thresholds(limits).first if limits else None
    if earlier:
        first, before = earlier[0], earlier[-1]
        if not _timed_against(info, before):
            note = _other_baseline(info, before)
        elif (speed := speed_of(evidence)) is None:
            note = "its run has no time for this pair"
        else:
            ratio, low, high = (1.0 + pct / 100.0 for pct in (speed.speedup_pct, speed.low_pct, speed.high_pct))
            ratios = (ratio, low, high, speed.confidence_pct)
        for what, own, of_first in (("timed", shape, below[0].shape), ("judged", info.task.problem, first.task.problem)):
            if own != of_first:
                note = note or f"{what} on {own}, {first.task.name} on {of_first}: its gain is not counted in the product"
                cumulative = None
        cumulative = cumulative * ratios[0] if cumulative is not None and ratios[0] is not None else None
    return Rung(
        info.task.name,
        info.task.title,
        run.name,
        verdict.decision,
        verdict.reason,
        info.device.name if info.device else None,
        shape,
        getattr(p50, "p50_us", None),
        *ratios,
        cumulative,
        note,
    )


def _other_baseline(info: RunInfo, before: RunInfo) -> str:
    if info.baseline is None:
        return "its run measured no baseline"
    if info.baseline.name == before.task.name:
        return f"its run measured another version of {info.baseline.name} than the run named here"
    return f"its run measured {info.baseline.name}, not {before.task.name}"
