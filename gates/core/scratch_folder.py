"""Temporary folders that a kill -9 does not leave for ever: each is locked while its owner lives, and the next one removes those that are
not.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

_YOUNG_S = 60.0  # perhaps made but not yet locked


class ScratchFolder:
    """A new folder ``prefix``… in ``parent``, locked; as a context manager it gives its path and is removed at the end.

    First removes folders of that prefix and of this user that no living process holds. Raises OSError where
    ``parent`` can't be written.
    """

    def __init__(self, parent: Path, prefix: str) -> None:
        _sweep(parent, prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        self._lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder, if it still has its name, and let go of the lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _sweep(parent: Path, prefix: str) -> None:
    for path in parent.glob(f"{prefix}*"):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = os.fstat(descriptor)
            if found.st_uid == os.getuid() and found.st_mtime < time.time() - _YOUNG_S:
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass
        finally:
            os.close(descriptor)
