"""A Python function in a process apart from the one that judges it.

Code in the judge's own process could replace the comparison, read the reference from memory, or write the result. So
the function of a Python source or of an extension is called in a process of its own. That gets the inputs as bytes,
and gives its outputs as bytes; the reference is computed, the comparison made and the result written by the process that
asked, which never imports the function. Of what the other process says only the outputs count: they are right or
wrong whatever it does to itself. What it says of guards, changed inputs and poison shows honest mistakes alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from gates.errors import GatesError
from gates.run import forkserver, jail
from gates.run.callable import NeedsDevice, is_c

_FIELDS = ("outputs", "poisons", "error", "guards", "mutated")


class Fork:
    """A fork of this process that calls a function, with the part of subprocess.Popen's interface that is needed here."""

    def __init__(self, call: Callable[[], None], *, cwd: Path, env: Mapping[str, str]) -> None:
        asks, self_asks = os.pipe()
        self_answers, answers = os.pipe()
        self._code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            with forkserver.ending():
                for descriptor, to in ((asks, 0), (answers, 1)):
                    os.dup2(descriptor, to)
                os.closerange(3, max(asks, self_asks, self_answers, answers) + 1)
                os.chdir(cwd)
                os.environ.update(env)
                sys.modules["__main__"], sys.argv = ModuleType("__main__"), ["-c"]  # else a process that multiprocessing spawns runs the runner again
                if not getattr(sys.flags, "safe_path", False):
                    sys.path[0] = ""
                call()
        os.close(asks)
        os.close(answers)
        self.stdin, self.stdout = os.fdopen(self_asks, "wb"), os.fdopen(self_answers, "rb")

    def kill(self) -> None:
        """Kill it, where it has not been waited for."""
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Its exit code, negative for a signal."""
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code


def start(job: Mapping[str, Any]) -> subprocess.Popen[bytes] | Fork | None:
    """The process for the function of a correctness job's side, begun while this one has one thread; None for a C launcher.

    Its scratch folder beside the job's result is the one place that it can write to.
    """
    if is_c(job["side"]):
        return None
    scratch = _scratch(job)
    scratch.mkdir(parents=True, exist_ok=True)
    if "torch" in sys.modules:  # a forked runner: its fork has torch, too
        return Fork(serve, cwd=scratch, env=jail.caches(scratch))
    return subprocess.Popen(
        [sys.executable, "-c", "from gates.run.apart import serve; serve()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=scratch, env={**os.environ, **jail.caches(scratch)},
    )


def first_question(job: Mapping[str, Any]) -> dict[str, Any]:
    """What the process is told before its first call."""
    emulated = bool(job["side"]["emulated"])
    memory_bytes = job.get("memory_bytes") or (jail.default_memory_bytes() if emulated else None)
    return {"side": dict(job["side"]), "device": "cpu" if emulated else job["device"], "scratch": str(_scratch(job)), "memory_bytes": memory_bytes}


def _scratch(job: Mapping[str, Any]) -> Path:
    return Path(job["result"]).parent / f"scratch.{job['side']['name']}"


def serve() -> None:
    """The other process: confine itself, load the function, and answer calls until nobody asks any more."""
    from gates.run import wire
    from gates.run.launch import Side

    asks, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the function prints is no answer
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    first = wire.receive(asks)
    held = jail.enter([Path(first["scratch"])], memory_bytes=first["memory_bytes"], local_sockets=first["device"] != "cpu")
    wire.send(answers, {"held": held})  # before the function's code is loaded, which could say anything
    try:
        side = Side(first["side"], first["device"])
    except GatesError as error:
        wire.send(answers, _refused(error))
        return
    wire.send(answers, {"loaded": True})
    while True:
        try:
            question = wire.receive(asks)
        except EOFError:
            return
        wire.send(answers, _answered(side, question))


def _answered(side: Any, question: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    from gates.run.accuracy import OutputError, ProblemError
    from gates.run.launch import DeviceLost

    try:
        found = side.call(question["inputs"], question["shape"], **question["how"])
        return {field: getattr(found, field) for field in _FIELDS}
    except ProblemError as error:
        return {"failure": "problem", "text": str(error)}
    except OutputError as error:
        return {"failure": "outputs", "text": str(error)}
    except (MemoryError, torch.OutOfMemoryError) as error:
        return {"failure": "memory", "text": str(error)}
    except GatesError as error:
        return _refused(error)
    except DeviceLost as error:
        return {"failure": "lost", "text": str(error)}


def _refused(error: GatesError) -> dict[str, Any]:
    return {"failure": "device" if isinstance(error, NeedsDevice) else "gates", "text": error.what, "hint": error.hint}
