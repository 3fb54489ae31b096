"""The best variants of a stage as plain text and as JSON data."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from gates.core.records import to_json
from gates.core.text import plain

if TYPE_CHECKING:
    from gates.review.leaderboard import Elite, Group


def elite_table(found: Elite) -> str:
    """A list a device, shape and baseline, the best first; then what was left out."""
    parts = [_group(group) for group in found.groups] or ["no mergeable run that was timed"]
    if found.not_mergeable:
        parts.append(f"timed and not mergeable: {found.not_mergeable}; `gates history` lists them with their decisions")
    if found.unsound:
        parts.append("\n".join(["not sound:", *(f"  {plain(run)}: {plain(why)}" for run, why in found.unsound)]))
    return "\n\n".join(parts)


def elite_json(found: Elite) -> dict[str, Any]:
    """The same as JSON data."""
    return {"schema_version": 1, **to_json(found)}


def _group(group: Group) -> str:
    over = f"over {group.baseline} ({(group.baseline_digest or '')[:8]})" if group.baseline else "first rung, by p50"
    lines = [
        plain(f"{group.task} on {group.device}, {group.shape}, {group.cache} L2, {over}"),
        f"  {'':2} {'speed-up':>10} {'p50 us':>9}  {'variant':9} run",
    ]
    for number, entry in enumerate(group.best, 1):
        speed = "-" if entry.speedup_pct is None else f"{entry.speedup_pct:+.1f} %"
        lines.append(f"  {number:<2} {speed:>10} {entry.p50_us:9.2f}  {entry.digest[:8]:9} {plain(PurePath(entry.path).name)}")
    return "\n".join(lines)
