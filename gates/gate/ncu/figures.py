"""Launches and counters that must add up, whatever the verdict is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def contradictions(evidence: Any) -> Iterator[str]:
    """Yield what does not add up in the evidence, one sentence each."""
    for role, side in evidence.sides.items():
        for one in side.kernels:
            if f"{one.kernel} #{one.launch}" not in side.launches:
                yield f"sides.{role}: launch {one.launch} of {one.kernel} is not in its list of launches"
        if len(set(side.launches)) < len(side.launches):
            yield f"sides.{role}: a launch appears twice"
    metrics = {tuple(counter.metric for counter in one.counters) for side in evidence.sides.values() for one in side.kernels}
    if len(metrics) > 1 or any(len(set(names)) < len(names) for names in metrics):
        yield "the kernels have not the same counters, each once"
