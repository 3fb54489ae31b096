"""The places in sources that checks name, and the lines of source that belong to them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from gates.core.records import Check, Status

LINE = re.compile(r"[\w.+-]+\.(?:cu|cuh|h|hpp|cpp|cc|py):\d{1,7}\b")


def is_source(note: str) -> bool:
    """Whether a note is a line of source, as ``gates.task.sources.excerpt`` shows it."""
    return re.match(r"[> ] +\d+ \| ", note) is not None


def place_of(check: Check) -> str:
    """``load.cuh:122``, the last one in the first sentence of a check's hint, after any other access; empty if it names no line."""
    return next(iter(LINE.findall(check.hint.partition(". ")[0])[::-1]), "")


def with_excerpts(checks: Sequence[Check], excerpts: Mapping[str, Sequence[str]]) -> list[Check]:
    """``checks``; the first failed one of each place with the lines of source there, before its other notes."""
    told, shown = [], set[str]()
    for check in checks:
        place = place_of(check) if check.status is Status.FAIL else ""
        if place in excerpts and place not in shown:
            shown.add(place)
            check = dataclasses.replace(check, notes=(*excerpts[place], *check.notes))
        told.append(check)
    return told
