"""Ladders of stages, found among the newest runs by following baselines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gates.review.history import Entry, newest


@dataclass(frozen=True)
class Step:
    """One stage. ``ratio`` is the gain over the stage before as its own run measured it; ``cumulative`` the product so far.

    Both are None where the run measured another version of the stage before, or no pair; ``cumulative`` also where it timed
    another shape or cache mode than the stage before did. ``note`` says so.
    """

    entry: Entry
    ratio: float | None
    cumulative: float | None
    note: str = ""


@dataclass(frozen=True)
class Chain:
    """The stages of one device from the first rung to a stage that is nobody's baseline."""

    device: str
    steps: tuple[Step, ...]


def ladders(entries: Sequence[Entry]) -> tuple[Chain, ...]:
    """All chains of two timed stages or more, from the newest run of each task and device."""
    chains = []
    for device in dict.fromkeys(entry.device for entry in entries if not entry.broken):
        timed = {entry.task: entry for entry in newest(entries) if entry.device == device and entry.p50_us is not None}
        tops = set(timed) - {entry.baseline for entry in timed.values()}
        for top in sorted(tops):
            line = _line(timed, top)
            if len(line) > 1:
                chains.append(Chain(device, _steps(line)))
    return tuple(chains)


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
