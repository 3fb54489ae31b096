"""Takes rights away from this process, and from all that it starts, before it runs code that nobody vouches for.

    network   a seccomp filter refuses sockets (and io_uring, which could make them)
    files     Landlock: nothing can be written, made or removed but beneath the folders named, to a few devices, in shared memory
              (/dev/shm, unless a folder named lies there: what is beside it is not to be written) and in this process's own
              folder of /proc (starting CUDA writes there; other processes' memory stays closed, see below)
    others    Landlock: no process outside can be traced or read; from version 6 on none gets a signal either; the filter refuses
              to change another process's limits
    memory    RLIMIT_DATA, where no CUDA driver maps memory on its own account

None of it needs privileges, and none of it can be undone. Where the system lacks one of the two (an old kernel, another
operating system), ``enter`` says so and the rest holds. Reading files is not restricted.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import struct
from collections.abc import Sequence
from pathlib import Path

_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 38, 22, 2  # prctl
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 1  # seccomp: allow; errno EPERM
_UNIX, _NETLINK = 1, 16  # address families
_IO_URING_SETUP = 425
# machine: (audit architecture, number of socket, number of prlimit64, lowest number of a foreign calling convention or 0)
_MACHINES = {"x86_64": (0xC000003E, 41, 302, 0x40000000), "aarch64": (0xC00000B7, 198, 261, 0)}
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "dri", "nvidia*", "kfd", "dxg")  # in /dev; block devices are not
_SHARED_MEMORY = Path("/dev/shm")
_RULESET, _RULE, _RESTRICT = 444, 445, 446  # Landlock's system calls, the same on every machine
_WRITE = sum(1 << bit for bit in (1, 4, 5, 6, 7, 8, 9, 10, 11, 12))  # write, remove and make each kind of file
_WRITE_FILE = 1 << 1
_REFER, _TRUNCATE, _SIGNALS, _ABSTRACT = 1 << 13, 1 << 14, 1 << 1, 1 << 0
_PATH_BENEATH = 1


def enter(writable: Sequence[Path], *, memory_bytes: int | None = None, local_sockets: bool = False) -> dict[str, str]:
    """Confine this process for good; returns what holds, as {"network", "files", "others", "memory": "denied" or why not}.

    Call it before threads are started: it holds for the calling thread and what that starts. ``writable`` folders must
    exist. ``local_sockets`` leaves unix and netlink sockets open, which device drivers use.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if platform.system() != "Linux" or libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return dict.fromkeys(("network", "files", "others", "memory"), f"not denied: {platform.system()} has no means for it")
    network = _deny_sockets(libc, local_sockets)
    files, others = _deny_files(libc, writable)
    return {"network": network, "files": files, "others": others, "memory": _limit_memory(memory_bytes)}


def caches(folder: Path) -> dict[str, str]:
    """Environment under which compilers that run inside a confined process keep what they make in ``folder``."""
    places = {
        "TMPDIR": "", "TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton", "TORCH_EXTENSIONS_DIR": "extensions",
        "CUDA_CACHE_PATH": "cuda",
    }
    return {name: str(folder / place) for name, place in places.items()}


def default_memory_bytes() -> int:
    """Three quarters of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4 * 3


def _deny_sockets(libc: ctypes.CDLL, local: bool) -> str:
    if platform.machine() not in _MACHINES:
        return f"not denied: no filter for {platform.machine()}"
    arch, socket, limits, foreign = _MACHINES[platform.machine()]
    # Each step is (code, jump if true, jump if false, value); offsets into seccomp_data: 0 number, 4 architecture, 16 first argument.
    load, equal, least, give = 0x20, 0x15, 0x35, 0x06
    families = (_UNIX, _NETLINK) if local else ()
    steps = [(load, 0, 0, 4), (equal, 1, 0, arch), (give, 0, 0, _REFUSE), (load, 0, 0, 0)]
    if foreign:
        steps += [(least, 0, 1, foreign), (give, 0, 0, _REFUSE)]
    steps += [(equal, 0, 1, _IO_URING_SETUP), (give, 0, 0, _REFUSE)]
    steps += [(equal, 0, 4, limits), (load, 0, 0, 16), (equal, 0, 1, 0), (give, 0, 0, _ALLOW), (give, 0, 0, _REFUSE)]  # process 0: its own
    steps += [(equal, 1, 0, socket), (give, 0, 0, _ALLOW), (load, 0, 0, 16)]
    for family in families:
        steps += [(equal, 0, 1, family), (give, 0, 0, _ALLOW)]
    steps.append((give, 0, 0, _REFUSE))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)))
    if libc.prctl(_SET_SECCOMP, _FILTER, program, 0, 0) != 0:
        return f"not denied: {os.strerror(ctypes.get_errno())}"
    return "denied"


def _deny_files(libc: ctypes.CDLL, writable: Sequence[Path]) -> tuple[str, str]:
    version = libc.syscall(_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return ("not denied: no Landlock here",) * 2
    rights = _WRITE | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
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
        if libc.syscall(_RESTRICT, ruleset, ctypes.c_uint32(0)) != 0:
            return (f"not denied: {os.strerror(ctypes.get_errno())}",) * 2
    finally:
        os.close(ruleset)
    return "denied", "denied" if scoped else "signals not denied: Landlock is of version " + str(version)


def _devices(writable: Sequence[Path]) -> list[Path]:
    found = [path for name in _DEVICES for path in Path("/dev").glob(name)]
    shared = not any(_SHARED_MEMORY in folder.resolve().parents for folder in writable)
    return [*found, _SHARED_MEMORY] if shared else found


def _limit_memory(size: int | None) -> str:
    if size is None:
        return "not limited"
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))
    except (ValueError, OSError) as error:
        return f"not limited: {error}"
    return f"limited to {size / 2**30:.3g} GiB"
