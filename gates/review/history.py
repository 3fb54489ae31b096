"""Every run under a results folder in one table: times, speed-up and decision, by task and device.

Made for folders of a thousand runs: of each, run.json and verdict.json are read and a few keys of
performance.json, and nothing is checked beyond what the table shows. It tells what the runs recorded;
``gates verify`` tells whether to believe one. A run that can't be read is listed with the reason.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from gates.core.errors import GatesError
from gates.core.jsonio import MAX_BYTES
from gates.core.records import Decision
from gates.evidence.packed_runs import SUFFIX, is_run, opened, origin
from gates.evidence.run_directory import SCHEMA_VERSION, task_name
from gates.gate.performance.evidence import MEASURED
from gates.stats.samples import BASELINE, CANDIDATE, MAX_US
from gates.task.load import called, nearest

NO_DEVICE = "cpu"
_DECISIONS = tuple(decision.value for decision in Decision)
_SPEEDUP = re.compile(r'"name":\s*"speedup_p50",[^{}]{0,100}?"observed":\s*(-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)')
_SHARE = re.compile(_SPEEDUP.pattern.replace("speedup_p50", "share_of_limit"))
_DEEPEST = 6  # folders below the results folder; recorded runs lie at four


@dataclass(frozen=True)
class Entry:
    """What one run recorded. None: it has no such figure. ``broken`` says why it can't be read, else it is empty.

    ``speedup_pct`` is the performance gate's, (baseline / candidate - 1) * 100 from interleaved pairs;
    p50 and p90 are of the cache mode that was gated.
    """

    path: str
    task: str
    device: str
    started: str = ""  # UTC, ISO 8601
    decision: str = ""
    p50_us: float | None = None
    p90_us: float | None = None
    baseline_p50_us: float | None = None
    speedup_pct: float | None = None
    limit_pct: float | None = None  # share of the card's limit that it reached
    shape: str = ""
    cache: str = ""
    title: str = ""
    digest: str = ""
    baseline: str | None = None
    baseline_digest: str | None = None
    overridden: tuple[str, ...] = ()  # names of what was set from outside: toggles, shapes, seeds, inputs
    broken: str = ""

    @property
    def time(self) -> datetime:
        """When the run started; only for an entry that is not broken."""
        return _time(self.started)


class _Broken(Exception):
    """Why a run can't be read."""


def history(results: Path, task: str | None = None) -> tuple[Entry, ...]:
    """All runs under ``results``, by task and device, the newest last; with ``task`` its runs alone.

    ``task`` is a name or a folder, or if no run is of it, the beginning of names up to an underscore. Raises GatesError if there is none.
    """
    if not results.is_dir():
        raise GatesError(f"no results folder {results}", hint="`gates run TASK` makes one; --results names another")
    entries = in_order(entry_of(run) for run in find_runs(results))
    if not entries:
        raise GatesError(f"no run found under {results}", hint="`gates run TASK` writes one; --results names another folder")
    if task is None:
        return entries
    task = task_name(task)
    meant = called(task, {entry.task for entry in entries})
    chosen = tuple(entry for entry in entries if entry.task in meant)
    if not chosen:
        raise GatesError(f"no run of {task!r} under {results}", hint=nearest(task, sorted({entry.task for entry in entries})))
    return chosen


def history_or_none(results: Path) -> tuple[Entry, ...]:
    """All runs under ``results``; none is no error where runs were named by path."""
    try:
        return history(results)
    except GatesError:
        return ()


def in_order(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """By task and device, the newest last; a broken run stands where its name puts it."""
    return tuple(sorted(entries, key=lambda entry: (entry.task, entry.device, entry.started, entry.path)))


def newest(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The newest readable run of each task and device."""
    return tuple({(entry.task, entry.device): entry for entry in entries if not entry.broken}.values())


def find_runs(results: Path) -> Iterator[Path]:
    """Folders that hold a run, whole or broken, and packed runs; hidden ones (runs being written) and links are left alone."""
    top = len(results.parts)
    for folder, below, files in os.walk(results):
        path = Path(folder)
        if "evaluation.json" in files:  # a candidate's, which no one decided on
            below.clear()
            continue
        if "run.json" in files or "verdict.json" in files or "manifest.json" in files:
            below.clear()
            yield path
            continue
        yield from (path / name for name in sorted(files) if is_run(path / name) and name.removesuffix(SUFFIX) not in below)
        if len(path.parts) - top >= _DEEPEST:
            below.clear()
        else:
            below[:] = sorted(name for name in below if not name.startswith("."))


def entry_of(run: Path) -> Entry:
    """The entry of one run directory or packed run; never raises for what its files hold."""
    place = origin(run)
    found: dict[str, Any] = {"path": str(place), "task": place.parent.name, "device": ""}
    try:
        run = opened(run)
        _describe(found, run)
        _decide(found, run)
        _time_of(found, run)
    except _Broken as reason:
        found["broken"] = str(reason)
    except GatesError as error:  # of a packed run
        found["broken"] = error.what
    return Entry(**found)


def _describe(found: dict[str, Any], run: Path) -> None:
    info = _parsed(_read(run / "run.json"), "run.json")
    if not isinstance(info, dict):
        raise _Broken("run.json holds no object")
    _require_version(info, "run.json")
    task, device = _object(info, "task"), info.get("device")
    found.update(task=_text(task, "name"), title=_text(task, "title"), digest=_text(task, "digest"))
    if isinstance(task.get("overrides"), dict):
        found["overridden"] = tuple(sorted([*task["overrides"], *(["nvcc -G"] if task.get("debug_build") is True else [])]))
    if info.get("baseline") is not None:
        baseline = _object(info, "baseline")
        found.update(baseline=_text(baseline, "name"), baseline_digest=_text(baseline, "digest"))
    found["device"] = NO_DEVICE if device is None else _text(_object(info, "device"), "name")
    started = _text(info, "started")
    try:
        found["started"] = _time(started).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        raise _Broken(f"run.json: started {_brief(started)} is no time") from None


def _decide(found: dict[str, Any], run: Path) -> None:
    """The decision, and the ratio of the interleaved pairs as the performance gate saw it, whatever it concluded."""
    text = _read(run / "verdict.json")
    verdict = _top_level(text, "verdict.json", ("schema_version", "decision"))
    _require_version(verdict, "verdict.json")
    decision = verdict.get("decision")
    if decision not in _DECISIONS:
        raise _Broken(f"verdict.json: decision {_brief(decision)} is not one of {', '.join(_DECISIONS)}")
    found["decision"] = decision
    seen = _SPEEDUP.search(text)  # quotes within a text are escaped, so these are keys and their values
    if seen is not None:
        found["speedup_pct"] = _figure(float(seen[1]))
    if (share := _SHARE.search(text)) is not None:
        found["limit_pct"] = _figure(float(share[1]))


def _time_of(found: dict[str, Any], run: Path) -> None:
    """The figures of performance.json, if the run has one that measured."""
    path = run / "performance.json"
    if not path.exists():
        return
    keys = _top_level(_read(path), "performance.json", ("status", "shape", "gated_mode", "figures"))
    if keys.get("status") != MEASURED:
        return
    mode = str(keys.get("gated_mode", "cold"))
    sides = _object(_object(keys, "figures"), mode)
    ours, theirs = _object(sides, CANDIDATE), sides.get(BASELINE)
    found.update(
        shape=_text(keys, "shape"),
        cache=mode,
        p50_us=_us(ours, "p50_us"),
        p90_us=None if ours.get("p90_us", 0) is None else _us(ours, "p90_us"),
    )
    if theirs is not None:
        found["baseline_p50_us"] = _us(_object(sides, BASELINE), "p50_us")


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            raise _Broken(f"no {path.name}")
        if path.stat().st_size > MAX_BYTES:
            raise _Broken(f"{path.name} is larger than {MAX_BYTES // 2**20} MiB")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise _Broken(f"{path.name} is not UTF-8 text") from None
    except OSError as error:
        raise _Broken(f"can't read {path.name}: {error.strerror}") from None


def _require_version(data: Mapping[str, Any], name: str) -> None:
    version = data.get("schema_version")
    if type(version) is int and version > SCHEMA_VERSION:
        raise _Broken(f"{name}: schema version {version} is newer than this tool knows")


def _parsed(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise _Broken(f"{name} is not valid JSON at line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise _Broken(f"{name} is not readable as JSON: {type(error).__name__}") from None


def _top_level(text: str, name: str, keys: Sequence[str]) -> dict[str, Any]:
    """The values of ``keys``, without parsing the samples between them where gates wrote the file.

    In the layout that ``gates.core.jsonio`` writes, a line that starts with one space and a quote is a
    key of the outermost object: JSON text holds no line break. Any other layout is parsed whole.
    """
    decoder, found = json.JSONDecoder(), {}
    if not text.rstrip().endswith("}"):
        raise _Broken(f"{name} is cut short")
    for key in keys:
        start = text.find(f'\n "{key}": ') if text.startswith("{\n ") else -1
        if start < 0:
            data = _parsed(text, name)
            return data if isinstance(data, dict) else {}
        try:
            found[key] = decoder.raw_decode(text, start + len(key) + 6)[0]
        except (ValueError, RecursionError):
            raise _Broken(f"{name}: {key} is not readable as JSON") from None
    return found


def _object(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    if not isinstance(value, dict):
        raise _Broken(f"{key} is missing or no object")
    return value


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str):
        raise _Broken(f"{key} is missing or no text")
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        raise _Broken(f"{key} is not Unicode text (a lone surrogate)")
    return value


def _figure(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _us(figures: Mapping[str, Any], key: str) -> float:
    value = figures.get(key)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not (math.isfinite(value) and 0.0 < value < MAX_US):
        raise _Broken(f"performance.json: {key} {_brief(value)} is no time")
    return float(value)


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (time if time.tzinfo else time.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)


def _brief(value: Any) -> str:
    return f"{value!r:.40}"
