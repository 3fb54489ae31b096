"""Check evidence of speed: samples, pairs and figures that add up, and the terms of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gates.core.records import same_figure, to_json
from gates.evidence.differences import Told, differences, stages
from gates.evidence.run_directory import RunInfo, TaskInfo
from gates.gate.performance.evidence import MEASURED, summaries
from gates.gate.performance.thresholds import thresholds

_CLOCKS_S = 0.05  # by which a wall clock may be set back in a few seconds


def contradictions(evidence: Any) -> Iterator[str]:
    """Yield what does not add up in the evidence, one sentence each."""
    for one in evidence.every_shape():
        yield from _of_shape(one) if one is evidence else (f"{one.shape}: {told}" for told in _of_shape(one))


def _of_shape(evidence: Any) -> Iterator[str]:
    if evidence.status != MEASURED:
        return
    yield from _pairs(evidence)
    if evidence.span and evidence.process_s and evidence.span.seconds + _CLOCKS_S < evidence.process_s:
        yield f"its processes used the card for {evidence.span.seconds:g} s, one of them alone took {evidence.process_s:g} s"
    if evidence.peaks and evidence.device and evidence.peaks.driver != evidence.device.driver:
        yield f"its card's peaks are of driver {evidence.peaks.driver}, the card has {evidence.device.driver}"
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
                yield (
                    f"{series.mode}: a sample of the {side} has {count} launches, "
                    f"{1 if series is evidence.single else launches[side]} elsewhere"
                )
    if evidence.inputs and evidence.inputs.seeds != tuple(range(evidence.seed or 0, (evidence.seed or 0) + len(evidence.inputs.seeds))):
        yield f"the seeds of its inputs do not follow each other from {evidence.seed} on"


def departures(info: RunInfo, side: TaskInfo, evidence: Any, others: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the evidence of ``side`` has otherwise than run.json says, one sentence each."""
    yield from differences([*stages(info, side, "task", evidence), *_terms(info, side, evidence)])


def _terms(info: RunInfo, side: TaskInfo, evidence: Any) -> Told:
    limits = side.limits.get("performance", {})
    timed = evidence.every_shape()
    asked = list(thresholds(limits).shapes) if limits else []
    yield "shape", evidence.shape, next(iter(asked), None)
    yield "further", [one.shape for one in evidence.further], asked[1:] if evidence.status == MEASURED else asked[1 : len(timed)]
    yield "also", sorted(evidence.also), sorted(limits.get("also", ())) if evidence.also else []
    for one in timed:
        for name, ours, theirs in _terms_of_shape(info, side, one):
            yield name if one is evidence else f"{one.shape}: {name}", ours, theirs


def _terms_of_shape(info: RunInfo, side: TaskInfo, evidence: Any) -> Told:
    limits, correctness = side.limits.get("performance", {}), side.limits.get("correctness", {})
    if evidence.status != MEASURED or not limits:
        return
    asked = thresholds(limits)
    yield "dimensions", dict(evidence.dimensions), side.shapes.get(evidence.shape)
    yield "bar_pct", evidence.bar_pct, asked.shapes.get(evidence.shape) or 0.0
    yield "confidence", evidence.confidence, asked.confidence
    yield "gated_mode", evidence.gated_mode, limits.get("cache", "cold")
    for name, limit in evidence.output_limits.items():
        yield f"output_limits.{name}", limit, correctness.get(name)
    if info.device and evidence.device:
        for name in ("name", "compute_capability", "driver"):
            if name != "driver" or (evidence.device.driver and info.device.driver):  # either source may not know it
                yield f"device.{name}", getattr(evidence.device, name), getattr(info.device, name)
        yield "device.uuid", evidence.device.uuid.removeprefix("GPU-"), info.device.uuid.removeprefix("GPU-")
