"""One run, from task to decision: build, gate after gate, evidence, verdict.

Each gate's evidence is written first and then judged from the written file, so that what can be
judged again later is what was judged now.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gates import __version__
from gates.build import compilers
from gates.build.build import check_build_root
from gates.build.toolchain import Toolchain, find_toolchain
from gates.comparison.within import compare_within
from gates.core.errors import EXIT_HOLD, GatesError
from gates.core.scratch_folder import ScratchFolder
from gates.evidence.judging import decision_of
from gates.evidence.phases import Phases
from gates.evidence.revision import revision
from gates.evidence.run_directory import (
    SCHEMA_VERSION,
    Device,
    RunDirectory,
    RunInfo,
    TaskInfo,
    Verdict,
    portable,
    run_label,
    utc_now,
)
from gates.gate.decision import exit_code
from gates.gate.registry import cpu_gates
from gates.gate.session import Session, judge_step
from gates.launch import device as devices
from gates.render.console import Progress
from gates.task.load import DIGEST_RULE, Task, find_task, load_baseline
from gates.task.problem import asked_inputs
from gates.task.sources.files import project_root
from gates.worker.describe import describe
from gates.worker.job import warm_up
from gates.worker.machine_fault import check_temporary
from gates.worker.process import ToolThreads

_RECORDED_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "PYTORCH_CUDA_ALLOC_CONF",
    "GATES_JOBS",
    "GATES_REVISION",
)  # beside those that compilers read


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    task: str
    profile: str = "auto"
    shapes: tuple[str, ...] | None = None
    seeds: tuple[int, ...] | None = None
    inputs: tuple[str, ...] = ()
    thorough: bool = False
    debug: bool = False
    device: int = 0
    toggles: Mapping[str, str] = dataclasses.field(default_factory=dict)
    results: Path = Path("results")
    build_dir: Path = Path("build")
    jobs: int | None = None
    argv: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """A finished run."""

    path: Path
    info: RunInfo
    verdict: Verdict
    exit_code: int


def run_task(options: Options, progress: Progress) -> Outcome:
    """Run the gates of a task and publish the run directory.

    Raises GatesError for bad input, a results folder that can't be written, and a full profile
    without a CUDA device (exit code 3).
    """
    clock, task = Phases(), find_task(options.task, options.toggles)
    task = task.for_debugging() if options.debug else task
    baseline = load_baseline(task)
    check_temporary()
    warm_up()
    profile, why, device = choose_profile(options.profile, options.device)
    check_build_root(options.build_dir)
    shapes, seeds = options.shapes or task.shapes, options.seeds or task.seeds
    inputs = asked_inputs(shapes, options.inputs)
    with (
        RunDirectory(options.results, task.name) as directory,
        ScratchFolder(Path(tempfile.gettempdir()), "gates-run-") as scratch,
        ToolThreads(8) as aside,
        alone_on_card(device, progress, clock),
    ):
        toolchain = find_toolchain()
        session = Session(
            task,
            baseline,
            shapes,
            seeds,
            toolchain,
            device,
            directory,
            scratch,
            options.build_dir,
            options.jobs,
            progress,
            inputs=inputs,
            thorough=options.thorough,
            aside=aside,
        )
        session.prepare()
        aside.submit(
            compilers.identities, toolchain
        )  # while another process reads the problem; the build asks again, and waits for nothing
        progress.step(f"{task.name}: reading the problem")
        wanted = dict.fromkeys([*shapes, *task.timed_shapes])
        sizes = describe(
            task.folder, task.problem, tuple(wanted), work=scratch, limit_s=task.time_limit_s, inputs=inputs, arguments=task.arguments
        )
        info = run_info(
            task,
            baseline,
            toolchain,
            device,
            sizes=sizes,
            shapes=shapes,
            seeds=seeds,
            inputs=inputs,
            profile=profile,
            why=why,
            argv=options.argv,
        )
        clock.ended("start")
        session.build()
        clock.ended("build")
        info = _built(info, session)
        results = []
        for gate in task.gates:
            results.append(judge_step(session, info, gate))
            clock.ended(gate)
            progress.result(results[-1])
        aside.stop()  # work begun for a gate that was not judged
        decision, reason = decision_of(info, results)
        verdict = Verdict(SCHEMA_VERSION, decision, reason, tuple(results))
        info = dataclasses.replace(info, ended=_time(), phase_s=clock.seconds)
        directory.write_json("run.json", info)
        directory.write_json("verdict.json", verdict)
        directory.write_text("COMPARE.md", compare_within(directory.path, info, verdict).markdown())
        path = directory.publish(run_label(datetime.fromisoformat(info.started), info.git, info.device.name if info.device else "cpu"))
    return Outcome(path, info, verdict, exit_code(results, info.asked_gates))


@contextlib.contextmanager
def alone_on_card(device: devices.DeviceInfo | None, progress: Progress, clock: Phases) -> Iterator[None]:
    """Hold the card, if there is one: another run's kernels would disturb a timing. A wait for it is a part of its own in ``clock``."""
    if device is None:
        yield
        return
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(devices.card(device.uuid, wait=False))
        except BlockingIOError:
            progress.step("waiting for the card: another program of gates uses it")
            held.enter_context(devices.card(device.uuid))
            clock.ended("wait")
        yield


def run_info(
    task: Task,
    baseline: Task | None,
    toolchain: Toolchain,
    device: devices.DeviceInfo | None,
    *,
    shapes: tuple[str, ...],
    seeds: tuple[int, ...],
    profile: str,
    why: str,
    sizes: Mapping[str, dict[str, int]] = MappingProxyType({}),
    inputs: tuple[str, ...] = (),
    argv: tuple[str, ...] = (),
) -> RunInfo:
    """What runs, where and with what, as it starts; ``sizes`` are the shapes' dimensions."""
    return RunInfo(
        SCHEMA_VERSION,
        __version__,
        _task_info(task, sizes, shapes, seeds, inputs),
        _task_info(baseline, sizes, shapes, seeds, inputs) if baseline else None,
        profile,
        why,
        cpu_gates(task.kind, task.gates) if profile == "cpu" else tuple(task.gates),
        revision(task.folder),
        tuple(portable(part, project_root(task.folder)) for part in argv),
        {name: tool.version if (tool := toolchain.get(name)) else None for name in toolchain.tools},
        device_record(device),
        _environment(task),
        platform.platform(),
        _time(),
        "",
    )


def _built(info: RunInfo, session: Session) -> RunInfo:
    """``info`` with what was built; raises GatesError where a file changed since the run began, which would be about two stages."""
    sides = [info.task, *([info.baseline] if info.baseline else [])]
    built = []
    for side in sides:
        result = session.builds[side.name]
        if result.stage != side.digest:
            raise GatesError(
                f"{side.name} changed while the run started: the digest of its files was {side.digest[:12]} and is {result.stage[:12]}",
                hint="run it again",
            )
        built.append(dataclasses.replace(side, build=result.identity, products=result.products()))
    return dataclasses.replace(info, task=built[0], baseline=built[1] if len(built) > 1 else None)


def choose_profile(
    asked: str, index: int, hint: str = "--profile cpu runs what needs no device", probe: Callable[[], devices.DeviceProbe] | None = None
) -> tuple[str, str, devices.DeviceInfo | None]:
    """(cpu or full, why, the device). Raises GatesError with ``hint``, exit code 3, for full without such a device.

    ``probe``: what knows the devices, if they were asked for before.
    """
    if asked == "cpu":
        return "cpu", "asked for", None
    found = (probe or devices.probe)()
    device = found.devices[index] if index < len(found.devices) else None
    reason = found.reason or f"no CUDA device {index}: there are {len(found.devices)}"
    if device is not None:
        return "full", "asked for" if asked == "full" else f"{device.name} is usable", device
    if asked == "full" or index:
        raise GatesError(reason, hint=hint, exit_code=EXIT_HOLD)
    return "cpu", reason, None


def _task_info(
    task: Task, sizes: Mapping[str, dict[str, int]], shapes: tuple[str, ...], seeds: tuple[int, ...], inputs: tuple[str, ...]
) -> TaskInfo:
    root = project_root(task.folder)
    overrides: dict[str, Any] = {
        **task.overrides,
        **{name: portable(value, root) for name, value in compilers.overriding(task.kind).items()},
    }
    if set(shapes) != set(task.shapes):
        overrides["shapes"] = ",".join(shapes)
    if set(seeds) != set(task.seeds):
        overrides["seeds"] = ",".join(map(str, seeds))
    if inputs:
        overrides["inputs"] = ",".join(inputs)
    return TaskInfo(
        task.name,
        task.title,
        task.digest(),
        task.problem,
        task.kernels,
        dict(task.toggles),
        overrides,
        task.arch,
        dict(sizes),
        seeds,
        {gate: dict(limits) for gate, limits in task.gates.items()},
        dict(task.not_applicable),
        task.problem_sha256(),
        shapes,
        task.shapes,
        task.seeds,
        inputs,
        task.kind,
        task.debug_build,
        DIGEST_RULE,
        stream=task.stream,
        terms_sha256=task.terms_sha256(),
    )


def device_record(found: devices.DeviceInfo | None) -> Device | None:
    """The device as evidence has it."""
    return Device(found.name, found.uuid, found.compute_capability, found.driver_version) if found else None


def _environment(task: Task) -> dict[str, str]:
    root = project_root(task.folder)
    names = dict.fromkeys((*_RECORDED_VARIABLES, *compilers.environment(), *task.toggles))
    return {name: portable(os.environ[name], root) for name in names if os.environ.get(name)} | {
        "python": sys.version.split()[0],
    }


def _time() -> str:
    return utc_now().isoformat(timespec="milliseconds")
