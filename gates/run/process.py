"""Start a tool in a process group of its own, with a time limit, and keep all that it prints."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gates.errors import GatesError


@dataclass(frozen=True)
class Finished:
    """How a command ended. ``returncode`` is negative for a signal; ``timed_out`` if we killed it."""

    argv: tuple[str, ...]
    returncode: int
    output: str
    wall_s: float
    timed_out: bool

    @property
    def cause(self) -> str:
        """One phrase on how it ended: ``exit 0``, ``killed by SIGSEGV``, ``killed after 60 s``."""
        if self.timed_out:
            return f"killed after {self.wall_s:.0f} s (time limit)"
        if self.returncode < 0:
            try:
                return f"killed by {signal.Signals(-self.returncode).name}"
            except ValueError:
                return f"killed by signal {-self.returncode}"
        return f"exit {self.returncode}"


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    limit_s: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> Finished:
    """Run ``argv`` without a shell; stdout and stderr together become ``output`` and the ``log`` file.

    Output passes through a file, so a child that keeps the pipe open can't hang us. At the limit,
    and on any exception (Ctrl-C included), the whole process group is killed.
    """
    argv = tuple(str(part) for part in argv)
    with tempfile.TemporaryFile() as sink:
        started = time.monotonic()
        try:
            child = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, cwd=cwd,
                env=None if env is None else dict(env), start_new_session=True,
            )
        except OSError as error:
            raise GatesError(f"can't start {argv[0]}: {error.strerror}") from None
        timed_out = False
        try:
            returncode = child.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
        returncode = child.wait()
        wall_s = time.monotonic() - started
        sink.seek(0)
        output = sink.read().decode("utf-8", errors="replace")
    finished = Finished(argv, returncode, output, wall_s, timed_out)
    if log is not None:
        log.write_text(output, encoding="utf-8")
    return finished
