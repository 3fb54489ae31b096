"""Wait until someone saves a file that a candidate is made of."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from gates.core.errors import GatesError
from gates.evaluation.overlay import own_files
from gates.task.load import find_task

State = dict[Path, tuple[int, int, int] | None]  # inode, size, and time of the last change in ns; None for a file that is missing
_PAUSE_S, _MOST_PAUSES = 0.1, 20


class Watched:
    """The files of ``task`` and the ``replacing`` ones, as they were when the task was last read. Raises GatesError for a task that can't
    be read at first.
    """

    def __init__(self, task: str, replacing: Iterable[Path] = ()) -> None:
        self._task, self._replacing = task, tuple(replacing)
        self._seen = _state(self._files())

    def read(self) -> None:
        """Record how the files are now, before they are judged. If the task can't be read, the files are those of before, and any that
        comes to their folders.
        """
        try:
            self._seen = _state(self._files())
        except GatesError:
            self._seen = _state(dict.fromkeys([*self._seen, *(path.parent for path in self._seen)]))

    def _files(self) -> Iterable[Path]:
        task = find_task(self._task, environ={})
        return (*task.files(), *own_files(task), *self._replacing)

    def wait(self) -> None:
        """Return when a file differs from what was read, and has stayed the same for a moment: editors write in several steps."""
        while (now := _state(self._seen)) == self._seen:
            time.sleep(_PAUSE_S)
        for _ in range(_MOST_PAUSES):
            time.sleep(_PAUSE_S)
            before, now = now, _state(self._seen)
            if before == now:
                return

    def __len__(self) -> int:
        return len(self._seen)


def _state(files: Iterable[Path]) -> State:
    found: State = {}
    for path in files:
        try:
            seen = path.stat()
            found[path] = seen.st_ino, seen.st_size, seen.st_mtime_ns
        except OSError:
            found[path] = None
    return found
