"""Ladders of stages, found among the newest runs of each folder by following baselines."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gates.review.history import Entry, newest


@dataclass(frozen=True)
class Step:
    """One stage. ``ratio`` is the gain over the stage before as its own run measured it; ``cumulative`` the product so far.

    Both are None where the run measured another version of the stage before, or no pair; ``cumulative`` also where it timed
    another shape or cache mode than the stage before did. ``note`` says so. ``runs`` of the very stage are in the folder, and their p50
    span ``spread_pct`` of the middle one; None for a single run.
    """

    entry: Entry
    ratio: float | None
    cumulative: float | None
    note: str = ""
    runs: int = 1
    spread_pct: float | None = None


@dataclass(frozen=True)
class Chain:
    """The stages of one device and folder of results, from the first rung to a stage that is nobody's baseline."""

    device: str
    folder: str
    steps: tuple[Step, ...]

    @property
    def place(self) -> str:
        """The end of the folder's path."""
        return "/".join(Path(self.folder).parts[-2:])


def ladders(entries: Sequence[Entry]) -> tuple[Chain, ...]:
    """All chains of two timed stages or more, from the newest run of each task in each folder and on each device."""
    chains = []
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if not entry.broken:
            groups.setdefault((entry.device, str(Path(entry.path).parent.parent)), []).append(entry)
    for (device, folder), mine in groups.items():
        timed = {entry.task: entry for entry in newest(mine) if entry.p50_us is not None}
        tops = set(timed) - {entry.baseline for entry in timed.values()}
        lines = [line for top in sorted(tops) if len(line := _line(timed, top)) > 1]
        chains += [Chain(device, folder, tuple(_with_spread(step, mine) for step in _steps(line))) for line in lines]
    return tuple(chains)


def _with_spread(step: Step, entries: Sequence[Entry]) -> Step:
    """The step with the run-to-run spread of the runs that timed the same thing as its own."""
    mine = step.entry
    same = [
        one.p50_us
        for one in entries
        if one.p50_us is not None
        and (one.task, one.digest, one.shape, one.cache, one.overridden)
        == (mine.task, mine.digest, mine.shape, mine.cache, mine.overridden)
    ]
    spread = 100.0 * (max(same) - min(same)) / statistics.median(same) if len(same) > 1 else None
    return replace(step, runs=len(same), spread_pct=spread)


def _line(timed: dict[str, Entry], top: str) -> list[Entry]:
    """From the first stage up to ``top``; ends at a baseline without a run, or one that was passed before."""
    line: list[Entry] = []
    name: str | None = top
    while name in timed and timed[name] not in line:
        line.append(timed[name])
        name = timed[name].baseline
    return line[::-1]


def _steps(line: Sequence[Entry]) -> tuple[Step, ...]:
    steps = [Step(line[0], None, 1.0)]
    for before, entry in zip(line, line[1:], strict=False):
        same = entry.baseline_digest == before.digest
        ratio = 1.0 + entry.speedup_pct / 100.0 if same and entry.speedup_pct is not None else None
        note = "" if ratio is not None else "no pair was timed" if same else f"its run measured another version of {before.task}"
        sofar = steps[-1].cumulative
        if (entry.shape, entry.cache) != (before.shape, before.cache):
            note, sofar = note or f"timed on {entry.shape}, {entry.cache} L2; {before.task} on {before.shape}, {before.cache} L2", None
        steps.append(Step(entry, ratio, sofar * ratio if sofar is not None and ratio is not None else None, note))
    return tuple(steps)
