"""Run ninja in a build folder, one build at a time, so that an interruption leaves nothing running."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import gates
from gates.core.errors import GatesError
from gates.worker.process import Finished

_PACKAGE = Path(gates.__path__[0]).resolve().parent  # steps import gates from wherever this process has it
_POLL_S = 0.2
_STOP_S = 5.0  # after an interruption, before what is left is killed


@contextlib.contextmanager
def locked(folder: Path, task: str, say: Callable[[str], None]) -> Iterator[int]:
    """Hold the folder's lock; waits, with a message, for a build that has it. Yields the lock's descriptor.

    The kernel drops the lock when the last process that has it open ends, so none can be left behind.
    """
    path = folder / ".lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise GatesError(f"can't write the build folder {folder}: {error.strerror}", hint="name another one with --build-dir") from None
    try:
        waiting = False
        while not _try_lock(descriptor):
            if not waiting:
                holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
                say(f"waiting for another build of {task}" + (f" (process {holder})" if holder else ""))
                waiting = True
            time.sleep(_POLL_S)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


class Ninja:
    """ninja at ``program`` in ``folder`` with ``jobs`` commands at once."""

    def __init__(self, program: Path, folder: Path, jobs: int) -> None:
        self.program, self.folder, self.jobs = program, folder, jobs

    def run(self, lock: int, say: Callable[[str], None]) -> Finished:
        """Make all that build.ninja names, as far as it can be; each finished step is said. ``lock`` lives as long as ninja does."""
        (self.folder / ".ninja_log").unlink(missing_ok=True)  # it has file times, which decide nothing
        argv = [str(self.program), "-j", str(self.jobs), "-k", "0"]
        package = os.pathsep.join(filter(None, (str(_PACKAGE), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "NINJA_STATUS": "[%f/%t] ", "LC_ALL": "C.UTF-8", "PYTHONPATH": package}
        started, lines = time.monotonic(), []
        try:
            child = subprocess.Popen(
                argv,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
                pass_fds=(lock,),
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise GatesError(f"can't start {self.program}: {error.strerror}", hint="lower GATES_JOBS or the load of this machine") from None
        try:
            for line in child.stdout or ():
                lines.append(line)
                if line.startswith("["):  # when it has ended; what goes on longer is another
                    count, _, output = line.strip().partition("] ")
                    say(f"{count[1:].replace('/', ' of ')} built, {output} the last")
            child.wait()
        except BaseException:
            _stop(child)
            raise
        finally:
            if child.stdout:
                child.stdout.close()
        finished = Finished(tuple(argv), child.returncode, "".join(lines), time.monotonic() - started, False)
        return finished if child.returncode >= 0 else replace(finished, output=f"{finished.output}ninja: {finished.cause}\n")


def _stop(child: subprocess.Popen[str]) -> None:
    """Interrupt ninja, which passes it on to its commands (each has a process group of its own), then kill it."""
    with contextlib.suppress(ProcessLookupError):
        child.send_signal(signal.SIGINT)
    try:
        child.wait(timeout=_STOP_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
