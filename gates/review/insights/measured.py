"""The facts of a run by section: the task, where the time goes, what limits it, the machine code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gates.core.kernel_names import instance_of, plain_name
from gates.core.records import from_json
from gates.gate.ptxas.evidence import PtxasKernel
from gates.gate.sass.evidence import CLASSES
from gates.hardware.chips import chip_of, occupancy
from gates.hardware.ncu_metrics import METRICS
from gates.review.insights.facts import Evidence, Fact, Facts, member

TASK, TIME, LIMITS, CODE = "The task", "Where the time goes", "What limits it", "Machine code"
_COUNTERS = (
    "occupancy",
    "tensor_pipe",
    "tensor_gmma",
    "sm_throughput",
    "dram_throughput",
    "dram_read_bytes",
    "local_loads",
    "local_stores",
)
_WAVEFRONTS = ("shared_load_wavefronts", "shared_store_wavefronts", "shared_load_conflicts", "shared_store_conflicts")
_STALLS = tuple(name for name in METRICS if name.startswith("stall_"))
_ALWAYS = ("tensor", "async_copy", "local_memory")  # shown at 0 too


def facts_of(run: Path) -> tuple[Facts, dict[str, tuple[Fact, ...]]]:
    """All facts of a run, and those to show by section."""
    facts = Facts(Evidence(run))
    sections = {}
    for title, gather in ((TASK, _task), (TIME, _time), (LIMITS, _limits), (CODE, _code)):
        sections[title] = tuple(dict.fromkeys(gather(facts)))
    return facts, sections


def _task(facts: Facts) -> Iterator[Fact]:
    at = facts.evidence.at
    yield facts.read("title", "stage", "", "run.json", "task.title")
    if at("run.json", "task.kind") is not None:  # older runs do not tell: they are all of CUDA sources
        yield facts.read("kind", "kind", "", "run.json", "task.kind")
    yield facts.read("problem", "problem", "", "run.json", "task.problem")
    if at("run.json", "baseline") is not None:
        yield facts.read("baseline", "baseline", "", "run.json", "baseline.name")
    if at("run.json", "device") is not None:
        yield facts.read("device", "device", "", "run.json", "device.name")
    for name in at("run.json", "task.toggles") or {}:
        yield facts.read(f"toggle {name}", f"toggle {name}", "", "run.json", f"task.toggles{member(name)}")
    for name in at("run.json", "task.shapes") or {}:
        yield facts.read(f"shape {name}", f"shape {name}", "", "run.json", f"task.shapes{member(name)}", _sizes)
    for gate, limits in (at("run.json", "task.limits") or {}).items():
        for limit, value in limits.items():
            if isinstance(value, (int, float, str)) and not isinstance(value, bool):
                yield facts.read(f"{gate}.{limit}", f"{gate} {limit}", "", "run.json", f"task.limits{member(gate)}{member(limit)}")
    verdicts = at("verdict.json", "gates") or ()  # an evaluation has none
    judged = [result["gate"] for result in verdicts]
    failed = [index for index, result in enumerate(verdicts) if result["status"] == "fail"]
    if failed:
        first = min(failed, key=lambda index: (judged[index] == "performance", index))  # too slow is no fault to mend first
        facts.read("failed_gate", "gate that failed", "", "verdict.json", f"gates[{first}].gate")
        yield facts.read("failed", f"{judged[first]} failed", "", "verdict.json", f"gates[{first}].sentence")


def _sizes(shape: dict[str, int]) -> str:
    return ", ".join(f"{name} {size}" for name, size in shape.items())


def _time(facts: Facts) -> Iterator[Fact]:
    at, file = facts.evidence.at, "performance.json"
    mode = at(file, "gated_mode") or "cold"
    other = "warm" if mode == "cold" else "cold"
    yield facts.read("p50_us", f"p50, {mode} L2", "us", file, f"figures.{mode}.candidate.p50_us")
    yield facts.read("other_p50_us", f"p50, {other} L2", "us", file, f"figures.{other}.candidate.p50_us")
    if at("run.json", "device") is None:
        yield facts.read("untimed", "why nothing was timed", "", "verdict.json", f"{facts.evidence.gate('performance')}.sentence")
    if at("run.json", "baseline") is not None:
        yield facts.read("baseline_p50_us", "baseline's p50 in the same run", "us", file, f"figures.{mode}.baseline.p50_us")
        yield facts.read(
            "speedup_pct", "speed-up from interleaved pairs", "%", "verdict.json", _checked(facts.evidence, "speedup_p50"), comes_from=file
        )
    facts.read("flops", "least operations of a launch", "", file, "work.flops")
    facts.read("work_bytes", "least traffic of a launch", "byte", file, "work.bytes")
    facts.read("output_bytes", "bytes of the outputs", "byte", file, "work.output_bytes")
    facts.read("peak_flops", "peak of any data type", "1/s", file, "device.peak_flops_per_s")
    facts.read("peak_bytes", "peak of device memory", "byte/s", file, "device.peak_bytes_per_s")
    facts.derive("read_bytes", "least reads of a launch", "byte", lambda total, out: max(total - out, 0), "work_bytes", "output_bytes")
    facts.derive("intensity", "operations for a byte", "FLOP/byte", lambda work, size: work / size if size else None, "flops", "work_bytes")
    yield facts.read("launch_floor_us", "launch of an empty kernel", "us", file, "calibration.empty_kernel_us")
    yield facts.derive(
        "memory_floor_us", "least reads at the card's peak", "us", lambda size, peak: 1e6 * size / peak, "read_bytes", "peak_bytes"
    )
    yield facts.derive(
        "arithmetic_floor_us",
        "least operations at the card's peak of any data type",
        "us",
        lambda work, peak: 1e6 * work / peak,
        "flops",
        "peak_flops",
    )
    share = facts.read(
        "limit_pct", "share of the card's limit for these units", "%", "verdict.json", _checked(facts.evidence, "share_of_limit")
    )
    yield share
    yield facts.derive("limit_us", "the card's limit for these units", "us", lambda p50, pct: p50 * pct / 100.0, "p50_us", "limit_pct")
    bounds = (
        "launch_floor_us",
        *(("memory_floor_us",) if mode == "cold" else ()),
        "arithmetic_floor_us",
        "limit_us",
    )  # a warm L2 may hold it all
    floors = [key for key in bounds if facts[key].value is not None]
    facts.derive("floor_us", "floor: the highest of these", "us", lambda *values: max(values), *floors or bounds)
    yield facts.derive("over_floor", "p50 over the highest of these floors", "x", lambda p50, floor: p50 / floor, "p50_us", "floor_us")
    yield facts.derive("achieved_flops", "operations reached", "TFLOP/s", lambda work, p50: work / p50 / 1e6, "flops", "p50_us")
    yield facts.derive("achieved_bytes", "least traffic reached", "GB/s", lambda size, p50: size / p50 / 1e3, "work_bytes", "p50_us")
    cold, warm = ("p50_us", "other_p50_us") if mode == "cold" else ("other_p50_us", "p50_us")
    yield facts.derive(
        "memory_wait_pct", "share of the cold time that a warm L2 saves", "%", lambda c, w: 100.0 * (1.0 - w / c), cold, warm
    )
    timed = {name: found["p50_us"] for name, found in (at(file, "backends") or {}).items() if found["p50_us"] is not None}
    if timed:
        fastest = min(timed, key=lambda name: timed[name])
        yield facts.read("fastest_other_us", f"fastest other implementation, {fastest}", "us", file, f"backends{member(fastest)}.p50_us")


def _checked(evidence: Evidence, name: str) -> str | None:
    checks = f"{evidence.gate('performance')}.checks"
    index = evidence.index("verdict.json", checks, name=name)
    return None if index is None else f"{checks}[{index}].observed"


def _limits(facts: Facts) -> Iterator[Fact]:
    side = "sides.candidate.kernels"
    profiled = facts.evidence.at("ncu.json", side) or []
    durations = [_duration(kernel) for kernel in profiled]
    slowest = durations.index(max(durations)) if durations else None
    if slowest is not None:
        yield facts.read(
            "kernel",
            "kernel that takes longest" if len(profiled) > 1 else "kernel",
            "",
            "ncu.json",
            f"{side}[{slowest}].kernel",
            plain_name,
        )
    else:
        yield facts.read("kernel", "kernel", "", "run.json", "task.kernels[0]")
    yield from _resources(facts)
    metrics = (*_COUNTERS, *_WAVEFRONTS, *_STALLS)
    for metric in metrics:
        index = facts.evidence.index("ncu.json", f"{side}[{slowest}].counters", metric=metric) if slowest is not None else None
        path = None if index is None else f"{side}[{slowest}].counters[{index}].value"
        facts.read(metric, METRICS[metric].what, METRICS[metric].unit, "ncu.json", path)
    yield from (facts[metric] for metric in _COUNTERS)
    yield facts.derive(
        "reads_over_least",
        "device memory reads over the least",
        "x",
        lambda read, least: read / least if least else None,
        "dram_read_bytes",
        "read_bytes",
    )
    yield facts.derive("bank_conflicts", METRICS["bank_conflicts"].what, "way", _ways, *_WAVEFRONTS)
    stalls = [stall for stall in _STALLS if facts[stall].value is not None]
    yield facts.derive("stalled", "warps waiting, all reasons together", "warp", lambda *values: sum(values), *stalls or _STALLS)
    facts.derive(
        "barrier_stall_pct",
        "share of the waiting that is at barriers",
        "%",
        lambda one, every: 100.0 * one / every if every else None,
        "stall_barrier",
        "stalled",
    )
    yield from sorted((facts[stall] for stall in stalls), key=lambda fact: -float(fact.value or 0))


def _duration(kernel: Mapping[str, Any]) -> float:
    return next((counter["value"] or 0.0 for counter in kernel["counters"] if counter["metric"] == "duration_ns"), 0.0)


def _ways(loads: float, stores: float, load_conflicts: float, store_conflicts: float) -> float | None:
    """As the metric of that name: 1 is without conflicts."""
    without = loads + stores - load_conflicts - store_conflicts
    return (loads + stores) / without if without > 0 else None


def _arch(evidence: Evidence) -> str:
    """The device's architecture, or else the last one that the task is compiled for."""
    capability = evidence.at("run.json", "device.compute_capability")
    declared = evidence.at("run.json", "task.arch") or ["no architecture"]  # what is not compiled by nvcc may name none
    return f"sm_{capability.replace('.', '')}" if capability else declared[-1]


def _instance(facts: Facts, file: str, path: str, arch: str) -> tuple[int | None, bool]:
    """Where in ``file`` the kernel lies that the counters are of, and whether it is the only one of its name.

    Of several instances of a template that is the one whose arguments Nsight Compute saw; without counters none of them is told.
    """
    every = facts.evidence.at(file, path) or ()
    found = [index for index, one in enumerate(every) if (one["base_name"], one["arch"]) == (facts["kernel"].value, arch)]
    if len(found) < 2:
        return next(iter(found), None), True
    profiled = (
        facts.evidence.at("ncu.json", facts["kernel"].sources[0].partition(": ")[2])
        if facts["kernel"].sources[0].startswith("ncu")
        else None
    )
    same = [index for index in found if profiled and instance_of(every[index]["demangled"]) == instance_of(profiled)]
    return (same[0] if len(same) == 1 else None), False


def _resources(facts: Facts) -> Iterator[Fact]:
    arch, file = _arch(facts.evidence), "ptxas.json"
    index, alone = _instance(facts, file, "kernels", arch)
    base = None if index is None else f"kernels[{index}]"
    kernel = from_json(PtxasKernel, facts.evidence.at(file, base), file) if base else None
    launch = f"{base}.launches[{kernel.tightest or 0}]" if kernel and alone else None  # launches are known by the template's name alone

    def path(name: str) -> str | None:
        linked = ".linked" if kernel and kernel.linked and hasattr(kernel.linked, name) else ""
        return None if base is None else f"{base}{linked}.{name}"

    yield facts.read("registers", f"registers per thread, {arch}", "", file, path("registers"))
    yield facts.read("threads", "threads a CTA", "", file, launch and f"{launch}.threads_per_cta")
    facts.read("static_smem", "static shared memory", "byte", file, path("static_smem_bytes"))
    facts.read("dynamic_smem", "dynamic shared memory", "byte", file, launch and f"{launch}.dynamic_smem_bytes")
    facts.read("barriers", "barriers of a CTA", "", file, path("barriers"))
    yield facts.derive("smem_bytes", "shared memory a CTA", "byte", lambda one, two: one + two, "static_smem", "dynamic_smem")
    facts.read("spill_stores", "spill stores", "byte", file, path("spill_store_bytes"))
    facts.read("spill_loads", "spill loads", "byte", file, path("spill_load_bytes"))
    yield facts.derive("spill_bytes", "spills", "byte", lambda one, two: one + two, "spill_stores", "spill_loads")
    chip, inputs = chip_of(arch), ("registers", "threads", "smem_bytes", "barriers")
    yield facts.derive(
        "theoretical_occupancy", "warps that fit", "%", lambda *found: 100.0 * occupancy(chip, *found).fraction if chip else None, *inputs
    )
    yield facts.derive(
        "occupancy_limiter", "what keeps more from fitting", "", lambda *found: occupancy(chip, *found).limiter if chip else None, *inputs
    )


def _code(facts: Facts) -> Iterator[Fact]:
    arch, file = _arch(facts.evidence), "sass.json"
    index, _ = _instance(facts, file, "functions", arch)
    base = None if index is None else f"functions[{index}]"
    yield facts.read(
        "instructions", f"machine instructions, {arch}, each counted once however often it runs", "", file, base and f"{base}.instructions"
    )
    for name in CLASSES:
        facts.read(f"sass {name}", f"{name.replace('_', ' ')} instructions", "", file, base and f"{base}.classes.{name}")
        facts.derive(
            f"sass {name} pct",
            f"share of {name.replace('_', ' ')} instructions",
            "%",
            lambda one, every: 100.0 * one / every if every else None,
            f"sass {name}",
            "instructions",
        )
    found = [facts[f"sass {name}"] for name in CLASSES if facts[f"sass {name}"].value or name in _ALWAYS]
    yield from sorted(found, key=lambda fact: -float(fact.value or 0))
    for index, one in enumerate(facts.evidence.at("ptxas.json", "advice") or ()):
        times = f", {one['count']} times" if one["count"] > 1 else ""
        kernel = f" on {one['kernel']}" if one["kernel"] else ""
        yield facts.read(
            f"advice {index}",
            f"the compiler's advice{kernel}{times}",
            f"({one['code']})" if one["code"] else "",
            "ptxas.json",
            f"advice[{index}].text",
        )
