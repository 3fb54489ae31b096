"""How long each part of a piece of work took."""

from __future__ import annotations

import time
from collections.abc import Callable


class Phases:
    """``seconds``: by the names of the parts that have ended, each since the one before it, the first since this was made."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds: dict[str, float] = {}
        self._clock, self._began = clock, clock()

    def ended(self, name: str) -> None:
        """``name`` has ended now."""
        now = self._clock()
        self.seconds[name], self._began = round(now - self._began, 3), now
