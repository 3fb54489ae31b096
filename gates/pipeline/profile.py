"""Hardware counters of tasks side by side, without a run: what ``gates profile`` shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gates.build.build import build
from gates.build.toolchain import find_toolchain
from gates.core.errors import EXIT_FAIL, EXIT_HOLD, GatesError
from gates.evidence.run_directory import require_outside_a_run
from gates.gate.ncu.collect import run_ncu
from gates.gate.ncu.evidence import parse
from gates.pipeline.run import choose_profile
from gates.render.counters import counter_table
from gates.task.load import find_task


def profile_tasks(
    names: tuple[str, ...], *, shape: str | None, seed: int, out: Path, toggles: Mapping[str, str], build_dir: Path
) -> tuple[str, int]:
    """The counters of each named task side by side, and the exit code: 3 where one could not be profiled."""
    require_outside_a_run(out / "report")
    _, _, device = choose_profile("full", 0, "counters take a device; `gates build TASK` says registers and spills without one")
    assert device is not None
    toolchain = find_toolchain()
    tool = toolchain.get("ncu")
    found = []
    for task in [find_task(name, toggles) for name in names]:
        built = build(task, toolchain, build_dir, device_arch=device.arch, want={"device"})
        failure = built.failure("device")
        if failure is not None:
            raise GatesError(f"{task.name}: {failure.sentence}", hint=failure.hint or None, exit_code=EXIT_FAIL)
        raw = run_ncu(
            built.side(task, "device"),
            task.kernels,
            shape=shape or next(iter(task.timed_shapes), task.shapes[-1]),
            chip=device.arch,
            work=(out / task.name).resolve(),
            limit_s=task.time_limit_s,
            ncu=tool.path if tool else None,
            seed=seed,
        )
        found.append(parse(raw))
    profiled = all(not evidence.code and not evidence.sides["candidate"].code for evidence in found)
    return counter_table(found), 0 if profiled else EXIT_HOLD
