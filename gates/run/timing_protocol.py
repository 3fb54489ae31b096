"""What all modules of the timing job agree on: constants of the procedure, and how it is stopped."""

from __future__ import annotations

SINGLE_PAIRS = 12
MAX_SEED = 2**31 - 1 - 1000


class Stopped(Exception):
    """Timing can't go on; ``code`` is the gate's reason code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
