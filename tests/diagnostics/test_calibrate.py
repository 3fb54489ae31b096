"""`gates calibrate`: its kernels give right numbers, and its file gives the peaks that its samples show."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from performance_gates import DEVICE, fed

from gates.build.build import build
from gates.build.toolchain import find_toolchain
from gates.core import jsonio, records
from gates.core.errors import EXIT_HOLD, GatesError
from gates.core.records import Status
from gates.diagnostics.calibrate import DATA, calibrate
from gates.gate.correctness.collect import run_correctness
from gates.gate.correctness.evidence import parse
from gates.gate.correctness.judge import judge
from gates.gate.performance.calibrated import CardPeaks, path_of, peaks_of, read_peaks, summary
from gates.gate.performance.evidence import Work
from gates.gate.performance.limit import limit_of
from gates.task import problem as problems
from gates.task.load import load_task

OPERATIONS = {"cuda.fp32": 1e9, "sfu.ex2": 1e8, "tensor.fp16": 1e10}


def card(**changes) -> CardPeaks:
    device = replace(DEVICE, max_sm_mhz=1980.0, **changes)
    units = {"memory": Work(None, 3e9, 10**9), **{unit: Work(None, 1e6, 0, {unit: count}) for unit, count in OPERATIONS.items()}}
    timed = {unit: fed([1000.0], [1.0], device=device, work=one) for unit, one in units.items()}
    return CardPeaks(1, "0.1.0", "2026-01-01T00:00:00+00:00", timed)


@pytest.mark.parametrize(("arch", "shapes"), [("sm_80", None), ("sm_90a", ["small.tensor.fp16"])])
def test_its_kernels_give_the_right_numbers(tmp_path, kept, arch, shapes) -> None:
    home = kept(f"calibration_{arch}", lambda folder: None)
    folder = shutil.copytree(DATA, home / DATA.name, dirs_exist_ok=True)
    text = (folder / "task.yaml").read_text(encoding="utf-8")
    (folder / "task.yaml").write_text(text.replace("arch: [sm_80, sm_90a]", f"arch: [{arch}]"), encoding="utf-8")
    task = load_task(folder, {}, environ={})
    built = build(task, find_toolchain(), home / "build", want={"emulator"})
    if failure := built.failure("emulator"):
        pytest.skip(failure.sentence)
    limits = task.gates["correctness"]
    side, work = built.side(task, "emulator"), tmp_path / "run"
    raw = run_correctness(side, shapes or task.shapes, task.seeds, work=work, limit_s=120, bad_atol=limits["bad_atol"], limits=limits)
    result = judge(parse(raw), limits)
    assert result.status is Status.PASS, result.sentence


def test_work_counts_what_the_kernels_do() -> None:
    problem = problems.load("calibration_problem", DATA)
    assert [problem.work({"N": 64, "KIND": kind}) for kind in range(4)] == [
        {"bytes": 512},
        {"bytes": 512, "cuda.fp32": 64 * 2 * 4096},
        {"bytes": 512, "sfu.ex2": 64 * 4096},
        {"bytes": 512, "tensor.fp16": 64 * 2 * 32 * 256 * 16},  # half a warpgroup makes 32 of the 64 rows
    ]


def test_peaks_follow_from_the_samples() -> None:
    peaks = peaks_of(card(compute_capability="8.0"))
    assert peaks.bytes_per_s == pytest.approx(3e9 * 1e3, rel=1e-4)
    assert peaks.per_sm_clock == {unit: pytest.approx(count / (1000 * 132 * 1980), rel=1e-4) for unit, count in OPERATIONS.items()}
    assert "tensor.fp16" in peaks_of(card()).per_sm_clock
    assert "tensor.fp16" not in peaks_of(card(compute_capability="10.0")).per_sm_clock  # it needs tcgen05
    assert summary(card().device, peaks)[0] == "simulated, driver 580 at 1980 MHz"


def test_a_run_takes_the_peaks_of_its_own_card_and_driver(tmp_path) -> None:
    made = card()
    jsonio.write(path_of(tmp_path, made.device), records.to_json(made))
    peaks = read_peaks(tmp_path, made.device)
    assert peaks == peaks_of(made) and read_peaks(tmp_path, replace(made.device, driver="590")) is None
    assert read_peaks(tmp_path, replace(made.device, uuid="GPU-1")) is None and read_peaks(tmp_path, None) is None
    copied = replace(made.units["memory"], peaks=peaks, work=replace(made.units["memory"].work, operations={"cuda.fp32": 1.0}))
    assert limit_of(copied, "cold").share_pct == pytest.approx(100.0 * (1 - 50 * 2**20 / 3e9))  # the L2 may keep 50 MiB of the output
    path_of(tmp_path, made.device).write_text("{}")
    with pytest.raises(GatesError, match="calibration-0.json"):
        read_peaks(tmp_path, made.device)


@pytest.mark.gpu
def test_a_card_is_calibrated_within_its_data_sheet(tmp_path) -> None:
    class Quiet:
        def step(self, text: str, limit_s: float | None = None) -> None:
            pass

    try:
        made, path, missing = calibrate(tmp_path, 0, Quiet())
    except GatesError as error:
        if error.exit_code == EXIT_HOLD:
            pytest.skip(error.what)
        raise
    shares = {line.split(":")[0]: int(line.split(" % of the ")[0].split()[-1]) for line in summary(made.device, peaks_of(made))[1:]}
    print(shares, missing)
    assert path.is_file() and len(shares) + len(missing) == len(made.units) + len(missing) == 4
    assert all(60 <= share <= 101 for share in shares.values())
