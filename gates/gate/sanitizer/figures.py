"""Counts of launches and findings that must add up, whatever the verdict is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def contradictions(evidence: Any) -> Iterator[str]:
    """Yield what does not add up in the evidence, one sentence each."""
    if len({(run.tool, run.order, run.shapes) for run in evidence.runs}) < len(evidence.runs):
        yield "a run appears twice"
    each = {run.expected_launches / len(run.shapes) for run in evidence.runs if run.shapes}
    if len(each) > 1 or 0 in each:
        yield f"the runs expect {', '.join(f'{count:g}' for count in sorted(each))} launches per shape"
    for run in evidence.runs:
        told = sum(finding.severity in ("error", "library") for finding in run.findings)
        if run.summary_errors is not None and run.summary_errors < min(told, 1):
            yield f"{run.tool} tells of {told} errors and counts {run.summary_errors}"
        if run.launches > run.expected_launches or len(set(run.shapes)) < len(run.shapes):
            yield f"{run.tool} {run.order} has {run.launches} launches of {run.expected_launches}, on the shapes {', '.join(run.shapes)}"
        if not run.cause.startswith("killed" if run.timed_out or run.returncode < 0 else f"exit {run.returncode}"):
            yield f"{run.tool} {run.order} ended with {run.cause}, its exit code is {run.returncode}"
