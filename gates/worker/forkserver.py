"""A process that has imported torch and the engine's own modules, and forks runners: their start, seconds long, is paid once a command.

``popen`` takes the place of ``subprocess.Popen`` for runners. What it starts is a process of its own in a session of its
own, as any other; it only has not got to import torch again. The server holds nothing of a task: it never reads one, and
code of a task runs in the forked process alone. It ends with its engine, whose end it sees on the socket between them.
Between server and runner stands a keeper, forked too: it tells the engine how its runner ended, and kills what that left behind.

Anything out of the ordinary (no torch, another interpreter, threads that torch left running, no Linux, GATES_FORK=0) gives an
ordinary process instead.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

_START_LIMIT_S = 120.0
_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36  # prctl
_MAX_MESSAGE_BYTES = 2**20
# Variables that nothing reads while Python and torch start. Each runner gets its own values, so one server serves them all.
_READ_LATER = ("CC", "CUDA_HOME", "CUDA_VISIBLE_DEVICES", "CXX", "MAX_JOBS", "PATH", "TMPDIR", "TORCH_CUDA_ARCH_LIST", "XDG_CACHE_HOME")
_PREFIXES_READ_LATER = ("GATES_", "NUMBA_", "NVCC_", "PYTEST_", "TRITON_", "WARP_")
_USUAL = (  # modules that need torch and that most runners, or the processes of their kernels, would import each anew
    "gates.gate.correctness.collect",
    "gates.gate.correctness.fresh_shapes",
    "gates.gate.correctness.runner.case",
    "gates.gate.correctness.runner.yardstick",
    "gates.gate.performance.runner.alone",
    "gates.gate.performance.runner.hands",
    "gates.gate.performance.runner.session",
    "gates.launch.isolated_launch",
    "gates.launch.replay",
    "gates.task.values",
    "pynvml",
)


class _Server:
    """The engine's end: one server process, begun under one environment."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env, self.engine, self._starting = dict(env), os.getpid(), threading.Lock()
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", "from gates.worker.forkserver import serve; serve()", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"OMP_WAIT_POLICY": "passive", **self.env},  # waiting threads leave the cores to compilers
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._ready: bool | None = None
        self._ended = False
        atexit.register(self._end_with_engine)

    def ready(self) -> bool:
        """Whether it can fork; waits for torch's import the first time."""
        with self._starting:
            if self._ready is None:
                self.socket.settimeout(_START_LIMIT_S)
                with contextlib.suppress(OSError):
                    self._ready = _received(self.socket) == {"ready": True}
                    self.socket.settimeout(None)
                if not self._ready:
                    self.end()
        return bool(self._ready) and not self._ended

    @property
    def lost(self) -> bool:
        """Whether it could fork once, and has ended: another one may be begun. One that never could would fail again."""
        return bool(self._ready) and self._ended

    def end(self) -> None:
        """Kill it; nothing is forked from it any more."""
        self._ended = True
        self.process.kill()
        self.process.wait()
        self.socket.close()
        atexit.unregister(self._end_with_engine)

    def _end_with_engine(self) -> None:
        if os.getpid() == self.engine:
            self.end()


class Forked:
    """A runner that was forked, with the part of subprocess.Popen's interface that ``gates.worker.process`` uses."""

    def __init__(
        self, server: _Server, argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, sink: IO[bytes], compiles: str = ""
    ) -> None:
        self._code: int | None = None
        self._keeper, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {
            "argv": list(argv),
            "cwd": None if cwd is None else str(cwd),
            "own": {name: value for name, value in env.items() if name not in server.env},
            "compiles": compiles,
        }
        with theirs, contextlib.ExitStack() as failed:
            failed.callback(self._keeper.close)
            socket.send_fds(server.socket, [json.dumps(request).encode()], [sink.fileno(), theirs.fileno()])
            theirs.close()
            answer = _received(self._keeper)
            if answer is None:
                raise OSError("the fork server ended")
            failed.pop_all()
        self.pid: int = answer["pid"]

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, negative for a signal. Raises subprocess.TimeoutExpired."""
        if self._code is None:
            ended = select.poll()
            ended.register(self._keeper, select.POLLIN)
            if not ended.poll(None if timeout is None else 1000 * timeout):
                raise subprocess.TimeoutExpired("runner", timeout or 0.0)
            answer = _received(self._keeper)
            self._code = -signal.SIGKILL if answer is None else int(answer["code"])
            self._keeper.close()
        return self._code


def _received(connection: socket.socket) -> Any:
    """The next message; None where the other end has gone."""
    data = connection.recv(_MAX_MESSAGE_BYTES)
    return json.loads(data) if data else None


_server: _Server | None = None
_choice = threading.Lock()


def warm_up(env: Mapping[str, str]) -> None:
    """Let torch's import start now, beside what the engine does before its first runner."""
    with contextlib.suppress(OSError):
        _for(env)


def popen(
    argv: Sequence[str],
    *,
    stdin: int,
    stdout: IO[bytes],
    stderr: IO[bytes],
    cwd: Path | None,
    env: Mapping[str, str],
    start_new_session: bool,
    compiles: str = "",
) -> Any:
    """``subprocess.Popen`` for ``[sys.executable, script, …]``, forked if possible.

    ``compiles``: the kind of the kernels that the runner compiles, such as ``triton``.
    """
    server = _for(env)
    if server is not None and server.ready():
        try:
            return Forked(server, argv[1:], env, cwd, stdout, compiles)
        except OSError:
            server.end()
    return subprocess.Popen(argv, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=env, start_new_session=start_new_session)


def _for(env: Mapping[str, str]) -> _Server | None:
    """The server for ``env``, begun anew where the last one began under another; None where there can't be one."""
    global _server
    if not hasattr(os, "pidfd_open") or env.get("GATES_FORK") == "0":
        return None
    at_start = {name: value for name, value in env.items() if name not in _READ_LATER and not name.startswith(_PREFIXES_READ_LATER)}
    with _choice:
        if _server is not None and (_server.lost or _server.engine != os.getpid()):  # of a fork of the engine: the server is its parent's
            _server = None
        if _server is not None and _server.env != at_start:
            _server.end()  # its runners go on
            _server = None
        if _server is None:
            _server = _Server(at_start)
        return _server


def serve() -> None:
    """The server's main: import torch, then fork a keeper and its runner a request until the engine has gone."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    libc = ctypes.CDLL(None, use_errno=True)
    gc.disable()  # nothing that the import makes is garbage, and looking for some is a seventh of its time
    import torch

    for module in _USUAL:
        with contextlib.suppress(Exception):  # the runner that needs it tells what is wrong
            importlib.import_module(module)
    gc.enable()
    gc.freeze()  # nor need a runner look through it, each time anew
    if not _may_fork() or torch.cuda.is_initialized():
        return
    connection.send(json.dumps({"ready": True}).encode())
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, _MAX_MESSAGE_BYTES, 2)
        if not message:
            _end(0)
        request = json.loads(message)
        if request["compiles"] == "triton":
            with contextlib.suppress(Exception):
                importlib.import_module("triton.runtime.cache").triton_key()  # a digest of all of Triton, remembered from then on
        if os.fork() == 0:
            connection.close()
            with ending():
                _keep(request, descriptors[0], descriptors[1], libc)
        for descriptor in descriptors:
            os.close(descriptor)
        _reap()


def _keep(request: Mapping[str, Any], sink: int, engine: int, libc: Any) -> None:
    """Fork the runner that ``request`` describes; tell the engine, at the other end of ``engine``, its pid and its exit code.

    What the runner leaves behind becomes a child of this process, which kills it. Returns in both processes.
    """
    libc.prctl(_SET_SUBREAPER, 1, 0, 0, 0)
    connection, keeper = socket.socket(fileno=engine), os.getpid()
    pid = os.fork()
    if pid == 0:
        connection.close()
        _become(request, sink, keeper, libc)
        runpy.run_path(sys.argv[0], run_name="__main__")
        return
    os.close(sink)
    connection.send(json.dumps({"pid": pid}).encode())
    code = _wait(pid, connection)
    _kill_children()
    if code is not None:
        connection.send(json.dumps({"code": code}).encode())


def _may_fork() -> bool:
    """Whether one fork leaves this process with one thread: OpenBLAS ends its threads before each, others would be lost in the child."""
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return len(os.listdir("/proc/self/task")) == 1


def _become(request: Mapping[str, Any], sink: int, keeper: int, libc: Any) -> None:
    """Give the forked process all that the runner which ``request`` describes would start with."""
    os.setsid()
    libc.prctl(_SET_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != keeper:  # it ended before that took hold
        os._exit(1)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    os.close(sink)
    os.chdir(request["cwd"] or "/")
    os.environ.update(request["own"])
    _new_randomness()
    sys.argv = request["argv"]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = str(Path(sys.argv[0]).resolve().parent)


@contextlib.contextmanager
def ending() -> Iterator[None]:
    """End this process after what stands below it, with the exit code that Python would give."""
    code: Any = 1
    try:
        yield
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        traceback.print_exc()
    finally:
        _end(code)


def _end(code: int) -> NoReturn:
    """End without Python's own tidying up, which takes half a second with torch."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code & 0xFF)


def _new_randomness() -> None:
    """Generators that a fresh interpreter would have seeded from the system's entropy."""
    random.seed()
    if "numpy.random" in sys.modules:  # if not, it seeds itself when it is imported
        sys.modules["numpy"].random.seed()


def _wait(pid: int, connection: socket.socket) -> int | None:
    """The exit code of ``pid``; None where the engine has gone first."""
    ended = os.pidfd_open(pid)
    try:
        ready = select.select([ended, connection.fileno()], [], [])[0]
    finally:
        os.close(ended)
    if connection.fileno() in ready and ended not in ready:  # the engine says nothing while it waits: it has gone
        return None
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _kill_children() -> None:
    """Kill all children of this process until none is left; children of these become its own."""
    while True:
        _reap()
        children = _children()
        if not children:
            return
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _reap() -> None:
    """Take note of the children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _children() -> list[int]:
    """The children of this process, which has one thread.

    Linux's own list is read at once: what forks and ends is caught before it ends.
    """
    try:
        return [int(number) for number in Path(f"/proc/self/task/{os.getpid()}/children").read_bytes().split()]
    except OSError:  # a kernel without it
        return [int(process.name) for process in Path("/proc").glob("[0-9]*") if _parent(process) == os.getpid()]


def _parent(process: Path) -> int | None:
    try:
        return int((process / "stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):  # it ended
        return None
