"""sweep.json: what a sweep tries, what came of each variant, and who won. Written anew after every piece of work."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.core.records import GateResult, Status, to_json
from gates.evidence.packed_runs import opened
from gates.evidence.run_directory import Device, Git, read_record
from gates.gate.reasons import NOT_EMULATED

FILE = "sweep.json"


@dataclass(frozen=True)
class Found:
    """What a gate said of a variant; its evidence lies in the variant's folder."""

    status: Status
    code: str
    sentence: str

    @classmethod
    def of(cls, result: GateResult) -> Found:
        """The head of a gate's verdict."""
        return cls(result.status, result.code, result.sentence)


@dataclass(frozen=True)
class Resources:
    """What one kernel takes on one architecture; None where the compiler or the launch does not tell."""

    kernel: str
    arch: str
    registers: int | None
    smem_bytes: int | None  # static and dynamic together
    spill_bytes: int | None  # stored and loaded
    occupancy_pct: float | None


@dataclass(frozen=True)
class Variant:
    """One combination of toggles. A gate is None until it has been judged; ``dropped`` says why the variant left, else it is empty."""

    name: str
    toggles: Mapping[str, int]
    digest: str
    resources: tuple[Resources, ...] = ()
    ptxas: Found | None = None
    correctness: Found | None = None
    dropped: str = ""
    sass: Found | None = None  # the first sweeps did not ask


@dataclass(frozen=True)
class Timing:
    """A variant against the reference: ``ratio`` is reference / variant, with its 98.3 % interval; None where there is none.

    ``faster``: the interval's low end is above 1 and the machine was fit. ``code`` and ``sentence`` are the performance gate's.
    """

    variant: str
    faster: bool
    code: str
    sentence: str
    ratio: float | None
    low: float | None
    high: float | None
    p50_us: float | None
    reference_p50_us: float | None
    device_uuid: str
    wall_s: float
    limit_pct: float | None = None  # share of the card's limit that the variant reached


@dataclass(frozen=True)
class Round:
    """One round of halving: what was to be timed, for how long each, and what was."""

    budget_s: float
    variants: tuple[str, ...]
    timings: tuple[Timing, ...]


@dataclass(frozen=True)
class Sweep:
    """A sweep over toggles of a task (times in UTC, ISO 8601)."""

    schema_version: int
    tool_version: str
    id: str
    task: str
    task_digest: str  # of the task as it stands
    params: Mapping[str, tuple[int, ...]]
    incumbent: str  # the variant that the task is as it stands
    reference: str  # what was timed against: the incumbent, or the first variant left where that was dropped
    shapes: tuple[str, ...]
    seed: int
    timed_shape: str
    cache: str
    archs: tuple[str, ...]
    git: Git
    toolchain: Mapping[str, str | None]
    devices: tuple[Device, ...]
    platform: str
    variants: tuple[Variant, ...]
    rounds: tuple[Round, ...]
    ranking: str  # "timed", or why it was not run; empty while it is not over
    winner: str | None
    winner_reason: str
    run: str | None  # the winner's own run, below the results folder
    decision: str | None
    started: str
    ended: str

    def variant(self, name: str) -> Variant:
        """The variant of that name."""
        return next(variant for variant in self.variants if variant.name == name)

    def spoken_of(self) -> set[str]:
        """The names by which it tells of variants."""
        entered = {name for part in self.rounds for name in (*part.variants, *(timing.variant for timing in part.timings))}
        return entered | {self.incumbent, self.reference, self.winner or self.incumbent}

    def left(self) -> list[Variant]:
        """The variants that were not dropped."""
        return [variant for variant in self.variants if not variant.dropped]


def dropped_by_gates(variant: Variant, *, on_device: bool) -> str:
    """Why its gates drop the variant; empty where they do not. Without a device, numbers that the emulator can't tell are no reason."""
    failed = [found.sentence for found in (variant.ptxas, variant.sass) if found is not None and found.status is Status.FAIL]
    numbers = variant.correctness
    if numbers is not None and numbers.status is not Status.PASS and (on_device or numbers.code != NOT_EMULATED.of("correctness")):
        failed.append(numbers.sentence)
    return "; ".join(failed)


def sweep_id(parts: Mapping[str, Any]) -> str:
    """The same for the same task, parameters, compiler and kind of device: so the same command finds its folder again."""
    return hashlib.sha256(json.dumps(to_json(parts), sort_keys=True).encode()).hexdigest()[:12]


def read_sweep(folder: Path) -> Sweep:
    """The sweep in ``folder``, or in a packed file; raises GatesError where there is none or it can't be read."""
    folder = opened(folder)
    if not (folder / FILE).is_file():
        raise GatesError(f"no sweep in {folder}", hint="`gates sweep` writes one under results/sweeps/; the same command continues it")
    return read_record(Sweep, folder, FILE)


def write_sweep(folder: Path, sweep: Sweep) -> None:
    """Put ``sweep`` in place whole."""
    jsonio.write(folder / FILE, to_json(sweep))
