"""What a gate's evidence says otherwise than run.json, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gates.evidence.run_directory import RunInfo, TaskInfo

Told = Iterator[tuple[str, Any, Any]]  # (what, as the evidence has it, as run.json has it)


def differences(told: Iterable[tuple[str, Any, Any]]) -> Iterator[str]:
    """Yield one sentence for each thing whose two values differ."""
    yield from (f"{what} is {_text(ours)}, run.json gives {_text(theirs)}" for what, ours, theirs in told if ours != theirs)


def stages(info: RunInfo, side: TaskInfo, field: str, evidence: Any) -> Told:
    """The names of the stage, which is in ``field`` of the evidence, and of its baseline, if the evidence has one."""
    yield field, getattr(evidence, field), side.name
    if evidence.baseline is not None:
        yield "baseline", evidence.baseline, info.baseline.name if info.baseline else None


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, (list, tuple)) else str(value)
