"""evolution.json: what a search tried, from what, what came of it, and who won. Written again after every piece of work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.core.records import to_json
from gates.evidence.run_directory import Device, read_record
from gates.sweep.record import Timing

SCHEMA_VERSION = 1
FILE = "evolution.json"
STRATEGIES = ("greedy", "beam", "map-elites")


@dataclass(frozen=True)
class Member:
    """A candidate of the search; ``status`` is empty until it was evaluated.

    Its texts are in ``candidates/<id>/``, its evaluation is in ``evaluations/<task>/<id>/``; the fields from ``status`` on are that
    evaluation's.
    """

    id: str
    generation: int
    proposer: str
    name: str
    note: str
    parent: str | None
    files: Mapping[str, str]  # path -> sha256 of the text
    toggles: Mapping[str, int]
    status: str = ""
    code: str = ""
    stage: str = ""
    valid: bool = False
    score: float | None = None
    score_high: float | None = None
    metrics: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Refused:
    """A proposal that is not a candidate, and why."""

    proposer: str
    name: str
    why: str


@dataclass(frozen=True)
class Generation:
    """``parents``: what proposals were made from, the best first; ``timings``: elites timed again after the new members."""

    number: int
    parents: tuple[str, ...]
    members: tuple[str, ...]
    refused: tuple[Refused, ...] = ()
    timings: tuple[Timing, ...] = ()
    best: str | None = None  # of all members so far; None while the generation is under way
    best_score: float | None = None
    spent_s: float = 0.0  # of the search up to here


@dataclass(frozen=True)
class Evolution:
    """A search (times in UTC, ISO 8601). ``stage``: the last check of each evaluation. ``stopped``: why it ended."""

    schema_version: int
    tool_version: str
    id: str
    task: str
    task_digest: str
    proposers: tuple[str, ...]
    strategy: str
    population: int
    elite: int
    seed: int
    stage: str
    against: str
    timed_shape: str
    cache: str
    devices: tuple[Device, ...]
    platform: str
    members: tuple[Member, ...]
    generations: tuple[Generation, ...]
    stopped: str
    champion: str | None
    run: str | None  # the champion's own run, below the results folder
    decision: str | None
    started: str
    ended: str

    def member(self, name: str) -> Member:
        """The member of that id."""
        return next(one for one in self.members if one.id == name)

    def judged(self, before: int | None = None) -> list[Member]:
        """The members that were evaluated, of all generations or of those before ``before``."""
        return [one for one in self.members if one.status and (before is None or one.generation < before)]


def read_evolution(folder: Path) -> Evolution:
    """The search in ``folder``; raises GatesError if there is none or it can't be read."""
    if not (folder / FILE).is_file():
        raise GatesError(f"no search in {folder}", hint="`gates evolve` writes one under results/evolve/; the same command continues it")
    found: Evolution = read_record(Evolution, folder, FILE)
    return found


def write_evolution(folder: Path, found: Evolution) -> None:
    """Put the record in place whole."""
    jsonio.write(folder / FILE, to_json(found))
