"""Refuse system calls by a seccomp filter, a program for the kernel's packet filter.

The filter sees a call's number and its arguments as numbers. It sees no paths and nothing behind a pointer.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

from gates.worker import syscalls

_SET_SECCOMP, _FILTER = 22, 2  # prctl
_UNIX, _NETLINK = 1, 16  # address families
_THREAD = 0x00010000  # clone's flag
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
# Operations, and offsets into seccomp_data: each step is (operation, steps to skip if true, if false, value).
_LOAD, _EQUAL, _LEAST, _ANY_OF, _GIVE = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
Step = tuple[int, int, int, int]


def deny(libc: ctypes.CDLL, *, local_sockets: bool, processes: bool) -> str:
    """Put the filter on this thread and all that it starts. Return "denied", or why not. ``processes``: it may start and signal others."""
    if platform.machine() not in syscalls.MACHINES:
        return f"not denied: no filter for {platform.machine()}"
    steps = program(syscalls.MACHINES[platform.machine()], os.getpid(), local_sockets=local_sockets, processes=processes)
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    given = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)))
    if libc.prctl(_SET_SECCOMP, _FILTER, given, 0, 0) != 0:
        return f"not denied: {os.strerror(ctypes.get_errno())}"
    return "denied"


def program(machine: int, pid: int, *, local_sockets: bool, processes: bool) -> list[Step]:
    """Return the filter's steps for the column ``machine`` of the tables and the process ``pid``."""
    steps: list[Step] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, syscalls.AUDIT_ARCHITECTURE[machine]),
        _refuse(),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if (foreign := syscalls.LOWEST_FOREIGN[machine]) is not None:
        steps += [(_LEAST, 0, 1, foreign), _refuse()]
    for table in (syscalls.ATTRIBUTES, syscalls.OTHERS, syscalls.SYSTEM, *(() if processes else (syscalls.PROCESSES,))):
        for numbers in table.values():
            if numbers[machine] is not None:
                steps += [(_EQUAL, 0, 1, numbers[machine]), _refuse()]
    steps += _only(syscalls.PRLIMIT[machine], [(_EQUAL, 0, 1, 0)])  # process 0: its own
    for call in syscalls.SCHEDULING:
        steps += _only(call[machine], [(_EQUAL, 0, 1, 0), (_EQUAL, 0, 1, pid)])
    steps += _only(syscalls.SOCKET[machine], [(_EQUAL, 0, 1, family) for family in ((_UNIX, _NETLINK) if local_sockets else ())])
    if not processes:
        steps += _only(syscalls.CLONE[machine], [(_ANY_OF, 0, 1, _THREAD)])
        steps += [(_EQUAL, 0, 1, syscalls.CLONE3[machine]), _refuse(errno.ENOSYS)]  # the C library then takes clone
        for call in (syscalls.KILL, syscalls.TGKILL):
            steps += _only(call[machine], [(_EQUAL, 0, 1, pid)])
    return [*steps, (_GIVE, 0, 0, _ALLOW)]


def _only(number: int, tests: list[Step]) -> list[Step]:
    """Allow call ``number`` if a test of its first argument is true, else refuse it; other calls continue after these steps."""
    body: list[Step] = [(_LOAD, 0, 0, _FIRST_ARGUMENT)]
    for test in tests:
        body += [test, (_GIVE, 0, 0, _ALLOW)]
    body.append(_refuse())
    return [(_EQUAL, 0, len(body), number), *body]


def _refuse(error: int = errno.EPERM) -> Step:
    return (_GIVE, 0, 0, _ERROR | error)
