"""Check evidence of compiled resources. ``gates.verify.builds`` compares its figures with the compiler's log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gates.core.kernel_names import misnamed
from gates.evidence.differences import differences
from gates.evidence.run_directory import RunInfo, TaskInfo


def contradictions(evidence: Any) -> Iterator[str]:
    """Yield what does not add up in the evidence, one sentence each."""
    yield from misnamed(evidence.kernels)


def departures(info: RunInfo, side: TaskInfo, evidence: Any, others: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the evidence of ``side`` has otherwise than run.json says, one sentence each."""
    yield from differences([("kernels", evidence.expected_kernels, side.kernels)])
