"""The ncu gate's step in a run: hardware counters of candidate and baseline, on the device."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gates.core.records import GateResult
from gates.gate.ncu import evidence
from gates.gate.ncu.collect import run_ncu
from gates.gate.session import Session
from gates.worker.turn import Turn

_CORES_BESIDE = 8  # the clock's process and the one with the kernels must not wait for a core


def ahead(session: Session) -> Callable[[], dict[str, Any]] | None:
    """Return what starts the profilers while a correct kernel is timed. Their programs do not touch the device yet."""
    if session.emulated or session.cores < _CORES_BESIDE or (session.missing("ncu", "device") or session.after_correctness("ncu")):
        return None
    turn = session.turn("ncu")
    return lambda: _profiled(session, turn)


def collect(session: Session) -> GateResult | None:
    """Write ncu.json and keep ncu's reports; the verdict where nothing could be profiled."""
    if (missing := session.without_device("ncu") or session.missing("ncu", "device") or session.after_correctness("ncu")) is not None:
        return missing
    task = session.task
    session.progress.step(f"{task.name}: hardware counters", task.time_limit_s)
    raw = session.begun("ncu", lambda: _profiled(session, None))
    session.write_evidence("ncu.json", evidence.parse(raw), task)
    for report, name in (("profile", "profile.ncu-rep"), ("baseline", "baseline/profile.ncu-rep")):
        if (kept := _work(session) / f"{report}.ncu-rep").is_file():
            shutil.copyfile(kept, session.directory.path / name)
    return None


def _profiled(session: Session, turn: Turn | None) -> dict[str, Any]:
    assert session.device is not None
    task, base, tool = session.task, session.measured_baseline(), session.toolchain.get("ncu")
    return run_ncu(
        session.side(task, "device"),
        task.kernels,
        shape=next(iter(task.timed_shapes), session.shapes[-1]),
        chip=session.device.arch,
        work=_work(session),
        limit_s=task.time_limit_s,
        ncu=tool.path if tool else None,
        device=session.cuda,
        baseline=session.side(base, "device") if base else None,
        baseline_kernels=base.kernels if base else (),
        turn=turn,
    )


def _work(session: Session) -> Path:
    return session.scratch / "ncu"
