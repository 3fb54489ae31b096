"""A lock that the system lets go when its holder dies, on a folder or on a file that is made for it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def locked(path: Path, *, alone: bool = True, wait: bool = True) -> Iterator[None]:
    """Wait for ``path`` and hold it for one thread of one process; not ``alone``: together with others that do not want it alone.

    Raises OSError if the file can't be opened, and BlockingIOError if another process holds it and ``wait`` is False.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)
