"""Start a tool in a process group of its own, with a time limit, and keep what it prints, within bounds.

No ``preexec_fn``: several threads start tools. What a tool starts and leaves behind in a session of
its own is found by a variable in its environment, which every descendant inherits; one that starts a
program with another environment escapes. A runner dies with the engine by ``die_with``; a tool that
the engine starts without a runner ends by itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gates.core.errors import GatesError
from gates.worker import machine_fault
from gates.worker.turn import Turn

MAX_PRINTED_BYTES = 256 * 2**20  # beyond it the tool is killed
HEAD_BYTES, TAIL_BYTES = 2**20, 15 * 2**20  # of what it printed, kept where not all is asked for
_MARK = "GATES_PROCESS_MARK"
_POLL_S = 0.2
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


@dataclass(frozen=True)
class Finished:
    """How a command ended. ``returncode`` is negative for a signal; ``timed_out`` and ``flooded`` if we killed it."""

    argv: tuple[str, ...]
    returncode: int
    output: str
    wall_s: float
    timed_out: bool
    flooded: bool = False  # it printed too much

    @property
    def cause(self) -> str:
        """One phrase on how it ended: ``exit 0``, ``killed by SIGSEGV``, ``killed after 60 s``."""
        if self.timed_out:
            return f"killed after {self.wall_s:.0f} s (time limit)"
        if self.flooded:
            much = f"printed more than {MAX_PRINTED_BYTES // 2**20} MiB"
            return f"exit {self.returncode}, but {much}" if self.returncode >= 0 else f"killed: {much}"
        if self.returncode < 0:
            try:
                return f"killed by {signal.Signals(-self.returncode).name}"
            except ValueError:
                return f"killed by signal {-self.returncode}"
        return f"exit {self.returncode}"


_thread = threading.local()  # ``interrupted``: of the ToolThreads whose thread this is, and of those that these were made in


class ToolThreads(ThreadPoolExecutor):
    """Threads that run tools side by side. An exception that leaves the ``with`` block, Ctrl-C too, ends their tools at once."""

    def __init__(self, most: int) -> None:
        self._interrupted = threading.Event()
        self._any_of = (*getattr(_thread, "interrupted", ()), self._interrupted)
        super().__init__(most, initializer=self._begin)

    def _begin(self) -> None:
        _thread.interrupted = self._any_of

    def stop(self) -> None:
        """End the tools of these threads at once, and of threads that they started; wait for that."""
        self._interrupted.set()
        self.shutdown(cancel_futures=True)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self.stop()
        super().__exit__(kind, error, trace)


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    limit_s: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
    whole: bool = False,
    popen: Callable[..., Any] = subprocess.Popen,
    turn: Turn | None = None,
) -> Finished:
    """Run ``argv``, started by ``popen``, without a shell; stdout and stderr together become ``output`` and the ``log`` file.

    Output passes through a file, so a child that keeps the pipe open can't hang us. Its time begins with its ``turn``. At the limits of
    time and of output, and on any exception (Ctrl-C included), the whole process group is killed, and
    after the end whatever it left running. The middle of a long output is left out; with ``whole`` only where
    it is beyond the limit (``flooded``).
    Raises GatesError where the tool can't be started or the log can't be written, and MachineFault for a tool that
    failed while what it prints found no room.
    """
    command = tuple(str(part) for part in argv)
    mark = secrets.token_hex(16)
    with tempfile.TemporaryFile() as sink:
        try:
            child = popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                cwd=cwd,
                env={**(os.environ if env is None else env), _MARK: mark},
                start_new_session=True,
            )
        except OSError as error:
            fault = machine_fault.fault_in(error.strerror or "")
            raise GatesError(f"can't start {command[0]}: {error.strerror}", hint=fault[1] if fault else None) from None
        started = time.monotonic()  # what the start took, torch's import at times, is not the tool's
        timed_out = flooded = False

        def spent_s() -> float:
            return time.monotonic() - (turn.since(started) if turn else started)

        try:
            timed_out, flooded = _wait(child, sink, lambda: limit_s - spent_s())
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            returncode = child.wait()
            _kill_marked(mark)
        wall_s = spent_s()
        flooded = flooded or os.fstat(sink.fileno()).st_size > MAX_PRINTED_BYTES
        output = _printed(sink, whole)
        if returncode and not timed_out and not flooded:
            _require_room(sink)
    finished = Finished(command, returncode, output, wall_s, timed_out, flooded)
    if log is not None:
        try:
            log.write_text(output, encoding="utf-8")
        except OSError as error:
            raise GatesError(f"can't write {log}: {error.strerror}", hint="free some space, or lift a limit on file sizes") from None
    return finished


def die_with(parent: int) -> None:
    """Let the kernel kill this process when ``parent``, which must be the process that started it, ends (Linux).

    Does nothing where a tool (ncu, compute-sanitizer) stands between the two.
    """
    with contextlib.suppress(AttributeError, OSError):
        if os.getppid() == parent:
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def hide() -> None:
    """Let no process without a right to all of them read this one's memory, environment and descriptors; it leaves no core (Linux)."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _wait(child: Any, sink: IO[bytes], left_s: Callable[[], float]) -> tuple[bool, bool]:
    """Wait for the child's end; whether it reached the limit of time, and of output. KeyboardInterrupt where ToolThreads were left."""
    interrupted: Sequence[threading.Event] = getattr(_thread, "interrupted", ())
    while True:
        if _ended_within(child, max(0.0, min(_POLL_S, left_s()))):
            return False, False
        if os.fstat(sink.fileno()).st_size > MAX_PRINTED_BYTES:
            return False, True
        if left_s() <= 0:
            return True, False
        if any(one.is_set() for one in interrupted):
            raise KeyboardInterrupt


def _ended_within(child: Any, seconds: float) -> bool:
    """Whether the child has ended, after at most so long. Popen.wait with a limit looks every 50 ms; Linux tells at once."""
    if isinstance(child, subprocess.Popen) and hasattr(os, "pidfd_open") and child.poll() is None:
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(child.pid)
            try:
                ended = select.poll()
                ended.register(descriptor, select.POLLIN)
                ended.poll(1000 * seconds)
            finally:
                os.close(descriptor)
            seconds = 0.0
    try:
        child.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _require_room(sink: IO[bytes]) -> None:
    """Raise MachineFault if the file of a tool's output can take no more: the tool may have ended for that."""
    try:
        os.pwrite(sink.fileno(), bytes(4096), os.fstat(sink.fileno()).st_size)
    except OSError as error:
        fault = machine_fault.fault_in(error.strerror or "")
        raise machine_fault.MachineFault(
            f"this machine can't store the output of a tool: {tempfile.gettempdir()}: {error.strerror}", hint=fault[1] if fault else None
        ) from None


def _printed(sink: IO[bytes], whole: bool) -> str:
    size = os.fstat(sink.fileno()).st_size
    sink.seek(0)
    if size <= HEAD_BYTES + TAIL_BYTES or (whole and size <= MAX_PRINTED_BYTES):
        return sink.read(size).decode("utf-8", errors="replace")
    head = sink.read(HEAD_BYTES)
    sink.seek(size - TAIL_BYTES)
    middle = f"\n[… {size - HEAD_BYTES - TAIL_BYTES} bytes left out …]\n"
    return head.decode("utf-8", errors="replace") + middle + sink.read(TAIL_BYTES).decode("utf-8", errors="replace")


def _holds(path: str, entry: bytes) -> bool:
    """Whether the file holds ``entry``: of all processes of a machine, after each tool."""
    with open(path, "rb", buffering=0) as file:
        return entry in file.readall()


def _kill_marked(mark: str) -> None:
    """Kill every process with ``mark`` in its environment, and again what these have started meanwhile.

    One that forks and ends while the others are looked through is seen in none of them: where any process has begun meanwhile, three
    looks must find nothing.
    """
    entry, empty = f"{_MARK}={mark}".encode(), 0
    for _ in range(10):
        found, newest = False, _newest()
        for pid in sorted(map(int, filter(str.isdigit, os.listdir("/proc"))), reverse=True):  # the newest, before it ends
            try:
                group = os.getpgid(pid)
                if not group or not _holds(f"/proc/{pid}/environ", entry):  # the system's own threads are in no group
                    continue
            except OSError:  # it ended meanwhile, or belongs to another user
                continue
            found = True
            with contextlib.suppress(OSError):
                if group != os.getpgrp():
                    os.killpg(group, signal.SIGKILL)  # at once all of a family that forks and ends, which keeps its group
                os.kill(pid, signal.SIGKILL)
        empty = 0 if found else empty + 1
        if empty == 3 or empty and newest == _newest():
            return
        time.sleep(0.01 if found else 0.0)


def _newest() -> bytes:
    """The number of the process that began last; empty where the system does not say."""
    try:
        return Path("/proc/loadavg").read_bytes().rpartition(b" ")[2]
    except OSError:
        return b""
