"""What else of a run the ncu judge looks at: the times that the performance gate was told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gates.evidence.run_directory import RunInfo, read_record
from gates.gate.registry import ROWS


def of_run(run: Path, _info: RunInfo, evidence: Any) -> dict[str, Any]:
    """Return ``timed_us``: side -> claimed p50 of a cold launch of the same shape, us; empty if the run did not measure it."""
    if not (run / "performance.json").is_file():
        return {"timed_us": {}}
    timed = read_record(ROWS["performance"].evidence(), run, "performance.json")
    figures = timed.figures.get("cold", {}) if timed.shape == evidence.shape else {}
    return {"timed_us": {side: one.p50_us for side, one in figures.items()}}
