"""Measure the peaks of this card: a copy, multiply-adds, powers and tensor products, each timed by the performance gate's own means.

Tensor products are wgmma on sm_90 and mma.sync on other chips.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from gates import __version__
from gates.build.build import build
from gates.build.toolchain import find_toolchain
from gates.core import jsonio, records
from gates.core.errors import EXIT_FAIL, EXIT_HOLD, GatesError
from gates.core.records import Status
from gates.evidence.run_directory import utc_now
from gates.gate.performance.calibrated import SCHEMA_VERSION, CardPeaks, path_of
from gates.gate.performance.collect import run_timing
from gates.gate.performance.evidence import PerformanceEvidence, parse
from gates.gate.performance.judge import judge
from gates.gate.session import ProgressLike
from gates.launch.device import probe
from gates.task.load import load_task

DATA = Path(__file__).parent / "calibration_data"


def calibrate(results: Path, index: int, progress: ProgressLike) -> tuple[CardPeaks, Path, tuple[str, ...]]:
    """Time every unit on CUDA device ``index`` and keep the samples in ``results``; returns them, their file, and why units are missing.

    Raises GatesError without such a device, and if no unit could be measured (exit code 3 both), as while other work is on the card.
    """
    found = probe()
    if index >= len(found.devices):
        raise GatesError(
            found.reason or f"no CUDA device {index}: there are {len(found.devices)}",
            hint="run it on a machine with a GPU",
            exit_code=EXIT_HOLD,
        )
    device = found.devices[index]
    with tempfile.TemporaryDirectory(prefix="gates-calibrate-") as scratch:
        folder = Path(scratch) / DATA.name
        shutil.copytree(DATA, folder)
        task = load_task(folder, {}, environ={})
        progress.step(f"compiling for {device.arch}")
        built = build(task, find_toolchain(), Path(scratch) / "build", device_arch=device.arch, want={"device"})
        if (failure := built.failure("device")) is not None:
            raise GatesError(f"the calibration does not compile: {failure.sentence}", hint="gates doctor")
        units: dict[str, PerformanceEvidence] = {}
        missing: list[str] = []
        for number, unit in enumerate(task.timed_shapes):
            progress.step(f"timing {unit} on {device.name}", task.time_limit_s)
            raw = run_timing(
                built.side(task, "device"),
                shape=unit,
                work=Path(scratch) / f"timing{number}",
                limit_s=task.time_limit_s,
                bar_pct=0.0,
                output_limits=task.gates["correctness"],
                device=f"cuda:{index}",
            )
            evidence = parse(raw)
            result = judge(evidence, {"shape": unit, "min_speedup_pct": 0.0}, not_applicable_reason="calibration")
            if result.status is Status.FAIL:
                raise GatesError(f"{unit}: {result.sentence} ({result.code})", hint="the calibration is wrong", exit_code=EXIT_FAIL)
            if result.status is Status.NOT_APPLICABLE:
                units[unit] = evidence
            else:
                missing.append(f"{unit} was not measured: {result.sentence} ({result.code})")
    if not units:
        raise GatesError(missing[0], hint="run it again on an idle card and host", exit_code=EXIT_HOLD)
    card = CardPeaks(SCHEMA_VERSION, __version__, utc_now().isoformat(timespec="seconds"), units)
    path = path_of(results, card.device)
    jsonio.make_folder(results)
    jsonio.write(path, records.to_json(card))
    return card, path, tuple(missing)
