"""Profile candidate and baseline with Nsight Compute; the engine's side, which never imports torch.

The profiled program replays a case from a file without torch, so that the only kernels in it are
the task's own; the capture window is open around one launch. ncu and the program start while the device is another's, and wait
for their turn: first for the device, then, with a context made, for the kernel of the other side to end. Speed is never read from here:
the profiler replays the kernel and flushes caches.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gates.core.errors import GatesError
from gates.gate.ncu import codes
from gates.hardware import ncu_metrics
from gates.hardware.chips import CHIPS
from gates.launch.replay import write_cases
from gates.worker import process
from gates.worker.job import run_job
from gates.worker.turn import Turn

MAX_LAUNCHES = 16  # more than one launch of a stage has kernels
_WARM_UP = 1
_ATTEMPTS = 4
_READY_S, _POLL_S = 20.0, 0.01  # a context takes a second
_MISSING = re.compile(r"Failed to find metric[s:]*\s+(.+)", re.IGNORECASE)
_METRIC = re.compile(r"[a-z]+__[a-z0-9_.]+")


def run_ncu(
    candidate: Mapping[str, Any],
    kernels: Sequence[str],
    *,
    shape: str,
    chip: str,
    work: Path,
    limit_s: float,
    baseline: Mapping[str, Any] | None = None,
    baseline_kernels: Sequence[str] = (),
    ncu: str | None = None,
    device: str = "cuda:0",
    seed: int = 0,
    turn: Turn | None = None,
    python: str = sys.executable,
) -> dict[str, Any]:
    """Raw record of both sides' profiles, for ``gates.gate.ncu.evidence.parse``.

    ``kernels`` are the exact base names to profile, ``chip`` the device (``sm_90``), ``ncu`` the tool's path
    (None: look in PATH), ``limit_s`` the time for one profiled process, ``turn`` what the first of them waits for. Reports are kept as
    ``profile.ncu-rep`` and ``baseline.ncu-rep`` in ``work``.
    """
    tool = ncu or shutil.which("ncu")
    raw: dict[str, Any] = {
        "task": candidate["name"],
        "baseline": baseline["name"] if baseline else None,
        "shape": shape,
        "chip": chip,
        "version": "",
        "code": "",
        "message": "",
        "sides": {},
    }
    if tool is None:
        return {**raw, "code": codes.NO_TOOL, "message": "ncu is not found"}
    if chip not in ncu_metrics.CHIPS:
        row, known = CHIPS.get(chip), ", ".join(ncu_metrics.CHIPS)
        why = f", {row.no_counters}" if row else ""
        return {**raw, "code": codes.UNKNOWN_CHIP, "message": f"no metric names for {chip}{why}; known are {known}"}
    work.mkdir(parents=True, exist_ok=True)
    asked = [(candidate, kernels, "candidate", "profile")]
    asked += [(baseline, baseline_kernels, "baseline", "baseline")] if baseline is not None else []
    written = dict[Any, list[dict[str, Any]]]()  # sides that are called with the same arguments share a case
    with process.ToolThreads(1 + len(asked)) as aside, contextlib.ExitStack() as waiting:
        version = aside.submit(tool_version, tool)
        for side, _, role, _ in asked:
            if _called(side) not in written:
                written[_called(side)] = write_cases(side, [shape], work=work / role, limit_s=limit_s, seed=seed, python=python)
        raw["version"] = version.result()
        sources = ncu_metrics.sources(chip, ncu_metrics.version_numbers(raw["version"]))

        begun, turns, read = dict[str, Future[dict[str, Any]]](), dict[str, Turn](), dict[str, Future[str | None]]()
        for side, names, role, name in asked:
            turns[role] = waiting.enter_context(Turn(work / f"{name}.turn"))
            how = _How(tool, work, limit_s, device, python, turn, turns[role])
            begun[role] = aside.submit(_profile, side, names, written[_called(side)], sources, name, how)
        _await(turn, [(turns[role], done) for role, done in begun.items()], min(_READY_S, limit_s))
        for role, done in begun.items():
            turns[role].come()
            raw["sides"][role] = done.result()
            read[role] = aside.submit(_export, tool, raw["sides"][role]["report"])
        for role, text in read.items():
            raw["sides"][role]["csv"] = text.result()
    return raw


def _await(turn: Turn | None, begun: Sequence[tuple[Turn, Future[Any]]], most_s: float) -> None:
    """Wait until every program has its context or has ended, at most ``most_s`` from ``turn`` on.

    A context made later would show in another program's counters.
    """
    began = time.monotonic()
    while len(begun) > 1 and not all(own.is_awaited or done.done() for own, done in begun):
        if time.monotonic() - (turn.since(began) if turn else began) > most_s:
            return
        time.sleep(_POLL_S)


def _called(side: Mapping[str, Any]) -> Any:
    return side["problem"], tuple(side.get("arguments") or ())


def arguments(tool: str, kernels: Sequence[str], metrics: Sequence[str], report: Path, log: Path) -> list[str]:
    """ncu's arguments up to the profiled program; ``report`` without its ``.ncu-rep``.

    ``--clock-control none`` leaves the clocks alone: locking them needs rights and disturbs others.
    """
    several = "regex:^(" + "|".join(re.escape(kernel) for kernel in kernels) + ")$"
    name = kernels[0] if len(kernels) == 1 else several
    return [
        tool,
        "--clock-control",
        "none",
        "--cache-control",
        "all",
        "--replay-mode",
        "kernel",
        "--target-processes",
        "all",
        "--profile-from-start",
        "off",
        "--kernel-name-base",
        "function",
        "--kernel-name",
        name,
        "--launch-count",
        str(MAX_LAUNCHES),
        "--metrics",
        ",".join(metrics),
        "--log-file",
        str(log),
        "-f",
        "-o",
        str(report),
    ]


def tool_version(tool: str) -> str:
    """What ``ncu --version`` says, e.g. ``2025.3.1.0``; empty where it does not answer."""
    try:
        finished = process.run([tool, "--version"], limit_s=30)
    except GatesError:
        return ""
    found = re.search(r"Version\s+([0-9.]+)", finished.output)
    return found.group(1) if found else ""


@dataclass(frozen=True)
class _How:
    """The settings that the profiles of a run share, and the turns they wait for: ``free`` for the device, ``own`` for the kernel."""

    tool: str
    work: Path
    limit_s: float
    device: str
    python: str
    free: Turn | None
    own: Turn


def _profile(
    side: Mapping[str, Any],
    kernels: Sequence[str],
    cases: Sequence[Mapping[str, Any]],
    sources: Mapping[str, str],
    name: str,
    how: _How,
) -> dict[str, Any]:
    """Profile one side; a metric that ncu does not know is left out and the rest asked for again."""
    report, log = how.work / f"{name}.ncu-rep", how.work / f"{name}.ncu-messages.txt"
    dropped: dict[str, str] = {}
    job = {
        "kind": "case",
        "mode": "replay",
        "side": dict(side),
        "paths": [case["path"] for case in cases],
        "launches": 1,
        "warmup": _WARM_UP,
        "profile": True,
        "device": how.device,
        **({"device_turn": str(how.free.path)} if how.free else {}),
    }
    for _ in range(_ATTEMPTS):
        for old in (report, log):
            old.unlink(missing_ok=True)
        tried = run_job(
            Path(side["folder"]),
            job,
            how.work,
            limit_s=how.limit_s,
            name=f"{name}.ncu",
            python=how.python,
            prefix=arguments(how.tool, kernels, list(sources.values()), how.work / name, log),
            env={**os.environ, "LC_ALL": "C"},
            turn=how.own,
        )
        text = (log.read_text(encoding="utf-8", errors="replace") if log.is_file() else "") + "\n" + tried.output_tail
        missing = missing_metrics(text) & set(sources.values())
        if not missing or len(missing) == len(sources):
            break
        dropped.update({logical: source for logical, source in sources.items() if source in missing})
        if report.is_file():
            break
        sources = {logical: source for logical, source in sources.items() if source not in missing}
    return {
        "name": side["name"],
        "kernels": list(kernels),
        "sources": {**sources, **dropped},
        "unknown": sorted(dropped),
        "report": str(report) if report.is_file() else None,
        "log": text[-20_000:],
        "job": tried.record(),
    }


def missing_metrics(text: str) -> set[str]:
    """The metric names that ncu said it does not know."""
    return {name.rstrip(".") for match in _MISSING.finditer(text) for name in _METRIC.findall(match.group(1))}


def _export(tool: str, report: str | None) -> str | None:
    """The report as CSV, where the report reader (ncu-report) is not installed here."""
    if report is None or importlib.util.find_spec("ncu_report") is not None:
        return None
    finished = process.run(
        [tool, "--import", report, "--csv", "--page", "raw", "--print-units", "base"],
        limit_s=120,
        env={**os.environ, "LC_ALL": "C"},
        whole=True,
    )
    return None if finished.flooded else finished.output
