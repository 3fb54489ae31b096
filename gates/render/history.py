"""The history of runs as a table for a terminal, as CSV, and as JSON data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gates.core.records import to_json
from gates.core.text import plain

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


def history_table(entries: Sequence[Entry]) -> str:
    """The runs as plain text, the newest last in each task and device; broken ones follow with their reasons."""
    sound = [entry for entry in entries if not entry.broken]
    broken = [entry for entry in entries if entry.broken]
    parts = []
    if sound:
        table = frame(sound)
        shown = table[["task", "device"]].map(plain).apply(lambda column: column.str.ljust(column.str.len().max()))
        shown["started (UTC)"] = table["started"].str.slice(0, 16).str.replace("T", " ")
        for title, column, form, unit in _COLUMNS:
            if column != "limit_pct" or table[column].notna().any():
                shown[title] = [f"{value:{form}}{unit}" if value == value else "-" for value in table[column]]
        shown["decision"] = table["decision"]
        shown["run"] = [plain(_run_name(entry)) for entry in sound]
        parts.append(shown.to_string(index=False, justify="left"))
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
