"""Take rights from this process, and from all that it starts, before it runs untrusted code.

    calls     a seccomp filter refuses sockets, changes of files' mode, owner, times and attributes, other processes' memory and
              limits, mounts and name spaces, and calls that could bypass it (``gates.worker.syscall_filter``); if ``processes`` is false
              also new processes and programs, and any signal except to itself
    files     Landlock: files can be written, made and removed only in the given folders, on a few devices, in shared memory
              (/dev/shm, unless one of the folders is there) and in this process's own
              folder of /proc (starting CUDA writes there; other processes' memory stays closed, see below); other processes'
              folders in /proc can't be listed
    others    Landlock: no process outside can be traced or read; from version 6 on none gets a signal either
    rights    root's capabilities are dropped: limits can't be raised, and files of other users can't be opened
    memory    RLIMIT_DATA, unless a CUDA driver maps memory itself
    limits    on file size, on processor time, and on processes if the user is not root; no core dump

None of it needs privileges, and none of it can be undone. If the system lacks one of these (an old kernel, another
operating system), ``enter`` reports it and applies the rest. Reading files is not restricted.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import platform
import resource
import struct
from collections.abc import Sequence
from pathlib import Path

from gates.worker import syscall_filter

_NO_NEW_PRIVS, _DROP_CAPABILITY, _AMBIENT, _CLEAR_ALL = 38, 24, 47, 4  # prctl
_CAPABILITIES, _CAPABILITY_VERSION = 64, 0x20080522
MOST_FILE_BYTES = 2**30  # of one that a kernel's process writes
_MOST_PROCESSES = 1024  # beyond those that the user has
_DEVICES = (
    "null",
    "zero",
    "full",
    "random",
    "urandom",
    "tty",
    "ptmx",
    "pts",
    "dri",
    "nvidia*",
    "kfd",
    "dxg",
)  # in /dev; block devices are not
_SHARED_MEMORY = Path("/dev/shm")
_RULESET, _RULE, _RESTRICT = 444, 445, 446  # Landlock's system calls, the same on every machine
_WRITE = sum(1 << bit for bit in (1, 4, 5, 6, 7, 8, 9, 10, 11, 12))  # write, remove and make each kind of file
_WRITE_FILE, _READ_FOLDER = 1 << 1, 1 << 3
_REFER, _TRUNCATE, _SIGNALS, _ABSTRACT = 1 << 13, 1 << 14, 1 << 1, 1 << 0
_PATH_BENEATH = 1


def enter(
    writable: Sequence[Path],
    *,
    memory_bytes: int | None = None,
    local_sockets: bool = False,
    processes: bool = True,
    file_bytes: int | None = None,
    cpu_s: float | None = None,
) -> dict[str, str]:
    """Confine this process for good. Return what is in force: {"calls", "files", "others", "processes", "memory": "denied" or why not}.

    Call it before threads are started: it holds for the calling thread and what that starts. ``writable`` folders must
    exist. ``local_sockets`` leaves unix and netlink sockets open, which device drivers use. ``processes``: may start others.
    ``file_bytes``, ``cpu_s``: limits on one file and on processor time; None: not limited.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if platform.system() != "Linux" or libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return dict.fromkeys(("calls", "files", "others", "processes", "memory"), f"not denied: {platform.system()} has no means for it")
    for what, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, file_bytes), (resource.RLIMIT_CPU, cpu_s)):
        if most is not None:
            _limit(what, math.ceil(most))
    allowed = _limit_processes() if processes else ""
    files, others = _deny_files(libc, writable)
    _give_up_capabilities(libc)
    calls = syscall_filter.deny(libc, local_sockets=local_sockets, processes=processes)
    return {"calls": calls, "files": files, "others": others, "processes": allowed or calls, "memory": _limit_memory(memory_bytes)}


def deny_writes(writable: Sequence[Path]) -> str:
    """Let this process, and all that it starts, write beneath ``writable``, to devices, shared memory and /proc alone: "denied", or why
    not.

    Other processes' memory and open files are closed to it; their environment can be read. Weaker than ``enter``, which
    can still be called afterwards: compilers, profilers and whole runs of gates work under it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if platform.system() != "Linux" or libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return f"not denied: {platform.system()} has no means for it"
    return _deny_files(libc, [*writable, Path("/proc")], listing=True)[0]


def caches(folder: Path) -> dict[str, str]:
    """Return the environment that makes compilers in a confined process keep their files in ``folder``."""
    places = {
        "TMPDIR": "",
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "TRITON_CACHE_DIR": "triton",
        "TORCH_EXTENSIONS_DIR": "extensions",
        "CUDA_CACHE_PATH": "cuda",
        "NUMBA_CACHE_DIR": "numba",
        "CUPY_CACHE_DIR": "cupy",
        "WARP_CACHE_PATH": "warp",
        "TILELANG_CACHE_DIR": "tilelang",
        "CUTE_DSL_CACHE_DIR": "cute_dsl",
        "CUDA_TILE_CACHE_DIR": "cuda_tile",
    }
    return {name: str(folder / place) for name, place in places.items()}


def default_memory_bytes() -> int:
    """Return three quarters of this machine's memory, bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4 * 3


def _give_up_capabilities(libc: ctypes.CDLL) -> None:
    """For good: what is started as root gets none either, by the bounding set."""
    for capability in range(_CAPABILITIES):
        libc.prctl(_DROP_CAPABILITY, capability, 0, 0, 0)  # refused where there are none to give up
    libc.prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24))


def _deny_files(libc: ctypes.CDLL, writable: Sequence[Path], *, listing: bool = False) -> tuple[str, str]:
    """``listing``: folders may be listed wherever they lie."""
    version = libc.syscall(_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return ("not denied: no Landlock here",) * 2
    listable = None if listing else _listable()
    listing = listable is None
    rights = _WRITE | (0 if listing else _READ_FOLDER) | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    scoped = _SIGNALS | _ABSTRACT if version >= 6 else 0
    given = struct.pack("QQQ", rights, 0, scoped)[: 24 if version >= 6 else 8]
    ruleset = libc.syscall(_RULESET, given, ctypes.c_size_t(len(given)), ctypes.c_uint32(0))
    if ruleset < 0:
        return (f"not denied: {os.strerror(ctypes.get_errno())}",) * 2
    try:
        for path in (*writable, Path("/proc/self"), *_devices(writable)):
            with contextlib.suppress(FileNotFoundError):
                place = os.open(path, os.O_PATH | os.O_CLOEXEC)
                allowed = rights if path.is_dir() else rights & (_WRITE_FILE | _TRUNCATE)  # a file's rule takes no rights of a folder
                libc.syscall(_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", allowed, place), ctypes.c_uint32(0))
                os.close(place)
        for path in listable or ():
            with contextlib.suppress(OSError):
                place = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)
                libc.syscall(_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", _READ_FOLDER, place), ctypes.c_uint32(0))
                os.close(place)
        if libc.syscall(_RESTRICT, ruleset, ctypes.c_uint32(0)) != 0:
            return (f"not denied: {os.strerror(ctypes.get_errno())}",) * 2
    finally:
        os.close(ruleset)
    return "denied", "denied" if scoped else "signals not denied: Landlock is of version " + str(version)


def _listable() -> list[Path] | None:
    """Folders whose content may be listed: all but the root's own and those of other processes in /proc.

    None: this process is confined already, and that holds for whatever it confines anew.
    """
    proc, found = Path("/proc"), []
    for folder in (proc, Path("/")):
        try:
            found += [path for path in folder.iterdir() if path != proc and not (folder == proc and path.name.isdigit())]
        except PermissionError:
            return None
    return found


def _devices(writable: Sequence[Path]) -> list[Path]:
    found = [path for name in _DEVICES for path in Path("/dev").glob(name)]
    shared = not any(_SHARED_MEMORY in folder.resolve().parents for folder in writable)
    return [*found, _SHARED_MEMORY] if shared else found


def _limit_processes() -> str:
    if os.getuid() == 0:
        return "not limited: Linux counts none of root's"
    count = sum(_tasks(process) for process in Path("/proc").glob("[0-9]*"))
    return f"limited to {count + _MOST_PROCESSES}" if _limit(resource.RLIMIT_NPROC, count + _MOST_PROCESSES) else "not limited"


def _tasks(process: Path) -> int:
    """Threads of a process of this user."""
    try:
        return len(os.listdir(process / "task")) if process.stat().st_uid == os.getuid() else 0
    except OSError:  # it ended
        return 0


def _limit(what: int, most: int) -> bool:
    """Set a limit, or leave the lower one that holds already."""
    _, hard = resource.getrlimit(what)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    try:
        resource.setrlimit(what, (most, most))
    except (ValueError, OSError):
        return False
    return True


def _limit_memory(size: int | None) -> str:
    if size is None:
        return "not limited"
    return f"limited to {size / 2**30:.3g} GiB" if _limit(resource.RLIMIT_DATA, size) else "not limited"
