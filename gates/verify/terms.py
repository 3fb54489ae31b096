"""Check that each record is about what run.json names: the stages, shapes, limits, device and tools of the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gates.core.kernel_names import plain_name
from gates.evidence.run_directory import RunInfo
from gates.gate.correctness.plan import orders
from gates.gate.performance.evidence import MEASURED
from gates.hardware.ncu_metrics import CHIPS, METRICS, source_name, version_numbers
from gates.task.load import CUDA

_STAGE = {"correctness": "candidate", "sanitizer": "target", "performance": "task", "ncu": "task"}  # the field that names it
_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")  # of compute-sanitizer; on the emulator it is AddressSanitizer
Told = Iterator[tuple[str, Any, Any]]  # (what, as the record has it, as run.json has it)


def term_problems(info: RunInfo, evidence: Mapping[str, Any]) -> Iterator[str]:
    """Yield one sentence for each thing that a gate's evidence says otherwise than run.json."""
    for gate, record in evidence.items():
        told = [*_stages(info, gate, record), *(_CHECKS[gate](info, record) if gate in _CHECKS else ())]
        yield from (
            f"{gate}.json: {what} is {_text(ours)}, run.json gives {_text(theirs)}" for what, ours, theirs in told if ours != theirs
        )


def _stages(info: RunInfo, gate: str, record: Any) -> Told:
    if gate in _STAGE:
        yield _STAGE[gate], getattr(record, _STAGE[gate]), info.task.name
    if getattr(record, "baseline", None) is not None:
        yield "baseline", record.baseline, info.baseline.name if info.baseline else None


def _correctness(info: RunInfo, record: Any) -> Told:
    limits = info.task.limits.get("correctness", {})
    emulated = "emulator" if info.task.kind == CUDA else "cpu"
    yield "device", record.device.partition(":")[0], "cuda" if info.device else emulated
    yield "bad_atol", record.bad_atol, limits.get("bad_atol")
    yield "end_to_end_bad_atol", record.end_to_end_bad_atol, limits.get("end_to_end", {}).get("bad_atol")
    yield "limits_at without a limit", sorted(set(record.limits_at) - set(limits)), []


def _sanitizer(info: RunInfo, record: Any) -> Told:
    yield "mode", record.mode, "device" if info.device else "emulator"
    tool = "compute-sanitizer" if info.device else "g++"
    if record.runs and (version := info.toolchain.get(tool)):
        yield "tool_version", version if version in record.tool_version else record.tool_version, version
    yield "orders", sorted({run.order for run in record.runs} - set(("",) if info.device else orders(True, 0))), []
    yield "tools", sorted({run.tool for run in record.runs} - set(_TOOLS if info.device else ("asan",))), []


def _performance(info: RunInfo, record: Any) -> Told:
    limits, correctness = info.task.limits.get("performance", {}), info.task.limits.get("correctness", {})
    yield "shape", record.shape, limits.get("shape")
    if record.status != MEASURED:
        return
    yield "dimensions", dict(record.dimensions), info.task.shapes.get(record.shape)
    yield "bar_pct", record.bar_pct, limits.get("min_speedup_pct")
    yield "gated_mode", record.gated_mode, limits.get("cache", "cold")
    yield "also", sorted(record.also), sorted(limits.get("also", ())) if record.also else []
    for name, limit in record.output_limits.items():
        yield f"output_limits.{name}", limit, correctness.get(name)
    if info.device and record.device:
        for name in ("name", "compute_capability", "driver"):
            if name != "driver" or (record.device.driver and info.device.driver):  # either source may not know it
                yield f"device.{name}", getattr(record.device, name), getattr(info.device, name)
        yield "device.uuid", record.device.uuid.removeprefix("GPU-"), info.device.uuid.removeprefix("GPU-")


def _ncu(info: RunInfo, record: Any) -> Told:
    last = next(reversed(info.task.judged_shapes or tuple(info.task.shapes)), None)
    yield "shape", record.shape, info.task.limits.get("performance", {}).get("shape", last)
    if not record.sides:
        return
    yield "chip", record.chip, f"sm_{info.device.compute_capability.replace('.', '')}" if info.device else None
    if record.version and (version := info.toolchain.get("ncu")):
        yield "version", record.version, version
    sides = {"candidate": info.task, **({"baseline": info.baseline} if record.baseline is not None and info.baseline else {})}
    yield "sides", sorted(record.sides), sorted(sides)
    for role, side in record.sides.items():
        task = sides.get(role, info.task)
        yield f"sides.{role}.name", side.name, task.name
        for counter in (
            counter
            for one in side.kernels
            for counter in one.counters
            if counter.source and counter.metric in METRICS and record.chip in CHIPS
        ):
            yield (
                f"sides.{role}: the source of {counter.metric}",
                counter.source,
                source_name(counter.metric, record.chip, version_numbers(record.version)),
            )
        yield (
            f"sides.{role}.kernels",
            sorted({plain_name(one.kernel) for one in side.kernels}),
            sorted(set(task.kernels)) if side.kernels else [],
        )


_CHECKS = {"correctness": _correctness, "sanitizer": _sanitizer, "performance": _performance, "ncu": _ncu}


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, (list, tuple)) else str(value)
