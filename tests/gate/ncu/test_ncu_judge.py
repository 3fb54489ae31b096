"""The ncu judge on given counters, and its planted defects."""

from __future__ import annotations

import dataclasses
import json
import math

import jsonschema
import pytest

from gates.core import records
from gates.core.records import Status
from gates.core.schema import schema_path
from gates.gate.ncu import judge as ncu
from gates.gate.ncu.evidence import Counter, NcuEvidence, ProfiledKernel, ProfiledSide, not_run
from gates.hardware.ncu_metrics import METRICS

LIMITS = {"rises": ["tensor_pipe", "sm_throughput"], "steady": {"dram_bytes_pct": 10, "bank_conflicts_pct": 10}}
OLD = {
    "tensor_pipe": 9.0,
    "sm_throughput": 30.0,
    "dram_bytes": 1.0e6,
    "shared_load_wavefronts": 100,
    "shared_store_wavefronts": 0,
    "shared_load_conflicts": 0,
    "shared_store_conflicts": 0,
    "duration_ns": 1000,
}
NEW = {**OLD, "tensor_pipe": 21.0, "sm_throughput": 44.0, "dram_bytes": 1.1e6}


def side(name: str, *kernels: dict[str, float | None]) -> ProfiledSide:
    made = [
        ProfiledKernel(
            f"k{index}",
            1,
            tuple(
                Counter(metric, value, METRICS[metric].unit, "source", "" if value is not None else "n/a")
                for metric, value in ({name: 0.0 for name in METRICS} | values).items()
                if METRICS[metric].parts is None
            ),
        )
        for index, values in enumerate(kernels)
    ]
    return ProfiledSide(name, tuple(made), ("k0 #1",))


def evidence(new=NEW, old=OLD) -> NcuEvidence:
    sides = {"candidate": side("new", *new) if isinstance(new, list) else side("new", new)}
    if old is not None:
        sides["baseline"] = side("old", old)
    return NcuEvidence("new", "old", "mission", "sm_90", sides=sides)


@pytest.mark.parametrize(("pct", "share"), [(0, 1.0), (5, 1.05), (10, 1.1), (100, 2.0)])
def test_a_steady_counter_may_grow_by_its_tolerance_and_no_more(pct: int, share: float) -> None:
    limits = {"steady": {"dram_bytes_pct": pct}}
    (met, *_), (missed, *_) = (ncu.judge(evidence({**OLD, "dram_bytes": share * value}), limits).checks for value in (1.0e6, 1.000001e6))
    assert met.status is Status.PASS and met.where == f"baseline 1e+06, at most {pct} % more" and met.limit == pytest.approx(share * 1e6)
    assert (missed.status, missed.code, missed.limit) == (Status.FAIL, "ncu.not_steady", met.limit)


def test_a_steady_counter_below_its_floor_may_grow() -> None:
    floor = METRICS["dram_bytes"].floor
    assert floor > 1.0
    limits = {"steady": {"dram_bytes_pct": 10}}
    for value, status in ((floor, Status.PASS), (floor + 1.0, Status.FAIL)):
        (check, *_) = ncu.judge(evidence({**OLD, "dram_bytes": value}, {**OLD, "dram_bytes": 1.0}), limits).checks
        assert (check.status, check.limit) == (status, floor)


def test_rising_and_steady_passes_and_the_limit_itself_is_met() -> None:
    result = ncu.judge(evidence(), LIMITS)  # dram_bytes is exactly 10 % up
    assert result.status is Status.PASS, result.sentence
    assert "tensor_pipe 21 %" in result.sentence


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"tensor_pipe": 9.0}, "ncu.not_risen"),
        ({"tensor_pipe": 8.9}, "ncu.not_risen"),
        ({"dram_bytes": 1.1001e6}, "ncu.not_steady"),
        ({"shared_load_conflicts": 10}, "ncu.not_steady"),
    ],
)
def test_planted_defects_fail(change, code) -> None:
    result = ncu.judge(evidence({**NEW, **change}), LIMITS)
    assert (result.status, result.code) == (Status.FAIL, code)


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"tensor_pipe": None}, Status.NOT_RUN, "ncu.absent"),
        ({"tensor_pipe": 150.0}, Status.INCONCLUSIVE, "ncu.out_of_range"),
        ({"tensor_pipe": -1.0}, Status.INCONCLUSIVE, "ncu.out_of_range"),
        ({"tensor_pipe": math.nan}, Status.INCONCLUSIVE, "ncu.out_of_range"),
        ({"tensor_pipe": math.inf}, Status.INCONCLUSIVE, "ncu.out_of_range"),
        ({"dram_bytes": math.nan}, Status.INCONCLUSIVE, "ncu.out_of_range"),
    ],
)
def test_a_counter_that_can_not_be_is_no_pass(change, status, code) -> None:
    result = ncu.judge(evidence({**NEW, **change}), LIMITS)
    check = next(check for check in result.checks if check.code)
    assert (check.status, check.code) == (status, code)
    assert result.status is not Status.PASS
    assert "NaN" not in json.dumps(records.to_json(result)) and "Infinity" not in json.dumps(records.to_json(result))


def test_zero_to_three_conflicts_is_no_infinite_rise() -> None:
    limits = {"steady": {"bank_conflict_count_pct": 10}}
    assert ncu.judge(evidence({**NEW, "bank_conflict_count": 3.0}), limits).status is Status.PASS
    assert ncu.judge(evidence({**NEW, "bank_conflict_count": 3000.0}), limits).code == "ncu.not_steady"


def test_conflicts_are_judged_by_the_wavefronts_they_add() -> None:
    grown = {**NEW, "shared_load_wavefronts": 1000}
    assert ncu.judge(evidence(grown), LIMITS).status is Status.PASS
    two_way = {**NEW, "shared_load_conflicts": 50}
    assert ncu.judge(evidence(two_way), LIMITS).code == "ncu.not_steady"
    assert ncu.value(evidence(two_way).sides["candidate"], "bank_conflicts") == (2.0, "")
    none = {**NEW, "shared_load_wavefronts": 0}
    assert ncu.value(evidence(none).sides["candidate"], "bank_conflicts") == (0.0, "")


def test_kernels_of_a_stage_count_together() -> None:
    both = side("new", {**NEW, "tensor_pipe": 10.0, "duration_ns": 3000}, {**NEW, "tensor_pipe": 50.0, "duration_ns": 1000})
    assert ncu.value(both, "tensor_pipe") == (20.0, "")
    assert ncu.value(both, "shared_load_wavefronts") == (200, "")


def test_absolute_limits() -> None:
    limits = {"min": {"tensor_pipe": 21.0}, "max": {"local_loads": 0}}
    assert ncu.judge(evidence(), limits).status is Status.PASS
    assert ncu.judge(evidence(), {"min": {"tensor_pipe": 21.1}}).code == "ncu.below_min"
    assert ncu.judge(evidence({**NEW, "local_loads": 1.0}), limits).code == "ncu.above_max"


def test_without_a_baseline() -> None:
    assert ncu.judge(evidence(old=None), LIMITS).code == "ncu.no_baseline"
    result = ncu.judge(evidence(old=None), LIMITS, not_applicable_reason="first rung")
    assert result.status is Status.NOT_APPLICABLE
    broken = ncu.judge(evidence(old=None), {**LIMITS, "min": {"tensor_pipe": 90}}, not_applicable_reason="first rung")
    assert broken.status is Status.FAIL


def test_unknown_metric_and_no_limits_decide_nothing() -> None:
    assert ncu.judge(evidence(), {"rises": ["tensor_pip"]}).code == "ncu.unknown_metric"
    assert ncu.judge(evidence(), {}).status is Status.NOT_RUN


def test_an_unprofiled_baseline_is_not_no_change() -> None:
    broken = NcuEvidence(
        "new",
        "old",
        "mission",
        "sm_90",
        sides={"candidate": side("new", NEW), "baseline": ProfiledSide("old", code="ncu.no_kernel", message="none")},
    )
    result = ncu.judge(broken, LIMITS)
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "ncu.baseline_not_profiled")


def test_evidence_round_trip_and_schema() -> None:
    schema = json.loads(schema_path("ncu").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for record in (evidence(), not_run("new", None, "mission", "ncu.no_device", "no CUDA device")):
        data = json.loads(json.dumps(records.to_json(record), allow_nan=False))
        jsonschema.validate(data, schema, cls=jsonschema.Draft202012Validator)
        assert records.from_json(NcuEvidence, data, "ncu.json") == record
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**data, "schema_version": 2}, schema)


def test_ratios_of_several_kernels_are_weighted_by_duration_and_counts_added() -> None:
    found = side(
        "new", {"stall_barrier": 2.0, "local_loads": 1, "duration_ns": 3000}, {"stall_barrier": 6.0, "local_loads": 2, "duration_ns": 1000}
    )
    assert ncu.value(found, "stall_barrier") == (3.0, "") and ncu.value(found, "local_loads") == (3, "")
    assert [name for name, metric in METRICS.items() if not metric.adds and metric.unit != "%"] == [
        name for name in METRICS if name.startswith("stall_")
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"sm_throughput": 108.9},
        {"occupancy": -3.0},
        {"dram_read_bytes": 1e12, "duration_ns": 13_000.0},
        {"local_loads": -1.0},
        {"duration_ns": 0.0},
        {"stall_barrier": math.inf},
    ],
)
def test_one_counter_of_nonsense_puts_the_profile_in_doubt_though_no_limit_asks_for_it(change) -> None:
    result = ncu.judge(evidence({**NEW, **change}), {"rises": ["tensor_pipe"]})
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "ncu.out_of_range"), result.sentence
    assert (
        ncu.judge(
            evidence({**NEW, "sm_throughput": 100.4, "dram_read_bytes": 4.8e9, "duration_ns": 1e6}), {"rises": ["tensor_pipe"]}
        ).status
        is Status.PASS
    )


def test_a_unit_that_ncu_does_not_use_puts_the_profile_in_doubt() -> None:
    record = evidence()
    kernel = record.sides["baseline"].kernels[0]
    counters = tuple(dataclasses.replace(counter, unit="KiB") if counter.metric == "dram_bytes" else counter for counter in kernel.counters)
    other = dataclasses.replace(record.sides["baseline"], kernels=(dataclasses.replace(kernel, counters=counters),))
    result = ncu.judge(dataclasses.replace(record, sides={**record.sides, "baseline": other}), LIMITS)
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "ncu.out_of_range") and "dram_bytes" in result.sentence


@pytest.mark.parametrize(
    ("duration_us", "p50_us", "code"),
    [
        (10.0, 10.0, "ncu.pass"),
        (10.0, 9.0, "ncu.pass"),
        (19.0, 10.0, "ncu.pass"),
        (10.0, 30.0, "ncu.pass"),
        (2.5, 1.0, "ncu.pass"),
        (10.0, 2.5, "ncu.time_disagrees"),  # a quarter of the truth is claimed
        (10.0, 80.0, "ncu.time_disagrees"),
    ],
)
def test_the_profiler_s_duration_and_the_claimed_time(duration_us, p50_us, code) -> None:
    record = evidence({**NEW, "duration_ns": 1000 * duration_us})
    assert ncu.judge(record, LIMITS, timed_us={"candidate": p50_us}).code == code
    assert ncu.judge(record, LIMITS).code == "ncu.pass"


def test_a_duration_in_the_sentence_says_whose_it_is() -> None:
    record = evidence({**NEW, "duration_ns": 10_000.0})
    timed = {"candidate": 10.0, "baseline": 1.0}
    said = ncu.judge(record, LIMITS, timed_us=timed).sentence
    assert "candidate duration_us 10 us, baseline duration_us 1 us on" in said
