"""Check evidence of counters: launches and counters that add up, and the terms of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gates.core.kernel_names import plain_name
from gates.evidence.differences import Told, differences, stages
from gates.evidence.run_directory import RunInfo, TaskInfo
from gates.hardware.ncu_metrics import CHIPS, METRICS, source_name, version_numbers


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


def departures(info: RunInfo, side: TaskInfo, evidence: Any, others: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the evidence of ``side`` has otherwise than run.json says, one sentence each."""
    yield from differences([*stages(info, side, "task", evidence), *_terms(info, side, evidence)])


def _terms(info: RunInfo, side: TaskInfo, evidence: Any) -> Told:
    last = next(reversed(side.judged_shapes or tuple(side.shapes)), None)
    limits = side.limits.get("performance", {})
    yield "shape", evidence.shape, next(iter(limits.get("shapes", ())), limits.get("shape", last))
    if not evidence.sides:
        return
    yield "chip", evidence.chip, f"sm_{info.device.compute_capability.replace('.', '')}" if info.device else None
    if evidence.version and (version := info.toolchain.get("ncu")):
        yield "version", evidence.version, version
    sides = {"candidate": side, **({"baseline": info.baseline} if evidence.baseline is not None and info.baseline else {})}
    yield "sides", sorted(evidence.sides), sorted(sides)
    for role, profiled in evidence.sides.items():
        task = sides.get(role, info.task)
        yield f"sides.{role}.name", profiled.name, task.name
        for counter in (
            counter
            for one in profiled.kernels
            for counter in one.counters
            if counter.source and counter.metric in METRICS and evidence.chip in CHIPS
        ):
            yield (
                f"sides.{role}: the source of {counter.metric}",
                counter.source,
                source_name(counter.metric, evidence.chip, version_numbers(evidence.version)),
            )
        yield (
            f"sides.{role}.kernels",
            sorted({plain_name(one.kernel) for one in profiled.kernels}),
            sorted(set(task.kernels)) if profiled.kernels else [],
        )
