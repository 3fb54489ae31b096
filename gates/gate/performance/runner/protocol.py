"""What all modules of the timing job agree on: constants of the procedure, and how it is stopped."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from gates.gate.performance import codes

SINGLE_PAIRS = 12
MAX_SEED = 2**31 - 1 - 1000


class Stopped(Exception):
    """Timing can't go on; ``code`` is the gate's reason code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@contextlib.contextmanager
def telling_stops(writer: Any, wanted: str) -> Iterator[None]:
    """Write a ``stopped`` line to ``writer`` (``gates.worker.job.ResultWriter``) if the block
    is stopped or has no memory for ``wanted``.
    """
    try:
        yield
    except Stopped as stop:
        writer.write("stopped", code=stop.code, message=str(stop))
    except MemoryError:
        writer.write("stopped", code=codes.NO_MEMORY, message=f"not enough host memory for {wanted}")
