"""Evidence of the ncu gate: hardware counters of candidate and baseline, each value or why it is absent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.core.last_words import complaint
from gates.gate.ncu import codes
from gates.gate.ncu.report import Row, read_csv, read_report, select
from gates.hardware.ncu_metrics import METRICS

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Counter:
    """One logical metric of one kernel; ``value`` is None for the ``reason``. ``source`` is ncu's name of it."""

    metric: str
    value: float | None
    unit: str
    source: str
    reason: str = ""

    def __post_init__(self) -> None:
        if (self.value is None) != bool(self.reason):
            raise ValueError(f"counter {self.metric}: a reason belongs to an absent value, and to no other")


@dataclass(frozen=True)
class ProfiledKernel:
    """A launch that was profiled: its full name, which launch it was, and its counters."""

    kernel: str
    launch: int
    counters: tuple[Counter, ...]


@dataclass(frozen=True)
class ProfiledSide:
    """One side. Where ``code`` is set nothing could be profiled, and ``message`` says why.

    ``launches`` lists every launch in the report, also those that are not the task's.
    """

    name: str
    kernels: tuple[ProfiledKernel, ...] = ()
    launches: tuple[str, ...] = ()
    code: str = ""
    message: str = ""

    def __post_init__(self) -> None:
        if bool(self.code) == bool(self.kernels):
            raise ValueError("a side has kernels, or a code that says why not")


@dataclass(frozen=True)
class NcuEvidence:
    """ncu.json. ``code`` is set where no side was tried."""

    task: str
    baseline: str | None
    shape: str
    chip: str
    schema_version: int = SCHEMA_VERSION
    version: str = ""
    clock_control: str = "none"
    cache_control: str = "all"
    code: str = ""
    message: str = ""
    sides: Mapping[str, ProfiledSide] = field(default_factory=dict)  # candidate, baseline
    build: str = ""  # the identity of the build that was judged; earlier runs do not name it
    baseline_build: str = ""  # and of the baseline's

    def __post_init__(self) -> None:
        if self.schema_version != SCHEMA_VERSION:
            raise ValueError(f"schema_version is {self.schema_version}, this version of gates reads {SCHEMA_VERSION}")
        if not self.code and "candidate" not in self.sides:
            raise ValueError("nothing profiled and no reason code")


# What ncu prints -> (reason code). The order matters: the first that is found decides.
_SAYINGS = (
    ("ERR_NVGPUCTRPERM", codes.NO_PERMISSION),
    ("driver resource was unavailable", codes.COUNTERS_TAKEN),
    ("Failed to access the following", codes.METRICS_INACCESSIBLE),
    ("No kernels were profiled", codes.NO_KERNEL),
)


def not_run(task: str, baseline: str | None, shape: str, code: str, message: str) -> NcuEvidence:
    """Evidence that nothing was profiled, with the reason (``ncu.no_device``, …)."""
    return NcuEvidence(task=task, baseline=baseline, shape=shape, chip="", code=code, message=message)


def parse(raw: Mapping[str, Any], library: Any = None) -> NcuEvidence:
    """The evidence in what ``gates.gate.ncu.collect.run_ncu`` returned; ``library`` replaces ncu_report in tests."""
    sides = {role: _side(side, library) for role, side in raw["sides"].items()}
    return NcuEvidence(
        task=raw["task"],
        baseline=raw["baseline"],
        shape=raw["shape"],
        chip=raw["chip"],
        version=raw["version"],
        code=raw["code"],
        message=raw["message"],
        sides=sides,
    )


def _side(raw: Mapping[str, Any], library: Any) -> ProfiledSide:
    name, log = str(raw["name"]), str(raw["log"])
    code, message = _failure(raw, log)
    if code:
        return ProfiledSide(name, code=code, message=message)
    metrics = list(raw["sources"].values())
    try:
        rows = read_csv(raw["csv"], metrics) if raw["csv"] is not None else read_report(Path(raw["report"]), metrics, library)
    except GatesError as error:
        return ProfiledSide(name, code=codes.UNREADABLE, message=error.what)
    listed = tuple(f"{row.kernel} #{row.number}" for row in rows)
    if not rows:
        return ProfiledSide(name, launches=listed, code=codes.NO_KERNEL, message="the report holds no kernel")
    kernels = []
    for kernel in raw["kernels"]:
        try:
            row = select(rows, kernel)
        except GatesError as error:
            code = codes.AMBIGUOUS_KERNEL if "match" in error.what else codes.NO_KERNEL
            return ProfiledSide(name, launches=listed, code=code, message=error.what)
        kernels.append(ProfiledKernel(row.kernel, row.number, _counters(row, raw["sources"], raw["unknown"])))
    return ProfiledSide(name, tuple(kernels), listed)


def _failure(raw: Mapping[str, Any], log: str) -> tuple[str, str]:
    """(code, message) where there is nothing to read, or where the kernel was not launched."""
    tried = raw["job"]
    for words, code in _SAYINGS:
        if words in log and (code == codes.NO_PERMISSION or raw["report"] is None):
            return code, _line_with(log, words)
    if tried["timed_out"]:
        return codes.TIME_LIMIT, f"ncu was {tried['cause']}"
    if tried["returncode"] != 0 and not jsonio.carrying(
        tried["nonce"], tried["lines"]
    ):  # the program writes one before it loads the kernel
        return codes.FAILED, f"ncu ended before the profiled program began ({tried['cause']}): {_last_words(log)}"
    if not _launched(tried):
        return codes.NOT_LAUNCHED, f"the profiled program gave no proof that it launched the kernel ({tried['cause']}): {_last_words(log)}"
    if raw["report"] is None and raw["csv"] is None:
        return codes.FAILED, f"ncu left no report ({tried['cause']}): {_last_words(log)}"
    return "", ""


def _launched(tried: Mapping[str, Any]) -> bool:
    """The replay's own proof: a line that counts at least one launch without error."""
    case = next((line for line in jsonio.carrying(tried["nonce"], tried["lines"]) if line.get("type") == "case"), {})
    return isinstance(case.get("launches"), int) and case["launches"] > 0 and not case.get("error")


def _counters(row: Row, sources: Mapping[str, str], unknown: Sequence[str]) -> tuple[Counter, ...]:
    found: dict[str, Counter] = {}
    for metric, source in sources.items():
        if metric in unknown:
            found[metric] = Counter(metric, None, METRICS[metric].unit, source, "ncu does not know this metric")
        else:
            seen = row.cells[source]
            found[metric] = Counter(metric, seen.value, seen.unit or METRICS[metric].unit, source, seen.reason)
    for metric, entry in METRICS.items():
        if metric not in found and entry.parts is None:
            found[metric] = Counter(metric, None, entry.unit, "", "this chip has no such metric")
    return tuple(found[metric] for metric in METRICS if metric in found)


def _line_with(text: str, words: str) -> str:
    return next((line.strip() for line in text.splitlines() if words in line), words)


def _last_words(log: str) -> str:
    errors = [line.strip() for line in log.splitlines() if "==ERROR==" in line]
    return errors[-1] if errors else complaint(log) or "it printed nothing"
