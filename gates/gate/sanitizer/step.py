"""The sanitizer gate's step in a run: memory checks under compute-sanitizer, or without a device on the emulator with every check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gates.core.records import GateResult
from gates.gate.reasons import CORRECTNESS_FAILED, NOT_EMULATED, not_run
from gates.gate.sanitizer import codes, evidence
from gates.gate.sanitizer.collect import run_sanitizer_device, run_sanitizer_emulator
from gates.gate.session import Session
from gates.task.load import PYTHON
from gates.task.sources.excerpt import excerpts

_CORES_BESIDE = 12  # the correctness gate's processes and compute-sanitizer's share the device, and want a core each


def ahead(session: Session) -> Callable[[], dict[str, Any]] | None:
    """The memory checks on a device, beside the cases of the correctness gate; not of a kernel that is known to hang."""
    begun = "correctness" in session.prepared or "ptxas" in session.results  # the cases run, or will be next
    ready = (
        begun
        and not session.emulated
        and session.cores >= _CORES_BESIDE
        and not session.hangs
        and session.missing("sanitizer", "device") is None
    )
    return (lambda: _on_device(session)) if ready else None


def _on_device(session: Session) -> dict[str, Any]:
    task, tool = session.task, session.toolchain.get("compute-sanitizer")
    return run_sanitizer_device(
        session.side(task, "device"),
        session.shapes,
        work=session.scratch / "sanitizer",
        limit_s=task.time_limit_s,
        compute_sanitizer=tool.path if tool else None,
        device=session.cuda,
        cases=session.cases(task) if tool else None,
    )


def collect(session: Session) -> GateResult | None:
    """Write sanitizer.json; the verdict where no check could run."""
    kind = "emulator" if session.emulated else "device"
    if session.emulated and session.task.kind == PYTHON:
        what = f"the emulator checks no kernel of kind {session.task.kind}; compute-sanitizer checks it on a CUDA device"
        return not_run("sanitizer", NOT_EMULATED, what)
    if (missing := session.missing("sanitizer", kind)) is not None:
        return missing
    if (missing := session.unusable("sanitizer")) is not None:
        return missing
    if session.results["correctness"].code == codes.TIMEOUT.of("correctness"):
        return not_run("sanitizer", CORRECTNESS_FAILED, "the kernel reached the time limit and would again")
    task = session.task
    session.progress.step(f"{task.name}: memory checks on {session.where(task)}", task.time_limit_s)
    if session.emulated:
        raw = run_sanitizer_emulator(
            session.side(task, kind),
            session.shapes,
            work=session.scratch / "sanitizer",
            limit_s=task.time_limit_s,
            cases=session.cases(task),
        )
    else:
        raw = session.begun("sanitizer", lambda: _on_device(session))
    found = evidence.parse(raw)
    places = [finding.where for run in found.runs for finding in run.findings]
    session.write_evidence("sanitizer.json", replace(found, excerpts=excerpts(task.files(), places)) if any(places) else found, task)
    return None
