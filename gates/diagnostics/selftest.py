"""Plant a fault in every gate, on this machine, and show that each gate refuses; sound evidence must pass.

Every plant goes the whole way from raw text or samples through the gate's own parser and judge. What needs
no tool is made from stored texts and from the simulated device; where a compiler is found, the same
faults are compiled and run here, and on a CUDA device one library is timed against itself.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gates.build.build import build
from gates.build.dumps import collect, read_logs
from gates.build.result import BuildResult
from gates.build.toolchain import Toolchain, find_toolchain
from gates.core.errors import GatesError
from gates.core.records import GateResult
from gates.gate.correctness.collect import run_correctness
from gates.gate.correctness.evidence import parse as parse_cases
from gates.gate.correctness.judge import judge as judge_cases
from gates.gate.performance.collect import HANDS, run_timing
from gates.gate.performance.evidence import parse as parse_times
from gates.gate.performance.judge import judge as judge_times
from gates.gate.plant import CLOSE, SOUND, Outcome
from gates.gate.ptxas import planted as ptxas
from gates.gate.registry import ROWS
from gates.gate.sass import planted as sass
from gates.launch.device import DeviceInfo, probe
from gates.task.load import Task, load_task

_DATA = Path(__file__).parent / "selftest_data"


def selftest(left_out: list[str]) -> Iterator[Outcome]:
    """Plant after plant; what this machine can't do is appended to ``left_out`` with the reason."""
    for row in ROWS.values():
        yield from row.planted()
    found = probe()
    device = found.devices[0] if found.devices else None
    with tempfile.TemporaryDirectory(prefix="gates-selftest-") as scratch:
        try:
            yield from _compiled(Path(scratch), device, left_out)
        except GatesError as error:
            left_out.append(f"faults compiled on this machine: {error.what}")
    if device is None:
        left_out.append(f"one library timed against itself on a device: {found.reason or 'no CUDA device'}")


def whole(outcomes: list[Outcome]) -> bool:
    """Whether every outcome is good and each gate had a fault to refuse and sound evidence to pass."""
    seen = {(outcome.gate, outcome.sound) for outcome in outcomes}
    return all(outcome.good for outcome in outcomes) and seen == {(gate, sound) for gate in ROWS for sound in (True, False)}


def _compiled(scratch: Path, device: DeviceInfo | None, left_out: list[str]) -> Iterator[Outcome]:
    """The stage in selftest_data built with this machine's tools, sound and with its faults, side by side."""
    folder = scratch / "selftest"
    shutil.copytree(_DATA, folder)
    toolchain = find_toolchain()

    def built(fault: int, *want: str) -> tuple[Task, BuildResult]:
        task = load_task(folder, {"FAULT": str(fault)}, environ={})
        return task, build(task, toolchain, scratch / "build", device_arch=device.arch if device else None, want=set(want))

    def run(fault: int) -> GateResult | str:
        task, result = built(fault, "emulator")
        failure = result.failure("emulator")
        return failure.sentence if failure else _run_here(task, result, scratch / f"run{fault}")

    with ThreadPoolExecutor() as pool:  # each is mostly a wait for one compiler or one start of torch
        runs = [(name, pool.submit(run, fault)) for fault, name in enumerate(("", "one NaN in the output", "zeros"))]
        spilling = pool.submit(built, 3, "cubin")
        sound, result = built(0, "cubin", *(["device"] if device else []))
        yield from _compiled_static(result, spilling.result()[1], sound, toolchain, left_out)
        for name, future in runs:
            seen = future.result()
            if isinstance(seen, str):
                left_out.append(f"faulty kernels run on the emulator: {seen}")
                break
            yield Outcome("correctness", f"{name or SOUND}, run on the emulator", seen)
        else:
            _plant(built(0, "emulator")[1], built(2, "emulator")[1], folder)
            seen = run(2)
            if isinstance(seen, GateResult):
                yield Outcome("correctness", "zeros, under the sound library of another build", seen)
    if device is None:
        return
    if failure := result.failure("device"):
        left_out.append(f"one library timed against itself: {failure.sentence}")
    else:
        yield Outcome("performance", f"one library twice on {device.name}, threshold 0 %", _time_here(sound, result, device, scratch))
        yield Outcome(
            "performance",
            f"one library twice on {device.name}, the candidate's times divided by four",
            _time_here(sound, result, device, scratch, forged=True),
        )


def _plant(sound: BuildResult, faulty: BuildResult, sources: Path) -> None:
    """Replace the faulty library with the sound one, newer than all other files, like a stale or copied build product."""
    target = faulty.path("emulator")
    shutil.copyfile(sound.path("emulator") or "", target or "")
    os.utime(target or "", (2**32, 2**32))
    for path in sources.iterdir():
        os.utime(path, (10**9, 10**9))


def _compiled_static(sound: BuildResult, spilling: BuildResult, task: Task, toolchain: Toolchain, left_out: list[str]) -> Iterator[Outcome]:
    if failure := sound.failure("cubin") or spilling.failure("cubin"):
        left_out.append(f"faults compiled by this machine's nvcc: {failure.sentence}")
        return
    texts, arch = collect(sound, toolchain), task.arch[0]
    yield Outcome("ptxas", f"{SOUND}, compiled here", ptxas.judged(texts.logs[arch] or "", arch))
    yield Outcome("ptxas", "spilled registers, compiled here", ptxas.judged(read_logs(spilling)[arch] or "", arch))
    if texts.sass[arch] is None:
        left_out.append(f"scalar code compiled here: {'; '.join(texts.reasons)}")
        return
    yield Outcome("sass", f"{SOUND}, compiled here", sass.judged(texts.sass[arch], "fma", arch))
    yield Outcome("sass", "scalar code where tensor cores are required, compiled here", sass.judged(texts.sass[arch], "tensor", arch))


def _side(task: Task, result: BuildResult, kind: str) -> dict[str, Any]:
    return result.side(task, kind)


def _run_here(task: Task, result: BuildResult, work: Path) -> GateResult:
    raw = run_correctness(
        _side(task, result, "emulator"),
        task.shapes,
        task.seeds,
        work=work,
        limit_s=task.time_limit_s,
        bad_atol=CLOSE["bad_atol"],
    )
    return judge_cases(parse_cases(raw), CLOSE)


def _time_here(task: Task, result: BuildResult, device: DeviceInfo, scratch: Path, *, forged: bool = False) -> GateResult:
    """Time one library against itself; ``forged``: the process claims a quarter of the candidate's times."""
    side = _side(task, result, "device")
    raw = run_timing(
        side,
        shape="large",
        work=scratch / f"timing{forged:d}",
        limit_s=task.time_limit_s,
        bar_pct=0.0,
        baseline=side,
        output_limits=CLOSE,
        device=f"cuda:{device.index}",
        budget_s=15.0,
        hands="gates.diagnostics.selftest_data.hands" if forged else HANDS,
    )
    return judge_times(parse_times(raw), {"shape": "large", "min_speedup_pct": 0.0})
