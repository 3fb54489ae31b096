"""The ncu gate's step in a run: hardware counters of candidate and baseline, on the device."""

from __future__ import annotations

import shutil

from gates.core.records import GateResult
from gates.gate.ncu import evidence
from gates.gate.ncu.collect import run_ncu
from gates.gate.session import Session


def collect(session: Session) -> GateResult | None:
    """Write ncu.json and keep ncu's reports; the verdict where nothing could be profiled."""
    if (missing := session.without_device("ncu") or session.missing("ncu", "device") or session.after_correctness("ncu")) is not None:
        return missing
    assert session.device is not None
    task, work = session.task, session.scratch / "ncu"
    base = session.measured_baseline()
    session.progress.step(f"{task.name}: hardware counters", task.time_limit_s)
    tool = session.toolchain.get("ncu")
    raw = run_ncu(
        session.side(task, "device"),
        task.kernels,
        shape=next(iter(task.timed_shapes), session.shapes[-1]),
        chip=session.device.arch,
        work=work,
        limit_s=task.time_limit_s,
        ncu=tool.path if tool else None,
        device=session.cuda,
        baseline=session.side(base, "device") if base else None,
        baseline_kernels=base.kernels if base else (),
    )
    session.write_evidence("ncu.json", evidence.parse(raw), task)
    for report, name in (("profile", "profile.ncu-rep"), ("baseline", "baseline/profile.ncu-rep")):
        if (work / f"{report}.ncu-rep").is_file():
            shutil.copyfile(work / f"{report}.ncu-rep", session.directory.path / name)
    return None
