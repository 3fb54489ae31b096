"""Samples, pairs and figures that must add up, whatever the verdict is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gates.core.records import same_figure, to_json
from gates.gate.performance.evidence import MEASURED, summaries


def contradictions(evidence: Any) -> Iterator[str]:
    """Yield what does not add up in the evidence, one sentence each."""
    if evidence.status != MEASURED:
        return
    yield from _pairs(evidence)
    counted, told = summaries(evidence), evidence.figures
    for mode in dict.fromkeys([*counted, *told]):
        for side in dict.fromkeys([*counted.get(mode, {}), *told.get(mode, {})]):
            ours, theirs = (to_json(figures.get(mode, {}).get(side)) or {} for figures in (counted, told))
            for key in dict.fromkeys([*ours, *theirs]):
                if not same_figure(ours.get(key), theirs.get(key)):
                    yield f"figures.{mode}.{side}.{key} is {theirs.get(key)}, its samples give {ours.get(key)}"


def _pairs(evidence: Any) -> Iterator[str]:
    """Yield what is wrong with the list of blocks: a valid pair has one block of each side, whose launches are the same in each mode."""
    modes, launches = [series.mode for series in evidence.series], dict[str, int]()
    if len(set(modes)) < len(modes):
        yield f"the modes {', '.join(modes)} name one twice"
    for series in filter(None, (*evidence.series, evidence.control, evidence.single)):
        pairs: dict[str, list[int]] = {}
        for block in series.blocks:
            if block.valid:
                pairs.setdefault(block.side, []).append(block.pair)
        if len({tuple(sorted(numbers)) for numbers in pairs.values()}) > 1 or any(
            len(set(numbers)) < len(numbers) for numbers in pairs.values()
        ):
            yield f"{series.mode}: the valid blocks are not one of each side in each pair"
        for side, count in series.launches.items():
            if count != (1 if series is evidence.single else launches.setdefault(side, count)):
                yield f"{series.mode}: a sample of the {side} has {count} launches, {1 if series is evidence.single else launches[side]} elsewhere"
    if evidence.inputs and evidence.inputs.seeds != tuple(range(evidence.seed or 0, (evidence.seed or 0) + len(evidence.inputs.seeds))):
        yield f"the seeds of its inputs do not follow each other from {evidence.seed} on"
