"""Two sides of a comparison, row by row, from stored evidence.

A run compares its stage with the baseline that it built and measured itself (``compare_within``);
``compare_runs`` puts two run directories side by side. Rows that only one side has are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gates import jsonio, records
from gates.errors import GatesError
from gates.evidence import RunInfo, TaskInfo, Verdict, read_record, require_outside_a_run
from gates.judge.correctness_limits import compared
from gates.judge.decision import EXIT_CODES, Decision
from gates.judge.performance import read
from gates.judging import MEASURED_ANYWAY, load_evidence, looser_terms
from gates.measure.decision import ABOVE, BELOW
from gates.measure.records import BASELINE, CANDIDATE
from gates.measure.statistics import Figures
from gates.parse.correctness import DEFAULT_INPUTS
from gates.parse.names import instance_of, without_parameters
from gates.parse.performance import MEASURED
from gates.parse.ptxas import PtxasEvidence
from gates.records import GateResult, Status
from gates.verify import require_sound

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Row:
    """One quantity on both sides; None where a side does not have it."""

    name: str
    unit: str
    baseline: float | int | str | None
    candidate: float | int | str | None


@dataclass(frozen=True)
class Section:
    """Rows that belong together, under one title."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Speed:
    """The speed-up with its interval, from interleaved pairs; percent of (baseline / candidate - 1)."""

    mode: str
    shape: str
    pairs: int
    speedup_pct: float
    low_pct: float
    high_pct: float
    bar_pct: float | None
    noise_floor_pct: float | None
    other_mode: str  # the cache mode that is not gated
    other_speedup_pct: float | None
    modes_disagree: bool  # clearly on different sides of the bar


@dataclass(frozen=True)
class SideInfo:
    """What stands on one side: a stage, and the run that its figures come from."""

    task: str
    title: str
    task_digest: str
    run: str | None
    device: str | None
    started: str


@dataclass(frozen=True)
class Comparison:
    """compare.json."""

    schema_version: int
    baseline: SideInfo | None
    candidate: SideInfo
    decision: Decision
    reason: str
    gates: tuple[GateResult, ...]
    speed: Speed | None
    notes: tuple[str, ...]  # differences of the set-up that a reader must know
    sections: tuple[Section, ...]

    @property
    def exit_code(self) -> int:
        """0 merge, 1 reject, 3 hold."""
        return EXIT_CODES[self.decision]

    def markdown(self, *, folded: bool = True) -> str:
        """COMPARE.md's text; without ``folded`` only what a reviewer sees first."""
        from gates.render.compare import markdown

        return markdown(self, folded=folded)

    def write(self, root: Path) -> Path:
        """Write COMPARE.md and compare.json into a folder of ``root`` named after the sides."""
        base = self.baseline.task if self.baseline else "none"
        folder = root / f"{base}..{self.candidate.task}"
        require_outside_a_run(folder)
        jsonio.make_folder(folder)
        jsonio.write(folder / "compare.json", records.to_json(self))
        jsonio.write_text(folder / "COMPARE.md", self.markdown())
        return folder


def compare_within(run: Path, info: RunInfo, verdict: Verdict) -> Comparison:
    """A run's candidate against the baseline of the same run."""
    evidence = load_evidence(run)
    other = load_evidence(run / "baseline")
    side = _side(info.task, None, info)
    base = _side(info.baseline, None, info) if info.baseline else None
    return Comparison(
        SCHEMA_VERSION, base, side, verdict.decision, verdict.reason, verdict.gates, speed_of(evidence),
        (*_policy_notes(looser_terms(info.task, info.baseline)), *_override_notes(info), *_weak_notes(verdict)), tuple(_sections(other, evidence, evidence)),
    )


def compare_runs(first: Path, second: Path, *, force: bool = False) -> Comparison:
    """Run ``second`` (the candidate) against run ``first``.

    Raises GatesError for a run that is not sound, and for runs of different problems or on other inputs unless ``force``. Different
    shapes, seeds or devices are named, and hold. Speed is judged only where the second run measured the first one's stage
    interleaved with its own; figures of two runs are shown side by side and decide nothing.
    """
    for run in dict.fromkeys((first, second)):
        require_sound(run)
    infos = [read_record(RunInfo, run, "run.json") for run in (first, second)]
    verdict: Verdict = read_record(Verdict, second, "verdict.json")
    before, after = load_evidence(first), load_evidence(second)
    strange = list(_strange(*infos, before.get("correctness"), after.get("correctness")))
    if strange and not force:
        raise GatesError(
            f"{first} and {second} can't be compared: {'; '.join(strange)}",
            hint="--force shows them all the same; the decision is hold then",
        )
    differences = [*strange, *_differences(*infos)]
    is_baseline = infos[1].baseline is not None and infos[1].baseline.digest == infos[0].task.digest
    decision, reason = verdict.decision, verdict.reason
    looser = looser_terms(infos[1].task, infos[0].task)
    notes = [*_policy_notes(looser), *(f"different: {text}" for text in differences), *_environment_notes(*infos)]
    notes += [f"{name}: {text}" for name, info in zip(("baseline", "candidate"), infos, strict=True) for text in _override_notes(info)]
    notes += _weak_notes(verdict)
    base_verdict: Verdict = read_record(Verdict, first, "verdict.json")
    if base_verdict.decision is Decision.REJECT:
        notes.append(f"the baseline's own run was rejected: {base_verdict.reason}")
    if not is_baseline:
        notes.append("the candidate's run did not measure this baseline: times are of two runs, not interleaved, and decide nothing")
    if decision is Decision.MERGE and (differences or not is_baseline):
        decision, reason = Decision.HOLD, f"the candidate's run did not judge it against {infos[0].task.name} as recorded here"
    elif decision is Decision.MERGE and looser:
        decision, reason = Decision.HOLD, f"judged by looser terms than {infos[0].task.name}: {'; '.join(looser)}"
    gates = verdict.gates if is_baseline else tuple(_against(result, infos[1].baseline) for result in verdict.gates)
    return Comparison(
        SCHEMA_VERSION, _side(infos[0].task, first, infos[0]), _side(infos[1].task, second, infos[1]), decision, reason,
        gates, speed_of(after) if is_baseline else None, tuple(notes),
        tuple(_sections(before, after, after if is_baseline else None)),
    )


def _against(result: GateResult, baseline: TaskInfo | None) -> GateResult:
    """A verdict that rests on another baseline than the one shown beside it, marked so."""
    if baseline is None or result.gate not in MEASURED_ANYWAY or result.status not in (Status.PASS, Status.FAIL, Status.INCONCLUSIVE):
        return result
    return replace(result, sentence=f"{result.sentence} (that is against {baseline.name})")


def _side(task: TaskInfo, run: Path | None, info: RunInfo) -> SideInfo:
    device = info.device.name if info.device else None
    return SideInfo(task.name, task.title, task.digest, run.name if run else None, device, info.started)


def _strange(first: RunInfo, second: RunInfo, before: Any, after: Any) -> Iterator[str]:
    """Why the figures of two runs are of different things; ``before`` and ``after`` are their correctness evidence, or None."""
    if first.task.problem != second.task.problem:
        yield f"problem {first.task.problem} and {second.task.problem}"
    elif first.task.problem_sha256 != second.task.problem_sha256:
        yield f"problem {first.task.problem} was changed between the runs"
    ours, theirs = ({case.key: case for case in side.cases if case.inputs_sha256} if side else {} for side in (after, before))
    others = [ours[key].where for key in ours.keys() & theirs.keys() if ours[key].inputs_sha256 != theirs[key].inputs_sha256]
    if others and first.task.shapes == second.task.shapes:
        yield f"other inputs from the same seed, in {len(others)} cases: {min(others)}"


def _differences(first: RunInfo, second: RunInfo) -> Iterator[str]:
    for name in sorted({*first.task.shapes, *second.task.shapes}):
        one, two = first.task.shapes.get(name), second.task.shapes.get(name)
        if one != two:
            yield f"shape {name} is {_sizes(one)} and {_sizes(two)}"
    if first.task.seeds != second.task.seeds:
        yield f"seeds {list(first.task.seeds)} and {list(second.task.seeds)}"
    names = [info.device.name if info.device else "no CUDA device" for info in (first, second)]
    if names[0] != names[1]:
        yield f"device {names[0]} and {names[1]}"


def _sizes(shape: Mapping[str, int] | None) -> str:
    return ", ".join(f"{dimension} {size}" for dimension, size in shape.items()) if shape else "missing"


def _environment_notes(first: RunInfo, second: RunInfo) -> Iterator[str]:
    cards = [info.device for info in (first, second)]
    if None not in cards and cards[0].name == cards[1].name and cards[0].uuid != cards[1].uuid:
        yield f"another card of the kind: {cards[0].uuid} and {cards[1].uuid}"
    for tool in sorted({*first.toolchain, *second.toolchain}):
        one, two = first.toolchain.get(tool), second.toolchain.get(tool)
        if one != two:
            yield f"{tool} {one or 'missing'} and {two or 'missing'}"
    drivers = [info.device.driver if info.device else None for info in (first, second)]
    if drivers[0] != drivers[1]:
        yield f"driver {drivers[0]} and {drivers[1]}"


def _policy_notes(looser: Sequence[str]) -> Iterator[str]:
    yield from (f"looser than the baseline: {text}" for text in looser)


def _override_notes(info: RunInfo) -> Iterator[str]:
    for side in (info.task, info.baseline):
        if side and side.debug_build:
            yield f"debug build (nvcc -G) of {side.name}: its code is not optimised, so resources, speed and counters were not judged"
    for name, value in sorted(info.task.overrides.items()):
        yield f"overridden from outside: {name}={value}"
    if info.git.sha is None and info.git.dirty:
        yield f"revision {info.git.source}"
    elif info.git.dirty:
        yield "the working tree had uncommitted changes"


def speed_of(evidence: Mapping[str, Any]) -> Speed | None:
    """The speed-up that a run measured in interleaved pairs; None where it measured none."""
    performance = evidence.get("performance")
    if performance is None or performance.status != MEASURED or performance.baseline is None:
        return None
    limits = {"cache": performance.gated_mode, "min_speedup_pct": performance.bar_pct or 0.0}
    reading = read(performance, limits)
    if reading.ruling is None:
        return None
    found, other = reading.ruling.interval, reading.other
    outcomes = {one.outcome(limits["min_speedup_pct"]) for one in (found, other) if one is not None}
    return Speed(
        reading.mode, performance.shape, found.pairs, *(100.0 * (x - 1.0) for x in (found.ratio, found.low, found.high)),
        performance.bar_pct, reading.floor_pct, reading.other_mode, 100.0 * (other.ratio - 1.0) if other else None,
        outcomes == {ABOVE, BELOW},
    )


def _weak_notes(verdict: Verdict, most: int = 5) -> Iterator[str]:
    """Cases that the correctness gate tried and did not count, since a null answer passes them too."""
    for check in (check for result in verdict.gates for check in result.checks if check.name == "weak_cases"):
        cases, _, nulls = zip(*(told.rpartition(": ") for told in check.where.split("; ")), strict=True)
        more = f" and {len(cases) - most} more" if len(cases) > most else ""
        yield (
            f"correctness does not count {', '.join(cases[:most])}{more}: "
            f"an answer that leaves out the kernel's work ({', '.join(dict.fromkeys(nulls))}) is within all limits there, too"
        )


def _sections(before: Mapping[str, Any], after: Mapping[str, Any], timed: Mapping[str, Any] | None) -> Iterator[Section]:
    builders: tuple[tuple[str, Callable[[], Iterator[Row]]], ...] = (
        ("Kernel time", lambda: _time_rows(before, after, timed)),
        ("Compiled resources", lambda: _resource_rows(before.get("ptxas"), after.get("ptxas"))),
        ("Errors against the reference", lambda: _error_rows(before, after)),
        ("Machine instructions", lambda: _sass_rows(before.get("sass"), after.get("sass"))),
        ("Hardware counters", lambda: _counter_rows(before, after, timed)),
        ("Other implementations, for context", lambda: _backend_rows(after.get("performance"))),
        ("Other shapes, for context", lambda: _also_rows(after.get("performance"))),
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
    for key, one, two in _by_name(before.kernels if before else (), after.kernels if after else ()):
        for name, unit, value in (
            ("registers", "a thread", lambda k: k.final.registers), ("shared memory", "bytes", lambda k: k.smem_bytes),
            ("spills", "bytes", lambda k: _sum(k.spill_store_bytes, k.spill_load_bytes)),
            ("occupancy", "%", lambda k: k.occupancy_pct),
        ):
            yield Row(f"{key} {name}", unit, value(one) if one else None, value(two) if two else None)


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
    ours, theirs = (_over_bound(side.cases if side else ()) for side in (evidence, own))
    for group in dict.fromkeys([*theirs, *ours]):
        yield Row(f"{group} max_err_over_bound", "", theirs.get(group), ours.get(group))


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
        classes = dict.fromkeys([*(one.classes if one else ()), *(two.classes if two else ())])
        for name in classes:
            values = [side.classes.get(name, 0) if side else None for side in (one, two)]
            if any(values):
                yield Row(f"{key} {name}", "instructions", *values)


def _counter_rows(before: Mapping[str, Any], after: Mapping[str, Any], timed: Mapping[str, Any] | None) -> Iterator[Row]:
    ours = _counters(after.get("ncu"), CANDIDATE)
    theirs = _counters((timed or before).get("ncu"), BASELINE if timed else CANDIDATE)
    for name in dict.fromkeys([*theirs, *ours]):
        one, two = theirs.get(name), ours.get(name)
        yield Row(name, (two or one).unit, one.value if one else None, two.value if two else None)


def _counters(evidence: Any, role: str) -> dict[str, Any]:
    side = evidence.sides.get(role) if evidence else None
    return {
        f"{without_parameters(kernel.kernel)} {counter.metric}": counter
        for kernel in (side.kernels if side else ()) for counter in kernel.counters if counter.value is not None
    }


def _backend_rows(performance: Any) -> Iterator[Row]:
    """Each other implementation in the place of the baseline."""
    own = performance.figures.get("cold", {}).get(CANDIDATE) if performance else None
    for name, backend in (performance.backends if performance else {}).items():
        yield Row(f"cold, against {name}", "us", backend.message if backend.p50_us is None else backend.p50_us, own.p50_us if own else None)


def _also_rows(performance: Any) -> Iterator[Row]:
    """What was timed beside: the candidate against the baseline, and against each other implementation."""
    for shape, rows in (performance.also if performance else {}).items():
        own = rows.get(CANDIDATE)
        for name, other in rows.items():
            for mode in ("cold", "warm") if name != CANDIDATE else ():
                what = f"{shape} {mode}{'' if name == BASELINE else f', against {name}'}"
                one, two = (getattr(row, f"{mode}_us", None) for row in (other, own))
                yield Row(what, "us", other.message if one is None else one, own.message if own and two is None else two)
