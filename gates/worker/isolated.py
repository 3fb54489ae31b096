"""Start an isolated process for kernels, and let such a process confine itself.

It starts before the judge's process reads its job: no seed, nonce or problem was ever in its memory.
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
from io import BufferedReader, BufferedWriter
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from gates.worker import forkserver, sandbox
from gates.worker.process import die_with


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
                sys.modules["__main__"], sys.argv = (
                    ModuleType("__main__"),
                    ["-c"],
                )  # else a process that multiprocessing spawns runs the runner again
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


class Child(Protocol):
    """An isolated process: a Popen or a Fork, with both pipes."""

    stdin: Any
    stdout: Any
    pid: int

    def kill(self) -> None:
        """Kill it."""

    def wait(self) -> int:
        """Its exit code."""


def start(module: str) -> Child:
    """Start a process that runs ``serve`` of ``module``, for kernels that this process names later.

    This process must have one thread and nothing in memory that kernels must not see.
    """
    torch = sys.modules.get("torch")
    if (
        torch is not None and not torch.cuda.is_initialized()
    ):  # a forked runner: its fork has torch, too; one of a CUDA process can do nothing
        return Fork(lambda: importlib.import_module(module).serve())
    return subprocess.Popen([sys.executable, "-c", f"from {module} import serve; serve()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def has_ended(child: Child) -> bool:
    """Whether it has ended; it is left to be waited for."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def processor_seconds(job: Mapping[str, Any]) -> float | None:
    """Return the processor seconds of all cores within the job's time limit; None without a limit."""
    return job["limit_s"] * (os.cpu_count() or 1) if "limit_s" in job else None


def scratch(job: Mapping[str, Any], name: str) -> Path:
    """Make the only folder that a job's process can write to, empty, beside the job's result; return it. No other job has the same."""
    result = Path(job["result"])
    folder = result.parent / f"scratch.{name}.{result.stem}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def settle() -> tuple[BufferedReader, BufferedWriter]:
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
    """Let this process write only to ``folder``; other arguments and result as for ``sandbox.enter``."""
    os.chdir(folder)
    os.environ.update(sandbox.caches(folder))
    tempfile.tempdir = None  # asked for anew
    return sandbox.enter(
        [folder],
        memory_bytes=memory_bytes,
        local_sockets=on_device,
        processes=processes,
        file_bytes=sandbox.MOST_FILE_BYTES,
        cpu_s=cpu_s,
    )


def _reopen(number: int, path: str, flags: int) -> None:
    descriptor = os.open(path, flags)
    os.dup2(descriptor, number)
    os.close(descriptor)
