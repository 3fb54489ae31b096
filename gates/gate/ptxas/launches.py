"""How a task launches its kernels: block sizes and shared memory, which the compiler's log does not have."""

from __future__ import annotations

from typing import Any

from gates.build.jit import build as jit_build
from gates.gate.session import Session
from gates.task.load import CUDA, JIT, Task
from gates.task.sources import cuda_text
from gates.worker.job import run_job

LAUNCH_LIMIT_S = 20.0  # of one launch on the emulator, of the smallest shape and without torch: a kernel that takes longer hangs


def launches_of(session: Session, task: Task) -> tuple[list[dict[str, Any]] | None, str]:
    """How the task launches its kernels, or None, and what is to be said of where that is known from.

    As the emulator saw it for each shape and architecture, or the device for the smallest shape, as its compiler in Python decided it, or,
    where the emulator can't run it, what the sources leave no room for.
    """
    if task.kind in JIT:
        return jit_build.launches(session.builds[task.name]), ""
    seen, note = _seen_launches(session, task)
    failure = session.builds[task.name].failure("emulator")
    return (seen, note) if seen or failure is None or not failure.unsupported else cuda_text.declared_launches(task)


def _seen_launches(session: Session, task: Task) -> tuple[list[dict[str, Any]] | None, str]:
    kind = "emulator" if (task.kind == CUDA or task.script) and session.builds[task.name].path("emulator") else "device"
    if session.builds[task.name].path(kind) is None:
        return None, ""
    limit_s = min(LAUNCH_LIMIT_S, task.time_limit_s) if kind == "emulator" and not task.script else task.time_limit_s
    session.progress.step(f"{task.name}: one launch on the {kind}, for its launch configuration", limit_s)
    smallest = session.cases(task)[0]["path"]
    job = {
        "kind": "case",
        "mode": "replay",
        "side": session.side(task, kind),
        "paths": [smallest],
        "launches": 1,
        "device": session.cuda,
        "trace": kind == "device",
    }
    tried = run_job(task.folder, job, session.scratch / "launches", limit_s=limit_s, name=task.name)
    if tried.timed_out:
        session.hangs |= task is session.task
        session.progress.done(f"{task.name}: that launch came to no end and was {tried.cause}")
    wanted, key = ("traced", "launches") if kind == "device" else ("case", "emulator_launches")
    found = [line[key] for line in tried.own() if line.get("type") == wanted]
    if not found:
        return None, f"one launch on the {kind}, which would show it, ended: {tried.cause}"
    if kind == "device":
        return found[0], ""
    others, note = _launches_of_shapes(session, task)
    return [*found[0], *others], note


def _launches_of_shapes(session: Session, task: Task) -> tuple[list[dict[str, Any]], str]:
    """The launches of each of the run's shapes on each of the task's architectures, by the emulator, and which are missing.

    Their blocks did not run, so what they declare of static shared memory is not known.
    """
    session.progress.step(f"{task.name}: launch configurations of {', '.join(session.shapes)} on {', '.join(task.arch)}", task.time_limit_s)
    job = {"kind": "launches", "side": session.side(task, "emulator"), "shapes": list(session.shapes), "archs": list(task.arch)}
    tried = run_job(task.folder, job, session.scratch / "launches", limit_s=task.time_limit_s, name=f"{task.name}.shapes")
    lines = tried.own()
    found = [
        {**record, "arch": line["arch"], "static_smem_bytes": None}
        for line in lines
        if line.get("type") == "case"
        for record in line["emulator_launches"]
    ]
    missing = [f"{line['shape']} {line['arch']}".strip() + f" ({line['why']})" for line in lines if line.get("type") == "missing"]
    if not any(line.get("type") == "done" for line in lines):
        missing.append(f"all that were not tried when that process ended ({tried.cause})")
    return found, f"not known for {', '.join(missing)}" if missing else ""
