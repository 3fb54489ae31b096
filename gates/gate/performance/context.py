"""What else of a run the performance judge looks at: the correctness limits, which outputs of timed launches keep, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gates.evidence.run_directory import RunInfo


def of_run(_run: Path, info: RunInfo, _evidence: Any) -> dict[str, Any]:
    """Return ``output_limits``, as the run's task has them now."""
    return {"output_limits": info.task.limits.get("correctness", {})}
