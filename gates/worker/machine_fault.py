"""Distinguish a fault of this machine (no space, memory or processes) from a fault of the code that is built or run.

One sign is a tool's output: the system's own words, or a signal that no source causes. Some tools give no useful message: on a full
disk nvcc prints "Invalid argument" and leaves half a cubin with exit code 0. So, if no source explains a failure, the free space
in the folders and the limits of the process are checked too.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from gates.core.errors import GatesError

TEMPORARY_BYTES = 4 * 2**20  # what a compiler writes into TMPDIR for a small kernel
_LITTLE_BYTES = 32 * 2**20  # of free room: a failure without another reason is put down to it
_FEW_FILES = 64
_LITTLE_STACK = 2 * 2**20  # compilers and ninja break without a word
_TEMPORARY = ("TMPDIR", "TMP", "TEMP")
_NOT_FOR_NVCC = {",": "a comma", '"': "a double quote", "$": "a dollar sign", "`": "a backquote"}
_SPACE = "free space there, or name another folder (TMPDIR for temporary files, --build-dir, --results)"
_MEMORY = "close other programs, build with fewer jobs (GATES_JOBS=1 or --jobs 1), or lift the limit on memory (ulimit -v unlimited)"
MEMORY_OF_A_KERNEL = "close other programs, give this container or control group more memory, or try smaller shapes"
_LIMIT = "lift the limit (ulimit -n for open files, ulimit -u for processes), or build with fewer jobs (GATES_JOBS=1 or --jobs 1)"
_FSIZE = "lift the limit on file sizes (ulimit -f unlimited)"
_READ_ONLY = "name a folder that can be written (TMPDIR for temporary files, --build-dir, --results)"
_STACK = "lift the limit on the stack (ulimit -s 8192)"
_TIME = "lift the limit on processor time (ulimit -t unlimited)"

# The system's words as a tool repeats them: after a colon, a bracket or a quote. Then what to do.
_WORDS = [
    (re.compile(rf"(?:^|[:\]'\"(] ?)(?:{words})\b", re.IGNORECASE), todo)
    for words, todo in (
        (r"No space left on device|Disk quota exceeded|Input/output error|Stale file handle", _SPACE),
        (
            r"Cannot allocate memory|virtual memory exhausted|out of memory(?: allocating|\s*$)|memory "
            r"exhausted|std::bad_alloc|MemoryError\s*$",
            _MEMORY,
        ),
        (r"Too many open files|Resource temporarily unavailable", _LIMIT),
        (r"File too large|File size limit exceeded", _FSIZE),
        (r"Read-only file system", _READ_ONLY),
    )
] + [
    (re.compile(words, re.IGNORECASE), todo)
    for words, todo in (
        (r"failed to map segment from shared object|bad_alloc'?\s*$|what\(\): +std::bad_alloc", _MEMORY),
        (r"\b(?:Killed|Terminated) signal terminated program|died due to signal 9\b", _MEMORY),
        (r"File size limit exceeded signal terminated program|died due to signal 25\b", _FSIZE),
        (r"Bus error signal terminated program|died due to signal 7\b", _SPACE),
        (r"CPU time limit exceeded signal terminated program|died due to signal 24\b", _TIME),
        (
            r"Could not open output file|Output file '[^']*' could not be opened|cannot (?:create|open) temporary file|\bwhen writing "
            r"output to |\berror writing to /|error while writing generated",
            _SPACE,
        ),
    )
]
_SIGNALS = {
    "SIGKILL": _MEMORY,
    "SIGTERM": "start it again: another program of this machine ended it",
    "SIGBUS": _SPACE,
    "SIGXFSZ": _FSIZE,
    "SIGXCPU": _TIME,
}
_OF_SOURCE = re.compile(r"^\s|#\s*(?:error|warning)\b|static.assert", re.IGNORECASE)  # echoed lines, and words that the source gives


class MachineFault(GatesError):
    """A lack of this machine: exit code 2, and no verdict about any kernel."""


def fault_in(text: str, cause: str = "") -> tuple[str, str] | None:
    """Return (the line of a tool's output, or its end ``cause``, that shows a fault of this machine; what to do), or None."""
    for line in text.splitlines():
        if _OF_SOURCE.search(line):
            continue
        for words, todo in _WORDS:
            if words.search(line):
                return line.strip()[:300], todo
    signal = next((name for name in _SIGNALS if cause == f"killed by {name}"), None)
    return (cause, _SIGNALS[signal]) if signal else None


def shortage(folders: Iterable[Path]) -> tuple[str, str] | None:
    """Return (what this machine lacks now: space in one of ``folders``, or a limit on this process; what to do), or None."""
    for folder in folders:
        try:
            found = os.statvfs(folder)
        except OSError as error:
            return f"{folder}: {error.strerror}", _READ_ONLY
        if found.f_bavail * found.f_frsize < _LITTLE_BYTES:
            return f"{folder} has {found.f_bavail * found.f_frsize / 2**20:.1f} MiB free", _SPACE
    for name, what, least, todo in (
        (resource.RLIMIT_AS, "memory", None, _MEMORY),
        (resource.RLIMIT_FSIZE, "the size of a file", None, _FSIZE),
        (resource.RLIMIT_NOFILE, "open files", _FEW_FILES, _LIMIT),
        (resource.RLIMIT_STACK, "the stack", _LITTLE_STACK, _STACK),
    ):
        limit = resource.getrlimit(name)[0]
        if limit != resource.RLIM_INFINITY and (least is None or limit < least):
            return f"this process has a limit of {limit} {'files' if name == resource.RLIMIT_NOFILE else 'bytes'} on {what}", todo
    return None


def memory_kills(root: Path = Path("/")) -> int:
    """Return how many processes the system has killed for want of memory: of this control group, or of the whole machine where groups do
    not count.
    """
    for counter in _counters(root):
        with contextlib.suppress(OSError):
            if found := re.search(r"^oom_kill (\d+)$", counter.read_text(encoding="ascii"), re.MULTILINE):
                return int(found[1])
    return 0


def _counters(root: Path) -> Iterator[Path]:
    mount = root / "sys" / "fs" / "cgroup"
    with contextlib.suppress(OSError):
        for line in (root / "proc" / "self" / "cgroup").read_text(encoding="utf-8", errors="replace").splitlines():
            _, controllers, group = line.split(":", 2)
            if not controllers:  # version 2
                yield mount / group.lstrip("/") / "memory.events"
            elif "memory" in controllers.split(","):
                yield mount / "memory" / group.lstrip("/") / "memory.oom_control"
    yield from (mount / "memory.events", mount / "memory" / "memory.oom_control")  # a container whose group has another name outside
    yield root / "proc" / "vmstat"


def check_names(places: Iterable[tuple[str, Path]]) -> None:
    """Raise MachineFault if nvcc can't take one of ``places`` (what it is, path): it passes them to a shell, and lists of them to its
    tools.

    Every other character works: blanks, %, #, quotes like ', letters beyond ASCII.
    """
    for what, path in places:
        if letter := next((letter for letter in _NOT_FOR_NVCC if letter in str(path)), None):
            raise MachineFault(
                f"{what} {path} has {_NOT_FOR_NVCC[letter]} in its name, which nvcc can't take",
                hint="rename the folder, or name another one",
            )


def temporary_folder() -> Path:
    """Return the folder of the compilers' temporary files."""
    return Path(next((os.environ[name] for name in _TEMPORARY if os.environ.get(name)), tempfile.gettempdir()))


def check_temporary() -> None:
    """Raise MachineFault if TMPDIR (or TMP, TEMP) names a folder that can't be used: Python takes another one then, compilers do not."""
    name, folder = next((name for name in _TEMPORARY if os.environ.get(name)), None), temporary_folder()
    told = f"{name}={folder}" if name else f"the folder for temporary files, {folder},"
    other = f"set {name} to another folder, or unset it" if name else "set TMPDIR to another folder"
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, TEMPORARY_BYTES)
    except OSError as error:
        raise MachineFault(
            f"{told} can't be used: {error.strerror}",
            hint=f"make it writable, with at least {TEMPORARY_BYTES // 2**20} MiB free, or {other}",
        ) from None
