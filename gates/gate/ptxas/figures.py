"""Figures of compiled resources that must add up: none by themselves. ``gates.verify.builds`` compares them with the compiler's log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def contradictions(evidence: Any) -> Iterator[str]:
    """Yield what does not add up in the evidence: nothing."""
    yield from ()
