"""The sanitizer gate's step in a run: memory checks under compute-sanitizer, or without a device on the emulator with every check."""

from __future__ import annotations

from dataclasses import replace

from gates.core.records import GateResult
from gates.gate.reasons import CORRECTNESS_FAILED, NOT_EMULATED, not_run
from gates.gate.sanitizer import codes, evidence
from gates.gate.sanitizer.collect import run_sanitizer_device, run_sanitizer_emulator
from gates.gate.session import Session
from gates.task.load import PYTHON
from gates.task.sources.excerpt import excerpts


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
    task, work = session.task, session.scratch / "sanitizer"
    session.progress.step(f"{task.name}: memory checks on {session.where(task)}", task.time_limit_s)
    if session.emulated:
        raw = run_sanitizer_emulator(
            session.side(task, kind),
            session.shapes,
            work=work,
            limit_s=task.time_limit_s,
            cases=session.cases(task),
        )
    else:
        tool = session.toolchain.get("compute-sanitizer")
        raw = run_sanitizer_device(
            session.side(task, kind),
            session.shapes,
            work=work,
            limit_s=task.time_limit_s,
            compute_sanitizer=tool.path if tool else None,
            device=session.cuda,
            cases=session.cases(task) if tool else None,
        )
    found = evidence.parse(raw)
    places = [finding.where for run in found.runs for finding in run.findings]
    session.write_evidence("sanitizer.json", replace(found, excerpts=excerpts(task.files(), places)) if any(places) else found, task)
    return None
