"""What a sweep is to try, before anything is done: the options, the parameters, and every variant."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gates import __version__
from gates.build.toolchain import find_toolchain
from gates.core.errors import GatesError
from gates.evidence.revision import revision
from gates.evidence.run_directory import SCHEMA_VERSION, utc_now
from gates.launch.device import DeviceInfo
from gates.pipeline.run import device_record
from gates.sweep.record import Sweep, Variant, read_sweep, sweep_id
from gates.sweep.variants import grid, parse_params
from gates.task.load import Task, find_task
from gates.task.sources.architectures import cubin_archs


@dataclass(frozen=True)
class Options:
    """What the user asked for; ``task`` may be left out of what goes on with a sweep of a task that `gates list` names."""

    task: str | None
    params: tuple[str, ...] = ()
    resume: Path | None = None
    profile: str = "auto"
    scheduler: str | None = None
    workers: int | None = None  # for builds, on this machine; None: one per core
    results: Path = Path("results")
    build_dir: Path = Path("build")
    timed: bool = False  # what has no device to time on is refused, before anything is done


def task_of(options: Options) -> Task:
    """The task asked for, or that of the sweep to go on with, whatever the environment says of its toggles."""
    if options.task is not None:
        return find_task(options.task, environ={})
    if options.resume is None:
        raise GatesError("neither a task nor a sweep to resume is given", hint="e.g. gates sweep stage3 --param USE_CP_ASYNC=0,1")
    name = read_sweep(options.resume).task
    try:
        return find_task(name, environ={})
    except GatesError as error:
        raise GatesError(error.what, hint=f"name the folder of {name}: gates sweep FOLDER --resume {options.resume}") from None


def params_of(options: Options, task: Task) -> dict[str, tuple[int, ...]]:
    """The parameters asked for, or those of the sweep to go on with; raises GatesError where the two differ."""
    if options.resume is None:
        return parse_params(options.params, task)
    before = read_sweep(options.resume)
    params = {name: tuple(values) for name, values in before.params.items()}
    if options.params and parse_params(options.params, task) != params:
        raise GatesError(
            f"{options.resume} sweeps other parameters", hint="leave --param out: --resume continues with the recorded parameters"
        )
    if before.task != task.name:
        raise GatesError(
            f"{options.resume} is a sweep of {before.task}, not of {task.name}", hint=f"gates sweep {before.task} --resume {options.resume}"
        )
    return params


def plan(task: Task, params: dict[str, tuple[int, ...]], found: Sequence[DeviceInfo], why_no_device: str) -> Sweep:
    """The sweep before anything was done: the incumbent first, then every other combination."""
    combined = grid(params, task.toggles)
    digests = task.digests(toggles for _, toggles in combined)
    variants = tuple(Variant(name, toggles, digest) for (name, toggles), digest in zip(combined, digests, strict=True))
    toolchain = find_toolchain()
    versions = {name: tool.version if (tool := toolchain.get(name)) else None for name in toolchain.tools}
    limits, arch = task.gates["performance"], found[0].arch if found else None
    timed = task.timed_shapes
    if found and not timed:
        raise GatesError(
            f"{task.folder / 'task.yaml'} names no gates.performance.shape to time", hint="add it, or sweep with --profile cpu"
        )
    parts = {
        "task": task.name,
        "digest": task.digest(),
        "params": params,
        "nvcc": versions.get("nvcc"),
        "device": found[0].name if found else None,
        "gates": __version__,
    }
    return Sweep(
        SCHEMA_VERSION,
        __version__,
        sweep_id(parts),
        task.name,
        task.digest(),
        params,
        variants[0].name,
        variants[0].name,
        task.shapes,
        task.seeds[0],
        timed[0] if timed else "",
        limits.get("cache", "cold"),
        cubin_archs(task.arch, arch),
        revision(task.folder),
        versions,
        tuple(record for device in found if (record := device_record(device))),
        platform.platform(),
        variants,
        (),
        "" if found else f"not run: {why_no_device}",
        None,
        "",
        None,
        None,
        now(),
        "",
    )


def now() -> str:
    """The time in UTC as records have it."""
    return utc_now().isoformat(timespec="milliseconds")
