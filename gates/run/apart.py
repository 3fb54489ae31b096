"""Run a kernel in another process than its judge.

Code in the judge's process could replace the comparison, read the reference from memory, or write the result. So every kernel is
loaded and launched in its own process, which starts before the judge reads its job: no seed, nonce or problem was ever in its
memory. It gets buffers as bytes and returns them as bytes. The judge's process (``gates.run.side``) computes the reference,
compares, and writes the result; it never loads the kernel.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from gates import problem as problems
from gates.errors import GatesError, NotHere
from gates.run import forkserver, jail
from gates.run.callable import is_c
from gates.run.process import die_with


class Fork:
    """Fork this process and call a function there; has the needed part of subprocess.Popen's interface."""

    def __init__(self, call: Callable[[], None]) -> None:
        asks, self_asks = os.pipe()
        self_answers, answers = os.pipe()
        self._code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            with forkserver.ending():
                for descriptor, to in ((asks, 0), (answers, 1)):
                    os.dup2(descriptor, to)
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


Child = subprocess.Popen[bytes] | Fork


def start(module: str = "gates.run.apart") -> Child:
    """Start a process that runs ``serve`` of ``module``, for kernels that this process names later.

    This process must have one thread and nothing in memory that kernels must not see.
    """
    torch = sys.modules.get("torch")
    if torch is not None and not torch.cuda.is_initialized():  # a forked runner: its fork has torch, too; one of a CUDA process can do nothing
        return Fork(lambda: importlib.import_module(module).serve())
    return subprocess.Popen([sys.executable, "-c", f"from {module} import serve; serve()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def first_question(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first message to the process, before its first call."""
    emulated = bool(job["side"]["emulated"])
    memory_bytes = job.get("memory_bytes") or (jail.default_memory_bytes() if emulated else None)
    return {
        "side": dict(job["side"]), "device": "cpu" if emulated else job["device"], "scratch": str(scratch(job, job["side"]["name"])),
        "memory_bytes": memory_bytes,
        "cpu_s": processor_seconds(job),
    }


def processor_seconds(job: Mapping[str, Any]) -> float | None:
    """Return the processor seconds of all cores within the job's time limit; None without a limit."""
    return job["limit_s"] * (os.cpu_count() or 1) if "limit_s" in job else None


def scratch(job: Mapping[str, Any], name: str) -> Path:
    """Make the only folder that a job's process can write to, empty, beside the job's result; return it."""
    folder = Path(job["result"]).parent / f"scratch.{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def settle() -> tuple[BinaryIO, BinaryIO]:
    """Leave the parent's process group and close its descriptors; return (questions, answers). This process ends with its parent."""
    die_with(os.getppid())
    asks, answers = os.fdopen(os.dup2(0, 3), "rb"), os.fdopen(os.dup2(1, 4), "wb")
    _reopen(0, os.devnull, os.O_RDONLY)
    with contextlib.suppress(OSError):  # where it can't be opened anew: a terminal of somebody else
        _reopen(2, "/proc/self/fd/2", os.O_WRONLY | os.O_APPEND)  # the judge's own lines are in there
    os.dup2(2, 1)  # what the kernel prints is no answer
    os.closerange(5, os.sysconf("SC_OPEN_MAX"))  # no descriptor of the process that this one was forked from
    os.setsid()  # a signal to its own group reaches nobody else
    return asks, answers


def confine(
    folder: Path, *, memory_bytes: int | None, on_device: bool, processes: bool = True, cpu_s: float | None = None
) -> dict[str, str]:
    """Let this process write only to ``folder``; other arguments and result as for ``jail.enter``."""
    os.chdir(folder)
    os.environ.update(jail.caches(folder))
    tempfile.tempdir = None  # asked for anew
    return jail.enter(
        [folder], memory_bytes=memory_bytes, local_sockets=on_device, processes=processes, file_bytes=jail.MOST_FILE_BYTES, cpu_s=cpu_s,
    )


def serve() -> None:
    """Run in the other process: confine it, load the kernel, and answer calls until they end."""
    asks, answers = settle()

    from gates.run import wire
    from gates.run.launch import Launcher

    first = wire.receive(asks)
    side, on_device = first["side"], first["device"] != "cpu"
    held = confine(
        Path(first["scratch"]), memory_bytes=first["memory_bytes"], on_device=on_device, processes=on_device or not is_c(side), cpu_s=first["cpu_s"],
    )
    wire.send(answers, {"held": held})  # before the kernel's code is loaded, which could say anything
    try:
        if not is_c(side):
            problems.find(side["problem"], Path(side["folder"]))  # what stands beside it a function may import
        launcher = Launcher(side, first["device"])
    except GatesError as error:
        wire.send(answers, _refused(error))
        return
    wire.send(answers, {"loaded": True})
    while True:
        try:
            question = wire.receive(asks)
        except EOFError:
            return
        wire.send(answers, _answered(launcher, question))


def _reopen(number: int, path: str, flags: int) -> None:
    descriptor = os.open(path, flags)
    os.dup2(descriptor, number)
    os.close(descriptor)


def _answered(launcher: Any, question: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    from gates.run.accuracy import OutputError
    from gates.run.launch import DeviceLost

    try:
        return launcher.launch(question)
    except OutputError as error:
        return {"failure": "outputs", "text": str(error)}
    except (MemoryError, torch.OutOfMemoryError) as error:
        return {"failure": "memory", "text": str(error)}
    except GatesError as error:
        return _refused(error)
    except DeviceLost as error:
        return {"failure": "lost", "text": str(error)}


def _refused(error: GatesError) -> dict[str, Any]:
    found = {"failure": "gates", "text": error.what, "hint": error.hint}
    return {**found, "failure": "here", "reason": error.reason} if isinstance(error, NotHere) else found
