"""Evidence of the performance gate: every sample, and all that is needed to judge it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gates.core import records
from gates.core.errors import GatesError
from gates.gate.performance import codes
from gates.stats.calibration import Calibration
from gates.stats.estimators import Figures, figures
from gates.stats.outside import OutsideBlock
from gates.stats.samples import BASELINE, CANDIDATE, Series
from gates.stats.sampling import WarmUp
from gates.stats.stopping_rule import CONFIDENCE

SCHEMA_VERSION = 1
MEASURED, STOPPED, NOT_RUN = "measured", "stopped", "not_run"


@dataclass(frozen=True)
class TimedDevice:
    """The card the samples come from. Peaks are upper bounds of any data type, None where unknown."""

    name: str
    uuid: str
    compute_capability: str
    driver: str
    multiprocessors: int
    l2_bytes: int
    peak_bytes_per_s: float | None
    peak_flops_per_s: float | None
    max_sm_mhz: float | None = None  # None in runs that did not record it


@dataclass(frozen=True)
class OutputCheck:
    """Outputs of one side as timing left them, all sets together.

    ``when`` is ``before`` (one replay on poisoned outputs) or ``after`` (what the last timed launch
    left). ``against`` is ``reference`` or ``baseline``: a fresh launch of the baseline on the same inputs;
    two kernels may both be off by the limit, so there twice the limit is allowed (``allowance``).
    """

    when: str
    side: str
    against: str
    allowance: float
    sets: int
    unwritten_sets: int
    nonfinite: int
    max_abs_err: float | None
    mean_abs_err: float | None
    bad_pct: float | None


@dataclass(frozen=True)
class TimedInputs:
    """Where the input values came from: the problem's own generator, these seeds, this many sets in memory.

    ``digest`` is the sha256 of the first seed's inputs. ``refreshed``: values changed before every pair.
    """

    seeds: tuple[int, ...]
    sets: int
    set_bytes: int
    digest: str
    refreshed: bool


@dataclass(frozen=True)
class Work:
    """The least work of one launch; ``output_bytes`` may stay in the cache, the other bytes are read.

    ``operations``: by unit of ``gates.hardware.peaks``; empty if the problem gives their sum alone.
    """

    flops: float | None
    bytes: float | None
    output_bytes: int
    operations: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Peaks:
    """What ``gates calibrate`` measured of this card: bytes per second, and operations per SM and clock by unit."""

    driver: str
    sm_mhz: float | None
    bytes_per_s: float | None
    per_sm_clock: Mapping[str, float]


@dataclass(frozen=True)
class Backend:
    """Another implementation timed beside; ``p50_us`` is None where it did not run, ``message`` says why."""

    p50_us: float | None
    message: str


@dataclass(frozen=True)
class ShapeRow:
    """p50 of one implementation on one shape, cold and warm, in us; None if it was not timed, ``message`` says why."""

    cold_us: float | None
    warm_us: float | None
    message: str = ""


@dataclass(frozen=True)
class Alone:
    """The baseline in a process without the candidate, in the gated mode; without ``series``,
    ``message`` says why it could not be timed.
    """

    series: Series | None
    message: str


@dataclass(frozen=True)
class Span:
    """From when to when the timing's processes used the card, the baseline's alone included (UTC, ISO 8601)."""

    began: str
    ended: str

    @property
    def seconds(self) -> float:
        """How long that was; raises ValueError where a time can't be read."""
        return (datetime.fromisoformat(self.ended) - datetime.fromisoformat(self.began)).total_seconds()


@dataclass(frozen=True)
class PerformanceEvidence:
    """performance.json. Unless ``status`` is ``measured``, ``code`` and ``message`` say what happened."""

    task: str
    baseline: str | None
    shape: str
    status: str
    code: str = ""
    message: str = ""
    schema_version: int = SCHEMA_VERSION
    dimensions: Mapping[str, int] = field(default_factory=dict)
    bar_pct: float | None = None  # the threshold by which sampling stopped
    confidence: float = CONFIDENCE  # of the interval by which it stopped
    seed: int | None = None  # order of the pairs, and of the bootstrap
    device: TimedDevice | None = None
    torch_version: str = ""
    calibration: Calibration | None = None
    warm_up: WarmUp | None = None
    gated_mode: str = "cold"
    series: tuple[Series, ...] = ()  # one a cache mode
    control: Series | None = None  # A/A pairs, in the gated mode
    single: Series | None = None  # samples of one launch each, cold, event overhead included
    outside: tuple[OutsideBlock, ...] | None = None  # long blocks by the judge's own clock; None in runs that had no such clock
    alone: Alone | None = None  # the baseline without the candidate; None in runs that did not time it, and without a baseline
    functions: tuple[str, ...] = ()  # sides that are Python functions: their single launches hold the host's time as well
    figures: Mapping[str, Mapping[str, Figures]] = field(default_factory=dict)  # mode -> side
    outputs: tuple[OutputCheck, ...] = ()
    output_limits: Mapping[str, float] = field(default_factory=dict)
    inputs: TimedInputs | None = None
    work: Work | None = None
    backends: Mapping[str, Backend] = field(default_factory=dict)
    also: Mapping[str, Mapping[str, ShapeRow]] = field(default_factory=dict)  # in runs of earlier versions: shapes timed for context
    clock_source: str = "unknown"  # "nvml", or "unknown: why"
    other_processes: tuple[int, ...] | None = None  # None where the driver does not tell
    elapsed_s: float | None = None  # of the pairs that the verdict rests on
    process_s: float | None = None  # of the runner's process; of several shapes, the shape's part
    phase_s: Mapping[str, float] = field(default_factory=dict)  # of the measurement's parts; empty in runs of earlier versions
    span: Span | None = None  # None in runs of earlier versions
    build: str = ""  # the identity of the build that was judged; earlier runs do not name it
    baseline_build: str = ""  # and of the baseline's
    peaks: Peaks | None = None  # the card's calibrated peaks; None if it was not calibrated under this driver
    further: tuple[PerformanceEvidence, ...] = ()  # of the other timed shapes, each measured like the first

    def __post_init__(self) -> None:
        if self.schema_version != SCHEMA_VERSION:
            raise ValueError(f"schema_version is {self.schema_version}, this version of gates reads {SCHEMA_VERSION}")
        if self.status not in (MEASURED, STOPPED, NOT_RUN):
            raise ValueError(f"status is {self.status!r}")
        if (self.status == MEASURED) != (not self.code):
            raise ValueError("a reason code belongs to whatever was not measured, and to nothing else")
        if self.span is not None and self.span.seconds < 0.0:
            raise ValueError(f"the card was used from {self.span.began} to {self.span.ended}")
        for series in self.series:
            if lacking := {block.side for block in series.blocks} - series.launches.keys():
                raise ValueError(f"{series.mode}: blocks of {min(lacking)}, and no number of launches for it")
        shapes = [one.shape for one in self.every_shape()]
        if len(set(shapes)) < len(shapes) or any(one.further for one in self.further):
            raise ValueError(f"the timed shapes are {', '.join(shapes)}: one twice, or one within another")

    def every_shape(self) -> tuple[PerformanceEvidence, ...]:
        """The evidence of each timed shape, the first one's first."""
        return (self, *self.further)

    def rows(self) -> Mapping[str, Mapping[str, ShapeRow]]:
        """Every timed shape -> candidate, baseline and other implementations -> p50."""
        return {one.shape: one._rows() for one in self.every_shape()} | dict(self.also)

    def _rows(self) -> dict[str, ShapeRow]:
        sides = {side: None for figures in self.figures.values() for side in figures if side in (CANDIDATE, BASELINE)}
        p50 = {mode: {side: figures.p50_us for side, figures in self.figures.get(mode, {}).items()} for mode in ("cold", "warm")}
        return {side: ShapeRow(p50["cold"].get(side), p50["warm"].get(side)) for side in sides} | {
            name: ShapeRow(backend.p50_us, None, backend.message) for name, backend in self.backends.items()
        }

    def in_mode(self, mode: str) -> Series | None:
        """The series of a cache mode."""
        return next((series for series in self.series if series.mode == mode), None)


def not_run(task: str, baseline: str | None, shape: str, code: str, message: str) -> PerformanceEvidence:
    """Evidence that nothing was timed, with the reason (``performance.no_device``, …)."""
    return PerformanceEvidence(task=task, baseline=baseline, shape=shape, status=NOT_RUN, code=code, message=message)


def parse(raw: Mapping[str, Any]) -> PerformanceEvidence:
    """The evidence in what ``gates.gate.performance.collect.run_timing`` returned; nothing in it is trusted.

    Raises GatesError where the runner's record has another form.
    """
    head = {key: raw[key] for key in ("task", "baseline", "shape")}
    measured = raw["measured"]
    if measured is None:
        return PerformanceEvidence(
            **head,
            status=NOT_RUN if raw["code"] == codes.NO_DEVICE else STOPPED,
            code=raw["code"],
            message=raw["message"],
            process_s=raw["process_s"],
            span=records.from_json(Span, raw["span"], "timing result") if raw.get("span") else None,
        )
    if not isinstance(measured, dict):
        raise GatesError("timing result: expected an object")
    data = {
        **measured,
        **head,
        "backends": raw["backends"],
        "alone": raw.get("alone"),
        "process_s": raw["process_s"],
        "span": raw.get("span"),
        "status": MEASURED,
    }
    evidence = records.from_json(PerformanceEvidence, data, "timing result")
    return records.from_json(PerformanceEvidence, {**data, "figures": records.to_json(summaries(evidence))}, "timing result")


def summaries(evidence: PerformanceEvidence) -> dict[str, dict[str, Figures]]:
    """Figures by mode (``cold``, ``warm``, ``single``, ``control``) and side, from the samples."""
    result: dict[str, dict[str, Figures]] = {}
    for series in (*evidence.series, evidence.single, evidence.control):
        if series is None:
            continue
        sides = dict.fromkeys(block.side for block in series.blocks)
        found = {side: figures(series.samples(side)) for side in sides}
        result[series.mode] = {side: summary for side, summary in found.items() if summary is not None}
    return result
