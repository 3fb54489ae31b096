"""The card's limit: what bounds a kernel, the share that it reaches, and times that no unit allows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from performance_gates import DEVICE, LIMITS, fed

from gates.comparison.paired import _limit_rows
from gates.core import records
from gates.core.records import Check, Status
from gates.core.schema import schema_errors
from gates.gate.performance.evidence import Peaks, PerformanceEvidence, Work
from gates.gate.performance.judge import judge
from gates.gate.performance.limit import MEMORY, limit_of, rates
from gates.hardware.chips import CHIPS
from gates.hardware.peaks import REPLACEABLE, UNITS, peak

CARD = replace(DEVICE, max_sm_mhz=1980.0)  # 132 SMs, 3.35 TB/s
TENSOR = 4096 * 132 * 1980.0  # operations in a us


def evidence(work: Work, p50_us: float = 10.0, **changes) -> PerformanceEvidence:
    return fed([p50_us, 1.01 * p50_us], [1.2 * p50_us, 1.21 * p50_us], work=work, device=CARD, **changes)


def work(output_bytes: int = 0, size: float = 1e6, **operations: float) -> Work:
    return Work(None, size, output_bytes, {unit.replace("_", "."): count for unit, count in operations.items()})


@pytest.mark.parametrize(
    ("wanted", "bound", "us"),
    [
        (work(tensor_fp16=4 * TENSOR), "tensor.fp16", 4.0),
        (work(tensor_fp16=4 * TENSOR, sfu_ex2=5 * 16 * 132 * 1980.0), "sfu.ex2", 5.0),
        (work(size=3.35e6 * 6 + 1000, output_bytes=1000, cuda_fp32=1e3), "memory", 6.0),
        (work(size=0.0, cuda_fp32=1e3), "launch", 0.8),
    ],
)
def test_the_largest_of_the_times_bounds(wanted, bound, us) -> None:
    found = limit_of(evidence(wanted, calibration=replace(fed([1.0], [1.0]).calibration, empty_kernel_us=0.8)), "cold")
    assert (found.bound, found.us) == (bound, pytest.approx(us)) and found.share_pct == pytest.approx(100 * us / found.p50_us)


def test_a_verdict_tells_the_share_and_may_ask_for_one() -> None:
    measured = evidence(work(tensor_fp16=4 * TENSOR))
    result = judge(measured, LIMITS)
    assert result.status is Status.PASS and "; 40 % of the limit of 4 us (tensor.fp16 at 1980 MHz)" in result.sentence
    (share,) = [check for check in result.checks if check.name == "share_of_limit"]
    assert share == Check(
        "share_of_limit", Status.PASS, pytest.approx(39.8, abs=0.05), None, "%", "mission, cold L2, limited by tensor.fp16"
    )
    assert judge(measured, {**LIMITS, "min_limit_pct": 39}).status is Status.PASS
    assert judge(measured, {**LIMITS, "min_limit_pct": 41}).code == "performance.far_from_limit"
    unknown = judge(evidence(Work(5e8, 2e6, 0)), {**LIMITS, "min_limit_pct": 41})
    assert (unknown.status, unknown.code) == (Status.INCONCLUSIVE, "performance.no_limit")


def test_a_copy_is_bounded_by_memory_if_its_bytes_come_from_there() -> None:
    copied = evidence(Work(None, 2e7, 0))
    assert (found := limit_of(copied, "cold")).bound == MEMORY and found.us == pytest.approx(1e6 * 2e7 / copied.device.peak_bytes_per_s)
    assert limit_of(copied, "warm") is None


def test_work_without_units_changes_no_verdict() -> None:
    result = judge(evidence(Work(5e8, 2e6, 0)), LIMITS)
    assert "limit" not in result.sentence and all(check.name != "share_of_limit" for check in result.checks)


@pytest.mark.parametrize(
    ("unit", "operations", "code"),
    [
        ("cuda.fp32", 12 * 256 * 132 * 1980.0, "performance.impossible"),  # 12 us of FP32 units in 10 us
        ("tensor.tf32", 12 * 256 * 132 * 1980.0, "performance.pass"),  # the task says TF32
        ("sfu.ex2", 12 * 16 * 132 * 1980.0, "performance.pass"),  # multiply-adds can compute powers
    ],
)
def test_a_time_is_impossible_by_the_unit(unit, operations, code) -> None:
    assert judge(evidence(Work(None, None, 0, {unit: operations})), LIMITS).code == code


def test_calibrated_peaks_take_the_place_of_the_data_sheets_but_refuse_nothing() -> None:
    peaks = Peaks("580", 1980.0, 3.0e12, {"tensor.fp16": 2048.0})
    found = limit_of(evidence(work(tensor_fp16=5.5 * TENSOR), peaks=peaks), "cold")
    assert found.us == pytest.approx(11.0) and "calibrated limit" in found.words()
    assert judge(evidence(work(tensor_fp16=5.5 * TENSOR), peaks=peaks), LIMITS).status is Status.PASS
    without = limit_of(evidence(work(tensor_fp16=5.5 * TENSOR), peaks=replace(peaks, per_sm_clock={})), "cold")
    assert without.us == pytest.approx(5.5) and "calibrated" not in without.words()  # memory was calibrated, but tensor cores bound it
    data = records.to_json(evidence(work(tensor_fp16=TENSOR), peaks=peaks))
    assert schema_errors("performance", data) == [] and records.from_json(PerformanceEvidence, data, "").peaks == peaks


def test_a_table_of_before_and_after_has_limit_share_and_rates() -> None:
    measured = evidence(work(tensor_fp16=4 * TENSOR))
    rows = {row.name: (row.unit, row.baseline, row.candidate) for row in _limit_rows((measured, "baseline"), (measured, "candidate"))}
    assert rows["limit (tensor.fp16)"][0] == "us"
    assert rows["share of the limit"] == ("%", pytest.approx(33.2, abs=0.1), pytest.approx(39.8, abs=0.1))
    unit, _, reached = rows["rate"]
    found = dict(zip(unit.split(", "), map(float, reached.split(", ")), strict=True))
    assert found == pytest.approx(rates(measured, limit_of(measured, "cold")), rel=1e-3)
    assert found == {"TFLOP/s": pytest.approx(4 * TENSOR / 10.05 * 1e-6, rel=1e-3), "GB/s": pytest.approx(99.5, rel=1e-3)}


def test_no_dense_peak_is_above_the_chips_largest() -> None:
    for chip in CHIPS.values():
        number = f"{chip.number // 10}.{chip.number % 10}"
        known = [peak(number, unit) for unit in UNITS if peak(number, unit) is not None]
        assert all(one <= (chip.flops_per_sm_clock or 0) for one in known)
    assert peak("9.0", "tensor.fp16") * 132 * 1.83e9 == pytest.approx(989.4e12, rel=1e-3)  # the data sheet of an H100 SXM
    assert peak("7.0", "cuda.fp32") is None and set(REPLACEABLE) < set(UNITS)
