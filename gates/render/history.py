"""The history of runs as a table for a terminal, as CSV, and as JSON data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gates.core.records import to_json
from gates.core.text import plain
from gates.render.markdown import columns

if TYPE_CHECKING:
    import pandas

    from gates.review.history import Entry

_NUMBERS = ("p50_us", "p90_us", "baseline_p50_us", "speedup_pct", "limit_pct")
_COLUMNS = (  # title, field, form, unit
    ("p50 us", "p50_us", ".2f", ""),
    ("p90 us", "p90_us", ".2f", ""),
    ("speed-up", "speedup_pct", "+.1f", " %"),
    ("of the limit", "limit_pct", ".0f", " %"),
)


def frame(entries: Sequence[Entry]) -> pandas.DataFrame:
    """One row a run, in the order given; the columns are an entry's fields, with NaN where a run has no figure."""
    import pandas

    table = pandas.DataFrame([to_json(entry) for entry in entries])
    return table.astype(dict.fromkeys(_NUMBERS, float))


def history_table(entries: Sequence[Entry], width: int | None = None) -> str:
    """The runs as plain text, the newest last in each task and device; broken ones follow with their reasons.

    In a terminal of ``width`` characters that is too narrow, a run's path is below its row.
    """
    sound = [entry for entry in entries if not entry.broken]
    broken = [entry for entry in entries if entry.broken]
    parts = []
    if sound:
        figures = [column for column in _COLUMNS if column[1] != "limit_pct" or any(entry.limit_pct is not None for entry in sound)]
        rows = [
            (
                entry.task,
                entry.device,
                entry.started[:16].replace("T", " "),
                *(f"{value:{form}}{unit}" if (value := getattr(entry, name)) is not None else "-" for _, name, form, unit in figures),
                entry.decision,
                _run_name(entry),
            )
            for entry in sound
        ]
        headers = ("task", "device", "started (UTC)", *(title for title, *_ in figures), "decision", "run")
        lines = columns(headers, rows, right=range(3, 3 + len(figures)))
        if width is not None and max(map(len, lines)) > width:  # a path that is broken can't be copied: it gets a line of its own
            short = columns(headers[:-1], [row[:-1] for row in rows], right=range(3, 3 + len(figures)))
            lines = [short[0], *(part for line, row in zip(short[1:], rows, strict=True) for part in (line, f"  {plain(row[-1])}"))]
        parts.append("\n".join(lines))
    if broken:
        parts.append("\n".join(["can't be read:", *(f"  {plain(entry.path)}: {plain(entry.broken)}" for entry in broken)]))
    return "\n\n".join(parts)


def _run_name(entry: Entry) -> str:
    """The run as commands take it, whose name tells a dirty tree, and a mark where not all is as task.yaml says."""
    return entry.path + (f" (with {', '.join(entry.overridden)} set)" if entry.overridden else "")


def history_csv(entries: Sequence[Entry]) -> str:
    """The runs as CSV with a header line, figures in full; text as in the table, on one line and harmless to a terminal."""
    return frame(entries).map(lambda value: plain(value) if isinstance(value, str) else value).to_csv(index=False, lineterminator="\n")


def history_json(entries: Sequence[Entry]) -> dict[str, Any]:
    """The runs as JSON data."""
    return {"schema_version": 1, "runs": to_json(tuple(entries))}
