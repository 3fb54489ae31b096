"""Run a job in a process of its own and read what it wrote, without believing any of it.

The runner answers in a file of JSON lines: a ``header``, ``phase`` and result lines, ``done``. Each
carries the nonce of the job. Nothing that the process prints counts; it is kept for the report.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import gates
from gates.core import jsonio
from gates.core.errors import EXIT_HOLD, NOT_HERE, GatesError, NotHere
from gates.gate.registry import ROWS, Job
from gates.task.load import CUDA, JIT
from gates.worker import forkserver, machine_fault, process
from gates.worker.turn import Turn

ENTRY = Path(__file__).resolve().parent / "entry.py"
CONFINED = "confined: "  # begins the line in which a runner says what it gave up
_MAX_RESULT_BYTES = 32 * 2**20
_HALF = re.compile("[\ud800-\udfff]")  # half a character, which no file can hold; a kernel's message may
KILLED = "killed by SIGKILL"  # the cause of such an end
_KEPT_OUTPUT = 4000  # characters of the child's output that go into the record
KINDS = {  # the engine's own jobs, and those of the gates
    "describe": Job("gates.worker.describe"),
    "case": Job("gates.launch.replay"),
    "launches": Job("gates.launch.launch_shapes"),
    "jit_build": Job("gates.build.jit.build", kernel_process="gates.build.jit.hands"),
    **{kind: job for row in ROWS.values() for kind, job in row.jobs.items()},
}


@dataclass(frozen=True)
class FinishedJob:
    """How one runner process ended, and the lines it wrote to its result file, unchecked."""

    nonce: str
    returncode: int
    cause: str
    timed_out: bool
    wall_s: float
    lines: tuple[str, ...]
    output_tail: str

    def record(self) -> dict[str, Any]:
        """Plain JSON data of this job."""
        return {**asdict(self), "lines": list(self.lines)}

    def refusal(self) -> GatesError | None:
        """The error that the runner reported instead of running the job, if it did."""
        for line in self.own():
            if line.get("type") == "error":
                hint = line.get("hint")
                what, hint = str(line.get("what")), None if hint is None else str(hint)
                if line.get("reason") in NOT_HERE:
                    return NotHere(what, hint=hint, reason=line["reason"])
                held = {"exit_code": EXIT_HOLD} if line.get("held") is True else {}
                return GatesError(what, hint=hint, **held)
        return None

    def blames_a_kill_on_the_kernel(self) -> bool:
        """Whether the runner or its kernel's process was killed, and not while the problem's own code ran, of which the evidence tells."""
        if self.cause != KILLED:
            return any(KILLED in line for line in self.lines)
        phases = [line.get("phase") for line in self.own() if line.get("type") == "phase"]
        return phases[-1:] not in (["inputs"], ["reference"])

    def last_words(self) -> str:
        """The last line that the process printed of its own; of a traceback the one that names the exception."""
        lines = own_lines(self.output_tail)
        traced = max((number for number, line in enumerate(lines) if line.startswith("Traceback (")), default=len(lines))
        raised = next((line for line in lines[traced + 1 :] if not line.startswith((" ", "\t"))), None)
        return (raised or (lines[-1] if lines else "it printed nothing")).strip()

    def own(self) -> list[dict[str, Any]]:
        """The lines that are strict JSON objects and carry this job's nonce."""
        return jsonio.carrying(self.nonce, self.lines)


def own_lines(output: str) -> list[str]:
    """What a runner's process printed besides what it gave up."""
    return [line for line in output.splitlines() if line.strip() and not line.startswith(CONFINED)]


def run_job(
    folder: Path,
    job: Mapping[str, Any],
    work: Path,
    *,
    limit_s: float,
    name: str,
    python: str = sys.executable,
    prefix: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    kernel_process: str = "",
    turn: Turn | None = None,
) -> FinishedJob:
    """Run ``job`` for the task in ``folder`` through the engine's own entry; job file, result file and log are ``work/<name>.*``.

    The task's runner.py is not touched: it is the task's own code. ``prefix`` is what goes before the interpreter (a tool and its
    options), ``env`` the whole environment, ``kernel_process`` another module for the kernels' own process, ``turn`` what a replay on
    a device waits for. Raises GatesError if the runner could not write its results, and MachineFault if this machine could not start it, or
    killed it or its kernel's process for want of memory: that says nothing about the kernel.
    """
    work.mkdir(parents=True, exist_ok=True)
    nonce = secrets.token_hex(16)
    result, job_path = work / f"{name}.jsonl", work / f"{name}.job.json"
    result.unlink(missing_ok=True)
    held = {"turn": str(turn.path)} if turn else {}
    jsonio.write(job_path, {**job, **held, "nonce": nonce, "result": str(result), "engine": os.getpid(), "limit_s": limit_s})
    kernel_process = kernel_process or (KINDS[job["kind"]].kernel_process if job["kind"] in KINDS else "")
    killed_before = machine_fault.memory_kills()
    side = job.get("side", {})  # a C launcher on a device has no library of CUDA beside its own
    alone = job.get("mode") == "replay" and not side.get("emulated") and side.get("kind", CUDA) == CUDA
    compiles = side["kind"] if side.get("kind") in JIT else ""
    forked = not prefix and python == sys.executable and not alone
    with _created(result) as answers:  # read through this descriptor: the runner of an isolated job takes the file's name away
        finished = process.run(
            [
                *prefix,
                python,
                ENTRY,
                "--job",
                job_path,
                "--folder",
                Path(folder).resolve(),
                *(["--kernel-process", kernel_process] if kernel_process else []),
            ],
            limit_s=limit_s,
            cwd=work,
            env=_importable(os.environ if env is None else env),
            log=work / f"{name}.log",
            popen=partial(forkserver.popen, compiles=compiles) if forked else subprocess.Popen,
            turn=turn,
        )
        lines = answers.read(_MAX_RESULT_BYTES).decode("utf-8", errors="replace").split("\n")
    tried = FinishedJob(
        nonce,
        finished.returncode,
        finished.cause,
        finished.timed_out,
        round(finished.wall_s, 3),
        tuple(line for line in lines if line),
        finished.output[-_KEPT_OUTPUT:],
    )
    if any(line.get("unwritable") for line in tried.own()) and (refusal := tried.refusal()) is not None:
        raise refusal
    if (
        tried.returncode and not tried.timed_out and not tried.own() and (fault := machine_fault.fault_in(tried.output_tail))
    ):  # no kernel was loaded yet
        raise machine_fault.MachineFault(f"this machine could not start the runner of {Path(folder).name}: {fault[0]}", hint=fault[1])
    if tried.blames_a_kill_on_the_kernel() and machine_fault.memory_kills() > killed_before:
        raise machine_fault.MachineFault(
            f"this machine ran out of memory and killed a process of {Path(folder).name}", hint=machine_fault.MEMORY_OF_A_KERNEL
        )
    return tried


class Spares:
    """Runners, one for each of the ``names``, that start in threads of ``aside`` before their jobs are known.

    ``begin`` is the part of a job that they get at once. They do what they can and wait for the rest. A time limit begins with the rest.
    """

    def __init__(
        self, names: Iterable[str], begin: Mapping[str, Any], folder: Path, work: Path, *, limit_s: float, aside: process.ToolThreads
    ) -> None:
        self._begun = dict[str, tuple[Turn, Future[FinishedJob]]]()
        for name in names:
            turn = Turn(work / f"{name}.turn")
            self._begun[name] = turn, aside.submit(run_job, folder, begin, work, limit_s=limit_s, name=name, turn=turn)

    def run(self, name: str, job: Mapping[str, Any]) -> FinishedJob | None:
        """Give ``job`` to the runner of that name. Return None if there is none, or if it ended before it took the job."""
        turn, done = self._begun.pop(name, (None, None))
        if turn is None or done is None or done.done():
            return None
        turn.come(job)
        tried = done.result()
        return None if turn.path.exists() else tried  # a runner that has taken it takes the file away

    def close(self) -> None:
        """End the runners that got no job."""
        for turn, _ in self._begun.values():
            turn.close()
        for _, done in self._begun.values():
            done.exception()
        self._begun.clear()


def warm_up() -> None:
    """Let torch's import for the first runner start now, beside what the engine does until then."""
    forkserver.warm_up(_importable(os.environ))


class ResultNotWritten(GatesError):
    """The disk or a limit refuses the result file."""

    def __init__(self, path: str, error: OSError) -> None:
        reason = error.strerror or str(error)
        super().__init__(f"can't write {path}: {reason}", hint="free some space, or lift a limit on file sizes (ulimit -f unlimited)")


class ResultWriter:
    """The runner's side: JSON lines with the nonce, each in the file before the next thing happens: it stays there if the process is
    killed.

    As a context manager it writes an ``error`` line for a GatesError that passes through. Where the
    file itself can't be written, what it holds is given up for the room of that one line.
    """

    def __init__(self, job: Mapping[str, Any]) -> None:
        self._nonce, self._path = job["nonce"], job["result"]
        try:
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            if job.get("nameless"):
                os.unlink(self._path)
        except OSError as error:
            raise ResultNotWritten(self._path, error) from None

    def __enter__(self) -> ResultWriter:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ResultNotWritten):
            with contextlib.suppress(OSError, GatesError):
                os.ftruncate(self._descriptor, 0)
                self.write("error", what=error.what, hint=error.hint, unwritable=True)
        elif isinstance(error, GatesError):
            self.write("error", what=error.what, hint=error.hint, held=error.exit_code == EXIT_HOLD, reason=getattr(error, "reason", ""))
        os.close(self._descriptor)

    def write(self, kind: str, **data: Any) -> None:
        """Append one line ``{"type": kind, "nonce": …, **data}``; NaN raises ValueError.

        Raises ResultNotWritten where the file can't take the whole line.
        """
        text = json.dumps({"type": kind, "nonce": self._nonce, **data}, allow_nan=False, ensure_ascii=False)
        left = _HALF.sub(lambda half: rf"\\u{ord(half[0]):04x}", text).encode() + b"\n"
        try:
            while left:  # a file that is nearly full takes a part before it refuses
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            raise ResultNotWritten(self._path, error) from None


def _importable(env: Mapping[str, str]) -> dict[str, str]:
    """``env`` with this package on the path, also where it is used from a checkout without being installed."""
    package = str(Path(gates.__path__[0]).resolve().parent)
    if os.pathsep in package:
        raise machine_fault.MachineFault(
            f"the folder of gates, {package}, has a {os.pathsep!r} in its name, which separates folders in PYTHONPATH",
            hint="rename the folder",
        )
    return {**env, "PYTHONPATH": os.pathsep.join(filter(None, [package, env.get("PYTHONPATH", "")]))}


def _created(path: Path) -> IO[bytes]:
    try:
        return path.open("x+b")
    except OSError as error:
        raise ResultNotWritten(str(path), error) from None
