"""Hardware counters of several stages side by side, as plain text."""

from __future__ import annotations

from collections.abc import Sequence

from gates.core.records import shown
from gates.gate.ncu.evidence import NcuEvidence


def counter_table(profiles: Sequence[NcuEvidence]) -> str:
    """One row a metric, one column a task; what could not be read is shown with its reason below."""
    columns: list[dict[str, tuple[str, str]]] = []
    notes = []
    for profile in profiles:
        side = profile.sides.get("candidate")
        problem = profile.message or (side.message if side else "")
        if problem:
            notes.append(f"{profile.task}: {problem}")
        counters = [counter for kernel in (side.kernels if side else ()) for counter in kernel.counters]
        columns.append({counter.metric: (shown(counter.value), counter.unit) for counter in counters})
    width = max(12, *(len(profile.task) for profile in profiles)) + 2
    lines = [f"{'metric':26}{'unit':14}" + "".join(f"{profile.task:>{width}}" for profile in profiles)]
    for metric in dict.fromkeys(name for column in columns for name in column):
        unit = next(column[metric][1] for column in columns if metric in column)
        lines.append(f"{metric:26}{unit:14}" + "".join(f"{column.get(metric, ('-', ''))[0]:>{width}}" for column in columns))
    return "\n".join([*lines, *notes])
