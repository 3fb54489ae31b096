"""Find the line of a tool's output that names its problem, not its banner or its list of options."""

from __future__ import annotations

import re

_COMPLAINT = re.compile(
    r"error|unrecogni|unknown|invalid|unsupported|not supported|fail|unable|cannot|can't|could not|denied|refus|insufficient", re.IGNORECASE
)
_MOST = 300  # characters


def complaint(text: str) -> str:
    """Return the first line that reports a problem, else the last line, without leading marks; empty for an empty text."""
    lines = [line for line in (line.strip().lstrip("=").strip() for line in text.splitlines()) if line]
    return (next(filter(_COMPLAINT.search, lines), lines[-1]) if lines else "")[:_MOST]
