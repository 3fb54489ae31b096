"""Process a large tensor in pieces whose intermediate results fit into a core's cache."""

from __future__ import annotations

from collections.abc import Iterator

ELEMENTS = 2**16  # per piece


def pieces(count: int) -> Iterator[slice]:
    """Yield slices that make up a flat tensor of ``count`` elements; one empty slice if there are none."""
    for begin in range(0, max(count, 1), ELEMENTS):
        yield slice(begin, min(begin + ELEMENTS, count))
