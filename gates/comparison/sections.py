"""The rows of a comparison, by section. Rows that only one side has are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from gates.comparison import machine_code, paired
from gates.comparison.record import Row, Section
from gates.core.kernel_names import instance_of, without_parameters
from gates.core.records import shown
from gates.gate.correctness.limits import compared
from gates.gate.ptxas.evidence import PtxasEvidence
from gates.stats.estimators import Figures
from gates.stats.samples import BASELINE, CANDIDATE
from gates.task.problem import DEFAULT_INPUTS

RESOURCES = "registers / shared bytes / spilled bytes / occupancy %"


def sections(before: Mapping[str, Any], after: Mapping[str, Any], timed: Mapping[str, Any] | None) -> Iterator[Section]:
    """The sections that have rows, from the evidence of both sides; ``timed`` is the evidence of a run that timed both, or None."""
    builders: tuple[tuple[str, Callable[[], Iterator[Row]]], ...] = (
        ("Kernel time", lambda: _time_rows(before, after, timed)),
        ("The timed kernel", lambda: paired.rows(before, after, timed)),
        ("Instructions of the timed kernel", lambda: machine_code.mix_rows(before, after, timed)),
        ("Compiled resources", lambda: _resource_rows(before.get("ptxas"), after.get("ptxas"))),
        ("Errors against the reference", lambda: _error_rows(before, after)),
        ("Machine instructions", lambda: _sass_rows(before.get("sass"), after.get("sass"))),
        ("Hardware counters", lambda: _counter_rows(before, after, timed)),
        ("Other implementations, for context", lambda: _backend_rows(after.get("performance"))),
        ("Other shapes", lambda: _shape_rows(after.get("performance"))),
    )
    for title, build in builders:
        rows = tuple(build())
        if rows:
            yield Section(title, rows)


def _time_rows(before: Mapping[str, Any], after: Mapping[str, Any], timed: Mapping[str, Any] | None) -> Iterator[Row]:
    performance = after.get("performance")
    other = (timed or before).get("performance")
    modes = dict.fromkeys([*(performance.figures if performance else ()), *(other.figures if other else ())])
    modes.pop("control", None)  # the noise floor's own pairs
    for mode in modes:
        ours = performance.figures.get(mode, {}).get(CANDIDATE) if performance else None
        theirs = other.figures.get(mode, {}).get(BASELINE if timed else CANDIDATE) if other else None
        if ours is None and theirs is None:
            continue
        for figure in ("p50_us", "p90_us", "mean_us", "std_us"):
            yield Row(f"{mode} {figure.removesuffix('_us')}", "us", *(_figure(side, figure) for side in (theirs, ours)))


def _figure(figures: Figures | None, name: str) -> float | str | None:
    """A figure, or why there is none."""
    found = getattr(figures, name, None)
    return figures.p90_reason if found is None and figures is not None and name == "p90_us" else found


def _resource_rows(before: PtxasEvidence | None, after: PtxasEvidence | None) -> Iterator[Row]:
    """A row per instance: registers per thread, shared memory, spills, occupancy."""
    for key, one, two in _by_name(before.kernels if before else (), after.kernels if after else ()):
        yield Row(key, RESOURCES, _resources(one), _resources(two))


def _resources(kernel: Any) -> str | None:
    if kernel is None:
        return None
    figures = (kernel.final.registers, kernel.smem_bytes, _sum(kernel.spill_store_bytes, kernel.spill_load_bytes), kernel.occupancy_pct)
    return " / ".join(map(shown, figures))


def _by_name(before: Sequence[Any], after: Sequence[Any]) -> Iterator[tuple[str, Any, Any]]:
    """(name and architecture, of the baseline, of the candidate) of each kernel; arguments tell the instances of a template apart."""
    counts = [Counter((one.base_name, one.arch) for one in side) for side in (before, after)]
    several = {name for count in counts for (name, _), number in count.items() if number > 1}
    theirs, ours = _named(before, several), _named(after, several)
    for key in dict.fromkeys([*theirs, *ours]):
        yield key, theirs.get(key), ours.get(key)


def _named(kernels: Sequence[Any], several: Collection[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kernel in kernels:
        name = kernel.base_name
        if name in several:
            _, opens, arguments = instance_of(kernel.demangled).partition("<")
            name += opens + arguments
        key, number = f"{name} {kernel.arch}", 2
        while key in found:
            key, number = f"{name} #{number} {kernel.arch}", number + 1
        found[key] = kernel
    return found


def _sum(*values: int | None) -> int | None:
    return None if None in values else sum(values)  # type: ignore[arg-type]


def _error_rows(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Row]:
    evidence = after.get("correctness")
    ours = _worst(evidence.cases) if evidence else {}
    own = before.get("correctness")
    theirs = _worst(own.cases) if own else _worst(evidence.baseline_cases) if evidence else {}
    for shape in dict.fromkeys([*theirs, *ours]):
        for index, figure in enumerate(("max_abs_err", "mean_abs_err")):
            one, two = theirs.get(shape), ours.get(shape)
            yield Row(f"{shape} {figure}", "", one[index] if one else None, two[index] if two else None)
    after_bound, before_bound = (_over_bound(side.cases if side else ()) for side in (evidence, own))
    for group in dict.fromkeys([*before_bound, *after_bound]):
        yield Row(f"{group} max_err_over_bound", "", before_bound.get(group), after_bound.get(group))


def _worst(cases: Any) -> dict[str, tuple[float | None, float | None]]:
    found: dict[str, tuple[float | None, float | None]] = {}
    for case in cases:
        for output in case.outputs if compared(case) else ():
            if output.max_abs_err is None or output.mean_abs_err is None:
                continue
            largest, mean = found.get(case.shape, (0.0, 0.0))
            found[case.shape] = (max(largest or 0.0, output.max_abs_err), max(mean or 0.0, output.mean_abs_err))
    return found


def _over_bound(cases: Any) -> dict[str, float]:
    """The largest error over its bound of each input family, of the edge shapes together, and of each other shape."""
    found: dict[str, float] = {}
    for case in cases:
        group = f"inputs {case.inputs}" if case.inputs != DEFAULT_INPUTS else "edge shapes" if case.role == "edge" else case.shape
        for output in case.outputs:
            if output.max_err_over_bound is not None:
                found[group] = max(found.get(group, 0.0), output.max_err_over_bound)
    return found


def _sass_rows(before: Any, after: Any) -> Iterator[Row]:
    for key, one, two in _by_name(before.functions if before else (), after.functions if after else ()):
        yield Row(key, "instructions", _instructions(one), _instructions(two))


def _instructions(function: Any) -> str | None:
    """The count, and that of each class that is there: ``868: tensor 48, async_copy 32``."""
    if function is None:
        return None
    classes = ", ".join(f"{name} {count}" for name, count in function.classes.items() if count)
    return f"{function.instructions}: {classes}" if classes else str(function.instructions)


def _counter_rows(before: Mapping[str, Any], after: Mapping[str, Any], timed: Mapping[str, Any] | None) -> Iterator[Row]:
    ours = _counters(after.get("ncu"), CANDIDATE)
    theirs = _counters((timed or before).get("ncu"), BASELINE if timed else CANDIDATE)
    for name in dict.fromkeys([*theirs, *ours]):
        one, two = theirs.get(name), ours.get(name)
        unit = next(counter.unit for counter in (two, one) if counter)
        yield Row(name, unit, one.value if one else None, two.value if two else None)


def _counters(evidence: Any, role: str) -> dict[str, Any]:
    side = evidence.sides.get(role) if evidence else None
    return {
        f"{without_parameters(kernel.kernel)} {counter.metric}": counter
        for kernel in (side.kernels if side else ())
        for counter in kernel.counters
        if counter.value is not None
    }


def _backend_rows(performance: Any) -> Iterator[Row]:
    """Each other implementation in the place of the baseline."""
    own = performance.figures.get("cold", {}).get(CANDIDATE) if performance else None
    for name, backend in (performance.backends if performance else {}).items():
        yield Row(f"cold, against {name}", "us", backend.message if backend.p50_us is None else backend.p50_us, own.p50_us if own else None)


def _shape_rows(performance: Any) -> Iterator[Row]:
    """The further timed shapes: the candidate against the baseline, and against each other implementation."""
    for shape, rows in performance.rows().items() if performance else ():
        if shape == performance.shape:
            continue  # it has sections of its own
        own = rows.get(CANDIDATE)
        for name, other in rows.items():
            for mode in ("cold", "warm") if name != CANDIDATE else ():
                one, two = (getattr(row, f"{mode}_us", None) for row in (other, own))
                if one is not None or other.message:
                    what = f"{shape} {mode}{'' if name == BASELINE else f', against {name}'}"
                    yield Row(what, "us", other.message if one is None else one, own.message if own and two is None else two)
