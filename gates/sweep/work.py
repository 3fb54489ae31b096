"""What a worker does with one variant: compile and judge its resources and machine code, check its numbers, time it, judge it whole.

Plain functions of a picklable ``Job``, which run the engine's steps; kernels run in processes of their own, as
always. They write nothing but build products and scratch: evidence comes back as bytes, so workers on other machines
need no common results folder. A GatesError that leaves them is about the machine, not the variant, and ends the sweep.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gates.build import dumps
from gates.build.build import build
from gates.build.toolchain import find_toolchain
from gates.core.errors import EXIT_HOLD, GatesError
from gates.core.records import GateResult, Status
from gates.core.scratch_folder import ScratchFolder
from gates.evidence.run_directory import RunDirectory, read_record
from gates.gate.performance import codes as performance_codes
from gates.gate.performance import evidence as performance_evidence
from gates.gate.performance import judge as performance
from gates.gate.performance.collect import run_timing
from gates.gate.performance.limit import limit_of
from gates.gate.performance.reading import read
from gates.gate.performance.thresholds import one_shape
from gates.gate.ptxas.evidence import PtxasEvidence, PtxasKernel
from gates.gate.reasons import BUILD_FAILED, NO_TOOL
from gates.gate.registry import ROWS
from gates.gate.sass import codes as sass_codes
from gates.gate.session import Session, judge_step
from gates.launch import device as devices
from gates.pipeline.run import Options, run_info, run_task
from gates.render.console import Silence
from gates.stats.estimators import hodges_lehmann
from gates.stats.sampling import differences
from gates.sweep.record import Found, Resources, Timing
from gates.sweep.variants import with_toggles
from gates.task.load import Task, load_baseline

SINGLE_LAUNCHES = 60  # a side: the least that the timing takes; the sweep ranks by p50 of the pairs


@dataclass(frozen=True)
class Job:
    """One variant to work on. Paths are absolute, and the same on every machine; ``arch``: the timing device's, None without one."""

    variant: str
    folder: str
    toggles: Mapping[str, int]
    digest: str
    build_dir: str
    shapes: tuple[str, ...]
    seed: int
    arch: str | None
    compilers: int
    reference: tuple[Mapping[str, int], str] | None = None  # its toggles and digest, to be timed against
    budget_s: float = 0.0


@dataclass(frozen=True)
class Done:
    """What came of a job: the gate's word, evidence files by name, and what the stage has besides."""

    variant: str
    found: Found | None
    files: Mapping[str, bytes]
    resources: tuple[Resources, ...] = ()
    timing: Timing | None = None
    run: tuple[str, str] | None = None  # the name of a run directory, and its decision
    sass: Found | None = None  # the compile stage's second gate


def compile_variant(job: Job) -> Done:
    """Build the variant for every architecture and judge its resources and its machine code; needs no device."""
    with _session(job, None) as session:
        for want in ({"cubin"}, {"cubin", "emulator"}):  # launches, which the emulator tells, can't save what breaks the budget without
            session.builds[session.task.name] = _built(job, session, want)
            result = _judged(session, "ptxas")
            if result.status is Status.FAIL:
                break
        evidence = _ptxas(session)
        sass = None if result.status is Status.FAIL else Found.of(_judged(session, "sass"))
        if job.arch is not None and sass is not None and sass.status is not Status.FAIL:
            failure = _built(job, session, {"device"}).failure("device")
            if failure is not None:
                result = GateResult("ptxas", Status.FAIL, BUILD_FAILED.of("ptxas"), failure.sentence)
        resources = tuple(map(_resources, evidence.kernels if evidence else ()))
        return Done(job.variant, Found.of(result), _files(session.directory.path), resources, sass=sass)


def build_baseline(job: Job) -> Done:
    """Compile the baseline that the winner's run will need, and take it apart, while the variants are compiled; needs no device."""
    task = load_baseline(_task(job.folder, job.toggles, job.digest))
    assert task is not None, "a task without a baseline has nothing to build ahead"
    toolchain, want = find_toolchain(), {"cubin", "emulator", "device"}
    built = build(task, toolchain, Path(job.build_dir), device_arch=job.arch, want=want, jobs=job.compilers)
    _ = dumps.collect(built, toolchain).sass  # it is kept beside the cubins
    return Done(job.variant, None, {})


def check_variant(job: Job) -> Done:
    """The task's shapes with one seed, the odd shapes and the special inputs: on this worker's device, or on the emulator."""
    with _session(job, own_device() if job.arch else None) as session:
        session.builds[session.task.name] = _built(job, session, {"device" if job.arch else "emulator"})
        session.jobs = None if job.arch else job.compilers  # one card for all cores: several processes share the cases
        return Done(job.variant, Found.of(_judged(session, "correctness")), _files(session.directory.path))


def time_variant(job: Job) -> Done:
    """The variant against the reference, interleaved, on this worker's device, for at most ``budget_s`` of sampling."""
    assert job.reference is not None, "a timing needs a reference"
    device = own_device()
    with _session(job, device) as session:
        started = time.monotonic()
        evidence = time_pair(session, build_pair(session, _task(job.folder, *job.reference), session.build_dir), job.budget_s)
        timing = timing_of(job.variant, evidence, session.task.gates["performance"], device.uuid, round(time.monotonic() - started, 3))
        return Done(job.variant, None, _files(session.directory.path), timing=timing)


Pair = tuple[list[dict[str, Any]], list[str]]  # of a candidate and its reference: the sides as a job has them, the builds' identities


def build_pair(session: Session, reference: Task, build_dir: Path) -> Pair:
    """Build what is to be timed, before the card is taken: the session's task, and ``reference`` in ``build_dir``.

    Raises GatesError where one of both has no library for the device.
    """
    arch = session.device.arch if session.device else None
    sides, identities = list[dict[str, Any]](), list[str]()
    for one, folder in ((session.task, session.build_dir), (reference, build_dir)):
        built = build(one, session.toolchain, folder, device_arch=arch, want={"device"}, jobs=session.jobs)
        if (failure := built.failure("device")) is not None:
            raise GatesError(
                f"{one.name} has no library to time: {failure.sentence}", hint="workers of a sweep must have the same compilers"
            )
        sides.append(built.side(one, "device"))
        identities.append(built.identity)
    return sides, identities


def time_pair(session: Session, pair: Pair, budget_s: float, *, equal_ends: bool = False) -> performance_evidence.PerformanceEvidence:
    """Time both sides of ``pair``, interleaved, for at most ``budget_s`` of sampling, and write performance.json; ``equal_ends``: see
    ``gates.stats.sampling.measure``.
    """
    task, limits, (sides, identities) = session.task, session.task.gates["performance"], pair
    raw = run_timing(
        sides[0],
        shape=task.timed_shapes[0],
        work=session.scratch / "timing",
        limit_s=task.time_limit_s,
        bar_pct=0.0,
        baseline=sides[1],
        output_limits=task.gates["correctness"],
        device=session.cuda,
        cache=limits.get("cache", "cold"),
        iters=SINGLE_LAUNCHES,
        budget_s=budget_s,
        equal_ends=equal_ends,
        others=False,
        always_alone=False,
    )
    evidence = replace(performance_evidence.parse(raw), build=identities[0], baseline_build=identities[1])
    session.write("performance.json", evidence)
    return evidence


def judge_variant(job: Job) -> Done:
    """A whole `gates run` of the variant; the run directory comes back as it is to be published."""
    options = Options(
        task=job.folder,
        toggles={name: str(value) for name, value in job.toggles.items()},
        profile="full" if job.arch else "cpu",
        build_dir=Path(job.build_dir),
        argv=("run", Path(job.folder).name, *(part for name, value in job.toggles.items() for part in ("--toggle", f"{name}={value}"))),
    )
    with ScratchFolder(Path(tempfile.gettempdir()), "gates-sweep-") as scratch:
        outcome = run_task(replace(options, results=scratch), Silence())
        return Done(job.variant, None, _files(outcome.path), run=(outcome.path.name, outcome.verdict.decision.value))


def timing_of(
    variant: str, evidence: performance_evidence.PerformanceEvidence, limits: Mapping[str, Any], uuid: str, wall_s: float
) -> Timing:
    """What a timing says of ``variant``; no ratio where nothing was measured or the outputs were wrong."""
    terms = one_shape(limits)
    result = performance.judge(evidence, terms)
    figures = performance_evidence.summaries(evidence).get(terms["cache"], {})
    p50_us, reference_us = (figures[side].p50_us if side in figures else None for side in ("candidate", "baseline"))
    ratio = low = high = None
    if evidence.status == performance_evidence.MEASURED and (result.status is not Status.FAIL or result.code == performance_codes.TOO_SLOW):
        ruling, series = read(evidence, terms["cache"], 0.0).ruling, evidence.in_mode(terms["cache"])
        if ruling is not None:
            ratio, low, high = ruling.interval.ratio, ruling.interval.low, ruling.interval.high
        elif series is not None and (taken := differences(series)):
            ratio = math.exp(hodges_lehmann(taken))
    reached = limit_of(evidence, terms["cache"])
    share = round(reached.share_pct, 3) if reached else None
    return Timing(
        variant, result.status is Status.PASS, result.code, result.sentence, ratio, low, high, p50_us, reference_us, uuid, wall_s, share
    )


def own_device() -> devices.DeviceInfo:
    """The device of this worker: the first that it sees. Raises GatesError where it sees none."""
    found = devices.probe()
    if not found.devices:
        raise GatesError(
            f"a worker for timing has {found.reason}", hint="start it with --resources GPU=1 on a machine with one", exit_code=EXIT_HOLD
        )
    return found.devices[0]


def _task(folder: str, toggles: Mapping[str, int], digest: str) -> Task:
    """The task as the sweep knows it; its own checks leave a comparison with the baseline to the winner's run."""
    task = with_toggles(Path(folder), toggles)
    if task.digest() != digest:
        raise GatesError(
            f"{folder}: these are not the files that the sweep began with",
            hint="workers must have the same checkout; a changed task needs a new sweep",
        )
    return replace(task, gates={**task.gates, "correctness": ROWS["correctness"].own_limits(task.gates["correctness"])})


@contextmanager
def _session(job: Job, device: devices.DeviceInfo | None) -> Iterator[Session]:
    """A session for the variant, which has the device to itself."""
    task = _task(job.folder, job.toggles, job.digest)
    with (
        devices.card(device.uuid) if device else nullcontext(),
        ScratchFolder(Path(tempfile.gettempdir()), "gates-sweep-") as scratch,
        RunDirectory(scratch / "evidence", task.name) as directory,
    ):
        yield Session(
            task, None, job.shapes, (job.seed,), find_toolchain(), device, directory, scratch, Path(job.build_dir), job.compilers, Silence()
        )


def _built(job: Job, session: Session, want: Collection[str]) -> Any:
    return build(session.task, session.toolchain, session.build_dir, device_arch=job.arch, want=want, jobs=job.compilers)


def _judged(session: Session, gate: str) -> GateResult:
    """The gate's verdict; raises GatesError where this machine lacks a tool for it."""
    info = run_info(
        session.task, None, session.toolchain, session.device, shapes=session.shapes, seeds=session.seeds, profile="sweep", why=""
    )
    result = judge_step(session, info, gate)
    if result.code in (NO_TOOL.of(gate), sass_codes.NO_DUMP):
        why = result.checks[0].hint if result.checks else result.sentence
        raise GatesError(why, hint="`gates doctor` says what is missing and how to get it", exit_code=EXIT_HOLD)
    return result


def _ptxas(session: Session) -> PtxasEvidence | None:
    path = session.directory.path
    return read_record(PtxasEvidence, path, "ptxas.json") if (path / "ptxas.json").is_file() else None


def _resources(kernel: PtxasKernel) -> Resources:
    stored, loaded = kernel.spill_store_bytes, kernel.spill_load_bytes
    return Resources(
        kernel.base_name,
        kernel.arch,
        kernel.final.registers,
        kernel.smem_bytes,
        None if stored is None or loaded is None else stored + loaded,
        kernel.occupancy_pct,
    )


def _files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
