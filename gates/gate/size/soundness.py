"""Check evidence of sizes: each binary once, and one that the run built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gates.evidence.run_directory import RunInfo, TaskInfo


def contradictions(evidence: Any) -> Iterator[str]:
    """Yield what does not add up in the evidence, one sentence each."""
    names = [binary.name for binary in evidence.binaries]
    if len(set(names)) < len(names):
        yield "a binary appears twice"
    if unknown := sorted({binary.arch for binary in evidence.binaries} - set(evidence.archs)):
        yield f"it has binaries of {', '.join(unknown)}, which were not asked for"


def departures(_info: RunInfo, side: TaskInfo, evidence: Any, _others: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the evidence of ``side`` has otherwise than run.json, one sentence each."""
    for binary in evidence.binaries:
        if side.products.get(binary.name) != binary.sha256:
            yield f"{binary.name} is not the product that run.json names"
