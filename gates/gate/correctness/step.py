"""The correctness gate's step in a run: every case of shapes x seeds, on the device or on the emulator, beside the baseline's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gates.core.errors import EXIT_HOLD, GatesError
from gates.core.records import GateResult
from gates.gate.correctness import evidence
from gates.gate.correctness.collect import draw_seed, run_correctness, shared_name
from gates.gate.reasons import NO_DEVICE, REASONS, not_run
from gates.gate.session import Session
from gates.task.load import CUDA
from gates.task.reproduce import limit_places, runner_command
from gates.task.sources import cuda_text
from gates.task.sources.excerpt import excerpts
from gates.worker.job import Spares

_MOST_PROCESSES, _CORES_ON_DEVICE = 4, 4  # of a judge, its kernel's process and their threads
_CORES_BESIDE = 12  # a core each for the cases' processes and for a compiler, or the launches on the emulator


def prepare(session: Session) -> Callable[[], Spares] | None:
    """The processes of the candidate's cases on a device, which start while it is compiled."""
    task, shares, aside = session.task, _processes(session), session.aside
    if session.emulated or session.cores < _CORES_BESIDE or task.kind != CUDA or aside is None:
        return None
    begin = {"kind": "correctness", "device": session.cuda, "side": {"name": task.name, "kind": task.kind, "emulated": False}}
    names = [f"{shared_name('candidate', share, shares)}.0" for share in range(shares)]
    return lambda: Spares(names, begin, task.folder, _work(session), limit_s=task.time_limit_s, aside=aside)


def ahead(session: Session) -> Callable[[], dict[str, Any]] | None:
    """Return what runs the cases while the emulator reads the launches, if the cases' processes have started."""
    ready = "correctness" in session.prepared and session.missing("correctness", "device") is None
    return (lambda: _tried(session)) if ready else None


def collect(session: Session) -> GateResult | None:
    """Write correctness.json; the verdict where no case could be tried."""
    kind = "emulator" if session.emulated else "device"
    if (missing := session.missing("correctness", kind)) is not None:
        return missing
    task = session.task
    more = f" x inputs {', '.join(session.inputs)}" if session.inputs else ", with all edge shapes" if session.thorough else ""
    what = f"{len(session.shapes)} shapes x {len(session.seeds)} seeds{more}"
    session.progress.step(f"{task.name}: correctness, {what} on {session.where(task)}", task.time_limit_s)
    try:
        raw = session.begun("correctness", lambda: _tried(session))
    except GatesError as error:
        if error.exit_code != EXIT_HOLD:  # else it is a finding about this machine
            raise
        return not_run("correctness", REASONS[getattr(error, "reason", NO_DEVICE)], ": ".join(filter(None, (error.hint, error.what))))
    found = evidence.parse(raw)
    places = [finding.where for case in found.cases for finding in case.findings]
    session.write_evidence("correctness.json", replace(found, excerpts=excerpts(task.files(), places)) if any(places) else found, task)
    return None


def _tried(session: Session) -> dict[str, Any]:
    kind, task, limits = "emulator" if session.emulated else "device", session.task, session.task.gates["correctness"]
    match = limits.get("match_baseline") and session.baseline and session.builds[session.baseline.name].path(kind)
    return run_correctness(
        session.side(task, kind),
        session.shapes,
        session.seeds,
        work=_work(session),
        limit_s=task.time_limit_s,
        device=session.cuda,
        baseline=session.side(session.baseline, kind) if match and session.baseline else None,
        extra_seeds=(draw_seed(),),
        inputs=session.inputs,
        thorough=session.thorough,
        hangs=session.hangs,
        bad_atol=limits.get("bad_atol"),
        end_to_end_bad_atol=limits.get("end_to_end", {}).get("bad_atol"),
        limits=limits,
        runner=runner_command(task),
        default_launches=() if session.emulated or task.stream == "default" else cuda_text.launches_without_stream(task),
        limits_at=limit_places(task),
        timed=next(iter(task.timed_shapes), ""),
        processes=_processes(session),
        spares=session.prepared.get("correctness"),
    )


def _work(session: Session) -> Path:
    return session.scratch / "correctness"


def _processes(session: Session) -> int:
    """How many processes share a side's cases.

    One if the kernel is known to hang, as one case is enough then, and if each would compile the kernel on these few cores.
    """
    if session.hangs or (session.emulated and session.task.kind != CUDA):
        return 1
    return max(1, min(_MOST_PROCESSES, session.cores // (1 if session.emulated else _CORES_ON_DEVICE)))
