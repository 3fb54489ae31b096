"""Compile the kernels of a task in Triton, Numba-CUDA or Warp for each architecture without a device, and report them as ptxas does.

The task's function runs once a shape on CPU tensors, with the language's device replaced by one that only names the
target, so that each launch compiles its kernel and launches nothing. Its PTX is then assembled again, for the log, with the
assembler and the options that make the running code. What that process says is data (``gates.build.jit.record``): the engine
makes each command, and ptxas runs confined. A kernel that is compiled in several
variants (other shapes, other constants) is ``kernel<0>``, ``kernel<1>``, … in the log.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gates.build.failure import Failure, first_errors, refuse_machine_fault
from gates.build.jit import confined_tool, record
from gates.build.result import BuildResult, Target
from gates.core import jsonio
from gates.core.errors import GatesError
from gates.task.load import NUMBA, TRITON, WARP, Task
from gates.worker import isolated, process
from gates.worker.job import KINDS, ResultWriter, run_job

_LIMIT_S = 120.0
LANGUAGES = {TRITON: "Triton", NUMBA: "Numba-CUDA", WARP: "Warp"}
_HOME, _LAUNCHES = "jit", "launches.json"
_TOO_NEW = "Unsupported .version"  # what ptxas says of PTX from a newer toolkit


def build(task: Task, folder: Path, archs: Sequence[str], say: Callable[[str], None]) -> tuple[list[Target], Failure | None, str, float]:
    """Return a cubin target per architecture and kernel, the language's refusal if any, the compilers' output, and the seconds."""
    say(f"{task.name}: {LANGUAGES[task.kind]} compiles for {', '.join(archs)}")
    started, home = time.monotonic(), folder / _HOME
    home.mkdir(parents=True, exist_ok=True)
    job = {
        "kind": "jit_build",
        "side": task.side(task.sources[0], emulated=False),
        "archs": list(archs),
        "shapes": list(task.shapes),
    }
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    tried = run_job(
        task.folder,
        job,
        home,
        limit_s=task.time_limit_s,
        name=task.kind,
        env={**environment, "TRITON_CACHE_DIR": str(home / "cache"), "TRITON_ALWAYS_COMPILE": "1"},
    )
    if (refusal := tried.refusal()) is not None:
        raise refusal
    lines = tried.own()
    log = str(home / f"{task.kind}.log")
    kernels, unbelievable, refused = [], "", None
    try:
        kernels = record.checked([line.get("told") for line in lines if line.get("type") == "kernel"], archs, home)
        refused = next((record.wrong(line.get("told"), archs, tried.output_tail) for line in lines if line.get("type") == "wrong"), None)
    except record.NoRecord as error:
        unbelievable = str(error)
    reason = next((line["message"] for line in lines if line.get("type") == "not_compiled"), None)
    if unbelievable:
        failure: Failure | None = Failure(task.kind, f"its process sent an invalid record: {unbelievable}", log=log)
    elif refused is not None:
        kind, error_line = refused
        refuse_machine_fault(error_line, "", folder, LANGUAGES[task.kind])
        failure = Failure(task.kind, kind, (error_line,), log)
    elif reason is not None:
        failure = Failure(
            "", reason, hint="see docs/start/your-kernel.md on what can be compiled without a device", missing_tool=f"{task.kind} target"
        )
    elif not lines or lines[-1].get("type") != "done" or not kernels:
        refuse_machine_fault(tried.output_tail, tried.cause, folder, LANGUAGES[task.kind])
        failure = Failure(task.kind, tried.cause if kernels else "no kernel was launched", first_errors(tried.output_tail), log)
    else:
        failure = None
    if failure is not None:
        return (
            [Target("cubin", None, arch, failure=failure) for arch in archs],
            failure if refused else None,
            tried.output_tail,
            time.monotonic() - started,
        )
    for kernel in kernels:
        kernel.ptx.write_text(kernel.text, encoding="utf-8")
    jsonio.write(home / _LAUNCHES, [launch for kernel in kernels for launch in kernel.launches()])
    made = [_assemble(kernel, folder) for kernel in kernels]
    return [target for target, _ in made], None, tried.output_tail + "".join(text for _, text in made), round(time.monotonic() - started, 3)


def launches(result: BuildResult) -> list[dict[str, Any]] | None:
    """How the kernels are launched: threads and shared memory, as the language decided them; None where nothing was compiled."""
    path = Path(result.folder) / _HOME / _LAUNCHES
    return jsonio.read(path) if path.is_file() else None


def _assemble(kernel: record.Compiled, folder: Path) -> tuple[Target, str]:
    """Run ptxas on one kernel's PTX, confined to its folder, which gets the cubin and the log."""
    stem = f"{kernel.name}.{kernel.variant}"
    target = folder / kernel.arch / f"{stem}.cubin"
    log = target.with_suffix(".ptxas.log")
    target.parent.mkdir(exist_ok=True)
    target.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{stem}.", dir=target.parent) as room:
        made = Path(room) / target.name
        command = kernel.command(made)
        finished = process.run(confined_tool.command(Path(room), command), limit_s=_LIMIT_S)
        # The languages compile for sm_90a where the task says sm_90; the report goes by the task's name.
        text = finished.output.replace(f"for '{kernel.gpu}'", f"for '{kernel.arch}'")
        log.write_text(text, encoding="utf-8")
        shown = f"$ {shlex.join(command)}\n{text}"
        if finished.returncode != 0 or made.is_symlink() or not made.is_file():
            refuse_machine_fault(text, finished.cause, folder, "ptxas")
            failure = Failure(shlex.join(command), finished.cause, first_errors(text), str(log))
            if _TOO_NEW in text:
                cause = f"the compiler of {kernel.name} is newer than {command[0]}: {failure.errors[0]}"
                failure = Failure("", cause, hint="install a newer one: pip install -U nvidia-cuda-nvcc", missing_tool="newer ptxas")
            return Target("cubin", None, kernel.arch, failure=failure), shown
        made.replace(target)
    return Target("cubin", str(target), kernel.arch, str(log), sha256=jsonio.sha256(target)), shown


def execute(job: Mapping[str, Any], folder: Path) -> None:
    """Run the job "jit_build": write a ``kernel`` line per compiled kernel and architecture, or one ``wrong`` line (the language refused a
    kernel) or ``not_compiled`` line.

    The kernel's code runs in an isolated process (``gates.build.jit.hands``), which can write to its scratch folder alone.
    """
    from gates.worker import wire

    child: Any = job.get("child") or isolated.start(KINDS[job["kind"]].kernel_process)
    with ResultWriter(job) as writer:
        answer: Any = None
        with contextlib.suppress(EOFError, OSError, wire.BadFrame):
            wire.send(
                child.stdin,
                {**{key: job[key] for key in ("side", "archs", "shapes")}, "scratch": str(isolated.scratch(job, job["side"]["name"]))},
            )
            answer = wire.receive(child.stdout, 0)
        if not isinstance(answer, dict):
            return  # that there is no last line says it; what that process printed is in this one's log
        if refused := answer.get("refused"):
            raise GatesError(str(refused), hint=str(answer["hint"]) if answer.get("hint") else None)
        if told := answer.get("wrong"):
            writer.write("wrong", told=told)
        if message := answer.get("not_compiled"):
            writer.write("not_compiled", message=str(message)[:2000])
        for line in answer.get("kernels") or ():
            writer.write("kernel", told=line)
        writer.write("done")
