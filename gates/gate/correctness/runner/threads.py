"""Let small pieces of torch's work run in one thread.

Torch shares work of 32768 elements and more out to a thread per core. These threads then wait for more work without sleeping. Beside
a kernel's process and on a busy machine that costs such small pieces more time than it saves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread on the CPU within the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
