"""What a search loop reads of an evaluation: the same text for the same input, 4 KiB at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gates.core.records import GateResult
from gates.render.findings import findings

MOST_BYTES = 4096
_FAULTS = 4


def feedback(gates: Sequence[GateResult], metrics: Mapping[str, float], speed: str) -> str:
    """The faults, causes first, with what to do about the first; of a candidate without any, its figures that are not zero."""
    found = findings(gates)
    lines = []
    for one in found[:_FAULTS]:
        lines.append(f"{one.gate}: {one.head} {one.elsewhere()} [{one.code}]".replace("  ", " "))
        if one is found[0] and one.checks:
            lines += [f"  {line}" for line in (one.checks[0].hint, *one.checks[0].notes) if line]
    if len(found) > _FAULTS:
        lines.append(f"and {len(found) - _FAULTS} more: {', '.join(dict.fromkeys(one.code for one in found[_FAULTS:]))}")
    if not found:
        lines.append("no check failed" + (f"; {speed}" if speed else ""))
        lines.append(", ".join(f"{name} {value:g}" for name, value in metrics.items() if value))
    return cut("\n".join(lines))


def cut(text: str) -> str:
    """The text, or as much of it as is allowed, with a word that it was cut."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= MOST_BYTES:
        return data.decode("utf-8")
    return data[: MOST_BYTES - 8].decode("utf-8", "ignore").rstrip() + " [cut]"
