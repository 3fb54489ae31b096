"""Hold a process back, so that it can start before it knows its job, or while the device is somebody else's.

The engine holds a lock on a file, and the process waits for the lock. The system releases it when the engine dies. The engine writes its
message into the file before it releases the lock. If there is no message, the run is over, and the process leaves the device alone.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

from gates.core.errors import EXIT_HOLD, GatesError


class Turn:
    """The engine's side of the wait. It creates the file ``path``. Leaving the context ends the wait without giving the turn."""

    def __init__(self, path: Path) -> None:
        self.path, self._came = path, float("inf")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb", buffering=0)
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def come(self, told: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Let the processes continue, and send them ``told``, JSON data."""
        if not self._file.closed:
            self._file.write(json.dumps(dict(told)).encode())
            self.close()

    @property
    def is_awaited(self) -> bool:
        """Whether a process has begun to wait for it."""
        return _mark(self.path).exists()

    def since(self, started: float) -> float:
        """Return when the time limit of a process that started at ``started`` begins: now, while it still waits."""
        return max(started, min(self._came, time.monotonic()))

    def close(self) -> None:
        """End the wait; the time of a process that does something else than wait begins, too."""
        self._came = min(self._came, time.monotonic())
        self._file.close()

    def __enter__(self) -> Turn:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def wait(path: str) -> dict[str, Any]:
    """Wait for the turn, and return the engine's message. Raises GatesError if the wait ends without the turn."""
    _mark(path).touch()
    with open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        try:
            told: dict[str, Any] = json.loads(file.read())
        except ValueError:  # nothing, or a part
            raise GatesError("the run ended before this process had its turn", hint="run it again", exit_code=EXIT_HOLD) from None
        return told


def _mark(path: str | Path) -> Path:
    return Path(f"{path}.awaited")
