"""The kernel that the timed shape launches on each side, whatever its name or template arguments: one row per quantity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gates.comparison.record import Row
from gates.core.kernel_names import instance_of, instance_of_signature, plain_name
from gates.core.records import shown
from gates.gate.performance.limit import limit_of, rates
from gates.gate.ptxas.evidence import Launch, PtxasKernel
from gates.stats.samples import BASELINE, CANDIDATE

_COUNTERS = (  # of Nsight Compute: name in the evidence, in the table, unit, factor
    ("tensor_pipe", "tensor pipe", "%", 1.0),
    ("dram_bytes", "DRAM traffic", "kB", 1e-3),
    ("bank_conflict_count", "bank conflicts", "", 1.0),
)
_CLASSES = (  # of machine instructions: what the table calls them, and the classes that count
    ("tensor instructions", ("tensor", "wgmma")),
    ("asynchronous copies", ("async_copy", "tma")),
    ("local memory instructions", ("local_memory",)),
)
_SELDOM = ("shared memory, static", "local memory instructions")  # left out if both sides have none


@dataclass(frozen=True)
class TimedKernel:
    """One side's kernel of the timed shape for one architecture, with what each gate knows of it; None where it knows nothing."""

    name: str
    arch: str
    compiled: PtxasKernel
    code: Any  # SassFunction
    counters: Mapping[str, float]
    launch: Launch | None


def rows(before: Mapping[str, Any], after: Mapping[str, Any], timed: Mapping[str, Any] | None) -> Iterator[Row]:
    """A row per quantity of the two kernels; none where a side's kernel is not known for certain."""
    if (found := pair(before, after, timed)) is None:
        return
    theirs, ours = found
    measured = ((timed or before).get("performance"), BASELINE if timed else CANDIDATE), (after.get("performance"), CANDIDATE)
    yield Row("kernel", "", f"{theirs.name} {theirs.arch}", f"{ours.name} {ours.arch}")
    yield from _time_row(*measured)
    for (name, unit, one), (_, _, two) in zip(_quantities(theirs), _quantities(ours), strict=True):
        if (one is not None or two is not None) and not (name in _SELDOM and one == two == 0):
            yield Row(name, unit, one, two)
    yield from _limit_rows(*measured)


def _time_row(*sides: tuple[Any, str]) -> Iterator[Row]:
    """The p50 of each side in the cache mode that is judged."""
    modes = [one.gated_mode for one, _ in sides if one]
    figures = [one.figures.get(one.gated_mode, {}).get(role) if one else None for one, role in sides]
    if any(figures):
        yield Row(f"p50, {modes[-1]} L2", "us", *(figure.p50_us if figure else None for figure in figures))


def _limit_rows(*sides: tuple[Any, str]) -> Iterator[Row]:
    """The card's limit of each side and what bounds it, the share that is reached, and the rates of the work."""
    limits = [limit_of(one, one.gated_mode, role) if one else None for one, role in sides]
    if limits == [None, None]:
        return
    bounds = " and ".join(dict.fromkeys(limit.bound for limit in limits if limit))
    yield Row(f"limit ({bounds})", "us", *(limit.us if limit else None for limit in limits))
    yield Row("share of the limit", "%", *(limit.share_pct if limit else None for limit in limits))
    reached = [rates(one, limit) if limit else {} for (one, _), limit in zip(sides, limits, strict=True)]
    units = dict.fromkeys([*reached[0], *reached[1]])
    yield Row(
        "rate", ", ".join(units), *(", ".join(shown(found[unit]) if unit in found else "none" for unit in units) for found in reached)
    )


def pair(before: Mapping[str, Any], after: Mapping[str, Any], timed: Mapping[str, Any] | None) -> tuple[TimedKernel, TimedKernel] | None:
    """(before, after): the kernels of the timed shape; None where a side's kernel is not known for certain."""
    shape = _timed_shape(after) or _timed_shape(before)
    ours = timed_kernel(after, after.get("ncu"), CANDIDATE, shape)
    theirs = timed_kernel(before, (timed or before).get("ncu"), BASELINE if timed else CANDIDATE, shape)
    return None if ours is None or theirs is None else (theirs, ours)


def timed_kernel(evidence: Mapping[str, Any], ncu: Any, role: str, shape: str) -> TimedKernel | None:
    """The kernel that takes most of the time of ``shape``: as Nsight Compute saw it, else as it was launched, else the only one that is
    launched.
    """
    ptxas, sass = evidence.get("ptxas"), evidence.get("sass")
    side = ncu.sides.get(role) if ncu else None
    if ptxas is None or not ptxas.kernels:
        return None
    profiled = max(side.kernels, key=_duration, default=None) if side else None
    found = (
        _named(ptxas.kernels, instance_of(profiled.kernel)) if profiled else _launched(ptxas.kernels, evidence.get("correctness"), shape)
    )
    if not found:
        return None
    arch = max((one.arch for one in found), key=lambda arch: int("".join(filter(str.isdigit, arch)) or 0))
    kernel = next(one for one in found if one.arch == arch)
    code = next((one for one in (sass.functions if sass else ()) if (one.key, one.arch) == (kernel.key, arch)), None)
    counters = {one.metric: float(one.value) for one in profiled.counters if isinstance(one.value, (int, float))} if profiled else {}
    launch = kernel.launches[kernel.tightest] if kernel.tightest is not None else next(iter(kernel.launches), None)
    return TimedKernel(instance_of(kernel.demangled), arch, kernel, code, counters, launch)


def _quantities(kernel: TimedKernel) -> Iterator[tuple[str, str, float | int | None]]:
    compiled, launch = kernel.compiled, kernel.launch
    yield "registers", "per thread", compiled.final.registers
    yield "shared memory, static", "bytes", compiled.final.static_smem_bytes
    yield "shared memory, dynamic", "bytes", launch.dynamic_smem_bytes if launch else None
    spills = (compiled.spill_store_bytes, compiled.spill_load_bytes)
    yield "spills", "bytes", None if None in spills else sum(spills)  # type: ignore[arg-type]
    yield "threads", "per CTA", launch.threads_per_cta if launch else None
    yield "occupancy", "%", compiled.occupancy_pct
    yield "instructions", "", kernel.code.instructions if kernel.code else None
    for name, classes in _CLASSES:
        yield name, "", sum(kernel.code.classes.get(one, 0) for one in classes) if kernel.code else None
    for metric, name, unit, factor in _COUNTERS:
        yield name, unit, kernel.counters[metric] * factor if metric in kernel.counters else None


def _timed_shape(evidence: Mapping[str, Any]) -> str:
    performance = evidence.get("performance")
    return performance.shape if performance else ""


def _duration(kernel: Any) -> float:
    return next((float(one.value) for one in kernel.counters if one.metric == "duration_ns" and one.value is not None), 0.0)


def _named(kernels: tuple[PtxasKernel, ...], instance: str) -> list[PtxasKernel]:
    """Those of that name and template arguments, of every architecture; of the plain name where that is enough."""
    found = [one for one in kernels if instance_of(one.demangled) == instance]
    return found or _only([one for one in kernels if one.base_name == plain_name(instance)])


def _launched(kernels: tuple[PtxasKernel, ...], correctness: Any, shape: str) -> list[PtxasKernel]:
    """The kernel that the cases of the shape launched, or that any launch is known of, if it is one and the same."""
    cases = [case for case in (correctness.cases if correctness else ()) if not shape or case.shape == shape]
    seen = {instance_of_signature(launch.function) for case in cases for launch in case.launches if launch.function}
    if len(seen) == 1 and (found := _named(kernels, seen.pop())):
        return found
    return _only([one for one in kernels if one.launches])


def _only(kernels: list[PtxasKernel]) -> list[PtxasKernel]:
    """The kernels, if they are one instance for several architectures; else none."""
    return kernels if len({one.key for one in kernels}) == 1 else []
