"""Render the two-card figures recorded by studies/two_cards.py for docs/guide/sweep.md and docs/guide/evaluate.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gates.core import jsonio
from gates.render.markdown import table

ARMS = ("one", "two")


def cards_table(recorded: Path) -> str:
    """Return a table of the sweep and the candidates, on one card and on two, and a line on a killed worker's candidates."""
    data = _figures(recorded)
    sweep, evaluations, killed = data["sweep"], data["evaluations"], data["killed_worker"]["two"]
    head = ("", *(f"{number} x {data['cards'][0][0]}, {data['cores'][arm]} cores" for number, arm in enumerate(ARMS, 1)), "ratio")
    rows = [
        (f"sweep of {sweep['one']['variants']} variants", *(f"{sweep[arm]['wall_s']:.0f} s, {sweep[arm]['decision']}" for arm in ARMS)),
        (f"{evaluations['one']['candidates']} candidates", *(f"{evaluations[arm]['wall_s']:.0f} s" for arm in ARMS)),
    ]
    ratios = (f"{part['ratio']:.2f}x" for part in (sweep, evaluations))
    parts = [part[arm] for part in (sweep, evaluations) for arm in ARMS] + [killed]
    lost, twice = (sum(part.get(fault, 0) for part in parts) for fault in ("lost", "judged_twice"))
    overlapping = sum(len(part["overlaps"]) for part in parts)
    return table(head, [(*row, ratio) for row, ratio in zip(rows, ratios, strict=True)], right=(1, 2, 3)) + (
        f"\nA worker was killed in the middle of {killed['candidates']} more candidates. Lost: {lost}. Judged twice: {twice}. "
        f"Overlapping timings on one card: {overlapping}.\n"
    )


def candidates_line(recorded: Path) -> str:
    """Return how many candidates per minute were judged on one card and on two."""
    found = _figures(recorded)["evaluations"]
    per_minute, timed = [f"{found[arm]['per_minute']:.0f}" for arm in ARMS], found["one"]["timings"]
    of = f"{timed} of {found['one']['candidates']} were timed"
    return f"Judged per minute: {per_minute[0]} candidates on one H200, {per_minute[1]} on two; {of}.\n"


def _figures(recorded: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = jsonio.read(recorded / "h200" / "two-cards.json")
    return found
