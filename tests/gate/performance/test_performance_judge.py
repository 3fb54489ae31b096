"""The performance judge on fed samples: limits, faults and what can't be decided."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from performance_gates import LIMITS, RIGHT, evidence, fed

import gates
from gates.core import records
from gates.core.errors import GatesError
from gates.core.records import Status
from gates.core.schema import schema_path
from gates.gate.performance import judge as performance
from gates.gate.performance.evidence import OutputCheck, PerformanceEvidence, Work, not_run, parse
from gates.stats.calibration import Calibration
from gates.stats.estimators import figures
from gates.stats.samples import Block, Series, usable
from gates.stats.sampling import WarmUp

PACKAGE = Path(gates.__path__[0])
FIFTEEN = [11.5] * 20


def judge(record: PerformanceEvidence, **limits):
    return performance.judge(record, {**LIMITS, **limits})


@pytest.mark.parametrize(
    ("new", "old", "status", "code"),
    [
        (100.0, 115.0, Status.PASS, "performance.pass"),  # in plain floats (115/100 - 1) * 100 is under 15
        (1042.69, 1199.10, Status.PASS, "performance.pass"),
        (100.0, 114.99, Status.FAIL, "performance.too_slow"),
        (100.0, 110.0, Status.FAIL, "performance.too_slow"),
        (100.0, 100.0, Status.FAIL, "performance.too_slow"),
        (115.0, 100.0, Status.FAIL, "performance.too_slow"),
        (1.94, 2.24, Status.PASS, "performance.pass"),  # 15.46 %; of rounded figures 0 % or 15.8 %
    ],
)
def test_the_bar(new, old, status, code) -> None:
    result = judge(fed([new] * 20, [old] * 20))
    assert (result.status, result.code) == (status, code), result.sentence


def test_a_value_near_its_limit_is_printed_apart_from_it() -> None:
    result = judge(fed([1042.70] * 20, [1199.10] * 20))
    assert result.code == "performance.too_slow" and "1.149995x" in result.sentence and "threshold 1.150000" in result.sentence
    check = next(check for check in result.checks if check.name == "speedup_p50")
    assert records.seen(check) == "14.9995 %, limit 15 %"
    assert records.shown_apart(0.0020000001, 0.002) == ("0.0020000001", "0.002")
    assert records.shown_apart(128, 128) == ("128", "128") and records.shown_apart(None, 1.0) == ("-", "1")


UNSTEADY_MACHINE = {
    "another process": lambda record: dataclasses.replace(record, other_processes=(4711,)),
    "control off": lambda record: control_off(record),
    "throttled": lambda record: dataclasses.replace(
        record,
        single=dataclasses.replace(
            record.single, blocks=tuple(dataclasses.replace(block, valid=block.pair % 2 == 0) for block in record.single.blocks)
        ),
    ),
    "unsteady clock": lambda record: dataclasses.replace(
        record,
        single=dataclasses.replace(
            record.single,
            blocks=tuple(dataclasses.replace(block, sm_mhz=1980.0 - 60.0 * (block.pair % 3)) for block in record.single.blocks),
        ),
    ),
}


@pytest.mark.parametrize("machine", UNSTEADY_MACHINE)
def test_an_unfit_machine_comes_before_an_unsteady_kernel(machine) -> None:
    record = singles(fed([10.0] * 20, [12.0] * 20), [5.0, 15.0] * 12, [12.0] * 24)
    assert (judge(record, max_std_us=5.0).status, judge(record, max_std_us=5.0).code) == (Status.FAIL, "performance.unsteady")
    result = judge(UNSTEADY_MACHINE[machine](record), max_std_us=5.0)
    assert result.status is Status.INCONCLUSIVE and result.code != "performance.unsteady", result.sentence


def test_the_sentence_has_all_that_compare_shows() -> None:
    text = judge(fed([10.0] * 20, [12.0] * 20)).sentence
    for part in ("1.200x", "98.3 % interval", "threshold 1.150", "noise floor 0.00 %", "12 pairs", "cold L2"):
        assert part in text


def test_the_speedup_is_of_the_baseline_over_the_candidate() -> None:
    check = next(c for c in judge(fed([80.0] * 20, [100.0] * 20)).checks if c.name == "speedup_p50")
    assert check.observed == pytest.approx(25.0) and check.limit == 15.0 and check.unit == "%"


def noisy(new_us: float, old_us: float, pairs: int, ripple: float = 0.02, **changes):
    blocks = []
    for pair in range(pairs):
        wave = 1 + ripple * ((pair * 7919 % 13) / 6 - 1)
        blocks += [
            Block("candidate", pair, (new_us * (1 + 1e-6 * pair),) * 20, sm_mhz=1980.0),
            Block("baseline", pair, (old_us * wave,) * 20, sm_mhz=1980.0),
        ]
    control = [Block(side, pair, (old_us,) * 20, sm_mhz=1980.0) for pair in range(12) for side in ("baseline", "control")]
    return evidence(tuple(blocks), tuple(control), **changes)


def test_a_bar_within_the_interval_is_inconclusive_and_says_what_would_have_passed() -> None:
    result = judge(noisy(10.0, 11.5, 48))
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.bar_within_interval")
    assert "half width" in result.sentence and "would pass" in result.sentence


def test_a_gain_within_the_noise_is_no_gain() -> None:
    record = fed([10.0] * 20, [10.05] * 20, control=[10.15] * 20)
    assert judge(record, min_speedup_pct=0).code == "performance.within_noise"


def test_fewer_than_twelve_pairs_decide_nothing() -> None:
    result = judge(fed([10.0] * 20, [20.0] * 20, pairs=11))
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.too_few_pairs")


def test_only_planned_looks_count() -> None:
    # Seventeen pairs when the budget ended: the look at twelve was open, so five more decide nothing.
    result = judge(noisy(10.0, 11.6, 17))
    assert result.status is Status.INCONCLUSIVE
    assert "12 pairs" in result.sentence


def control_off(record):
    blocks = [Block(side, pair, (us,) * 20) for pair in range(12) for side, us in (("baseline", 12.0), ("control", 12.3))]
    return dataclasses.replace(record, control=Series("control", {}, tuple(blocks), "control"))


def block_changes(record, change):
    series = record.series[0]
    blocks = tuple(change(index, block) for index, block in enumerate(series.blocks))
    return dataclasses.replace(record, series=(dataclasses.replace(series, blocks=blocks),))


UNFIT = {
    "control_off": (control_off, "performance.control_off"),
    "no control": (lambda r: dataclasses.replace(r, control=None), "performance.control_off"),
    "other process": (lambda r: dataclasses.replace(r, other_processes=(4711,)), "performance.other_process"),
    "coarse timer": (lambda r: dataclasses.replace(r, calibration=Calibration(3.1, 1.0, 0.5)), "performance.timer_too_coarse"),
    "event overhead": (lambda r: dataclasses.replace(r, calibration=Calibration(0.03, 30.0, 0.5)), "performance.timer_too_coarse"),
    "not calibrated": (lambda r: dataclasses.replace(r, calibration=None), "performance.timer_too_coarse"),
    "outputs unchecked": (lambda r: dataclasses.replace(r, outputs=RIGHT[:2]), "performance.outputs_unchecked"),
    "throttled": (lambda r: block_changes(r, lambda i, b: dataclasses.replace(b, valid=i >= 12)), "performance.too_few_pairs"),
    "refused samples": (lambda r: block_changes(r, lambda i, b: dataclasses.replace(b, refused=3)), "performance.refused_samples"),
    "no samples": (lambda r: block_changes(r, lambda i, b: dataclasses.replace(b, samples_us=(), valid=False)), "performance.no_samples"),
    "no series": (lambda r: dataclasses.replace(r, series=()), "performance.no_samples"),
    "other shape": (lambda r: dataclasses.replace(r, shape="small"), "performance.other_shape"),
    "no baseline": (lambda r: dataclasses.replace(r, baseline=None), None),
}


@pytest.mark.parametrize("case", UNFIT)
@pytest.mark.parametrize("old", [20.0, 10.0])
def test_an_unfit_measurement_decides_nothing_either_way(case, old) -> None:
    change, code = UNFIT[case]
    result = judge(change(fed([10.0] * 20, [old] * 20)))
    assert result.status is Status.INCONCLUSIVE, result.sentence
    assert code is None or result.code == code


def test_more_than_a_fifth_of_disturbed_blocks_decides_nothing() -> None:
    record = fed([10.0] * 20, [20.0] * 20, pairs=16)
    bad = block_changes(record, lambda i, b: dataclasses.replace(b, valid=i < 24))
    assert judge(bad).code == "performance.throttled"


def test_sides_at_different_clocks() -> None:
    record = fed([10.0] * 20, [10.0] * 20)
    slow = block_changes(record, lambda i, b: dataclasses.replace(b, sm_mhz=1200.0 if b.side == "candidate" else 1980.0))
    result = judge(slow)
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.clock_differed")


def test_an_unknown_clock_is_told() -> None:
    record = dataclasses.replace(fed([10.0] * 20, [12.0] * 20), clock_source="unknown: no driver")
    blind = block_changes(record, lambda i, b: dataclasses.replace(b, sm_mhz=None))
    result = judge(blind)
    assert result.status is Status.PASS and "clock unknown: no driver" in result.sentence


def test_a_power_limited_card_is_told() -> None:
    assert "power-limited" in judge(dataclasses.replace(fed([10.0] * 20, [12.0] * 20), warm_up=WarmUp(0.1, 5, True, True))).sentence


def test_modes_that_disagree_about_the_bar_are_told() -> None:
    record = fed([10.0] * 20, [12.0] * 20)
    warm = tuple(dataclasses.replace(b, samples_us=(11.0 * (1 + 1e-6 * b.pair),) * 20) for b in record.series[0].blocks)
    both = dataclasses.replace(record, series=(*record.series, Series("warm", {"candidate": 50, "baseline": 50}, warm, "pairs")))
    assert "with warm L2 it is 1.000, below the threshold" in judge(both).sentence
    assert judge(both, cache="warm").code == "performance.other_mode"  # warm was timed for context only
    assert judge(dataclasses.replace(both, gated_mode="warm"), cache="warm").status is Status.FAIL


# Outputs


def wrong(when: str, side: str, **changes) -> tuple[OutputCheck, ...]:
    return tuple(dataclasses.replace(check, **changes) if (check.when, check.side) == (when, side) else check for check in RIGHT)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    "change",
    [{"unwritten_sets": 1}, {"nonfinite": 1}, {"max_abs_err": 1.0}, {"mean_abs_err": 0.5}, {"bad_pct": 2.0}, {"max_abs_err": None}],
)
def test_wrong_outputs_fail_however_fast(when, change) -> None:
    result = judge(fed([10.0] * 20, [20.0] * 20, outputs=wrong(when, "candidate", **change)))
    assert (result.status, result.code) == (Status.FAIL, "performance.wrong_output")


def test_a_wrong_baseline_decides_nothing() -> None:
    result = judge(fed([10.0] * 20, [20.0] * 20, outputs=wrong("after", "baseline", max_abs_err=1.0)))
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.wrong_baseline_output")


def test_two_kernels_may_be_off_by_twice_the_limit() -> None:
    against_baseline = {"against": "baseline", "allowance": 2.0, "max_abs_err": 0.1}
    assert judge(fed([10.0] * 20, [20.0] * 20, outputs=wrong("after", "candidate", **against_baseline))).status is Status.PASS


# Impossible times


@pytest.mark.parametrize(
    ("us", "work"),
    [
        (0.28, Work(5.4e8, 1.5e6, 5 * 10**5)),  # 1 MB read at 3.35 TB/s takes 0.30 us
        (10.0, Work(1e12, None, 0)),
        (0.2, Work(None, None, 0)),  # under half of an empty kernel
    ],
)
def test_impossible_times_are_rejected_not_celebrated(us, work) -> None:
    record = fed([us] * 20, [20.0] * 20, work=work, calibration=Calibration(0.0001, 0.001, 0.5))
    result = judge(record)
    assert (result.status, result.code) == (Status.FAIL, "performance.impossible")


# Stalls, tails, spread


def singles(record, new, old):
    blocks = [
        Block(side, pair, tuple(samples[pair] if isinstance(samples[0], list) else samples))
        for pair in range(12)
        for side, samples in (("candidate", new), ("baseline", old))
    ]
    return dataclasses.replace(record, single=Series("single", {"candidate": 1, "baseline": 1}, tuple(blocks), "pairs"))


ALL = {"metrics": ["p50", "p90", "mean"], "max_std_us": 10}


def test_one_stall_decides_nothing_and_is_kept() -> None:
    stall = [[10.0] * 25 for _ in range(12)]
    stall[3] = [10.0] * 24 + [200_000.0]
    record = singles(fed([10.0] * 20, [12.0] * 20), stall, [12.0] * 25)
    assert judge(record, **ALL).status is Status.PASS
    p50 = fed([10.0] * 59 + [200.0], [10.0] * 60)
    check = next(c for c in judge(p50).checks if c.name == "speedup_p50")
    assert check.observed == 0.0
    assert p50.figures["cold"]["candidate"].stalled_pct > 1


@pytest.mark.parametrize(
    ("new", "code"),
    [
        ([10.0] * 20 + [30.0] * 5, "performance.slower_p90"),
        ([10.0] * 24 + [200.0], "performance.slower_mean"),
        ([9.0, 40.0] * 12 + [9.0], "performance.slower_p90"),
    ],
)
def test_a_slow_tail_fails(new, code) -> None:
    result = judge(singles(fed([10.0] * 20, [12.0] * 20), new, [12.0] * 25), metrics=["p50", "p90", "mean"])
    assert (result.status, result.code) == (Status.FAIL, code)


def test_scatter_above_the_limit_fails() -> None:
    unsteady = [5.0, 15.0] * 12
    record = singles(fed([10.0] * 20, [12.0] * 20), unsteady, [12.0] * 24)
    assert judge(record, max_std_us=5.0).code == "performance.unsteady"
    assert judge(record, max_std_us=5.2).status is Status.PASS


def test_a_p90_of_few_samples_is_none_with_the_reason() -> None:
    few, enough = figures([60.0, 61.0, 61.2, 61.4, 61.8]), figures([60.0] * 9 + [61.0])
    assert few.p90_us is None and few.p90_reason == "a p90 needs 10 samples, and there are 5"
    assert enough.p90_us == pytest.approx(60.1) and not enough.p90_reason
    record = singles(fed([10.0] * 20, [12.0] * 20), [10.0] * 5, [12.0] * 5)
    result = judge(record, metrics=["p50", "p90"])
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.no_p90") and "needs 10 samples" in result.checks[-1].hint
    assert judge(record, metrics=["p50", "mean"]).status is Status.PASS


@pytest.mark.parametrize("limits", [{"metrics": ["p90"]}, {"max_std_us": 10}])
def test_missing_single_launches_are_no_pass(limits) -> None:
    result = judge(fed([10.0] * 20, [12.0] * 20), **limits)
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "performance.no_singles")


def test_one_single_launch_a_block_has_no_spread() -> None:
    record = singles(fed([10.0] * 20, [12.0] * 20), [10.0], [12.0])
    assert judge(record, max_std_us=10).code == "performance.no_singles"


# First rung, nothing measured, nothing trusted


def test_a_first_rung_is_measured_and_not_applicable() -> None:
    blocks = tuple(Block("candidate", pair, (10.0,) * 19 + (10.001,)) for pair in range(12))
    control = tuple(Block(side, pair, (10.0,) * 20) for pair in range(12) for side in ("candidate", "control"))
    record = evidence(blocks, control, baseline=None, outputs=tuple(c for c in RIGHT if c.side == "candidate"))
    result = performance.judge(record, LIMITS, not_applicable_reason="first rung")
    assert (result.status, result.code) == (Status.NOT_APPLICABLE, "performance.not_applicable")
    assert "first rung" in result.sentence and result.checks[0].observed == 10.0
    assert performance.judge(record, LIMITS).code == "performance.no_baseline"
    wrong_outputs = dataclasses.replace(record, outputs=wrong("after", "candidate", nonfinite=3))
    assert performance.judge(wrong_outputs, LIMITS, not_applicable_reason="first rung").status is Status.FAIL


@pytest.mark.parametrize("code", ["performance.no_device", "performance.correctness_failed"])
def test_what_did_not_run_is_not_run_and_claims_nothing(code) -> None:
    record = not_run("new", "old", "mission", code, "because")
    for reason in ("", "first rung"):
        result = performance.judge(record, LIMITS, not_applicable_reason=reason)
        assert (result.status, result.code, result.checks) == (Status.NOT_RUN, code, ())


def test_what_throttled_every_block_is_named() -> None:
    changed = block_changes(fed([10.0] * 20, [12.0] * 20), lambda i, b: dataclasses.replace(b, valid=False, throttle=("power",)))
    assert "samples (cold, throttled: power): 0, limit 1" in judge(changed).sentence


@given(st.lists(st.sampled_from([0.0, -1.78, float("inf"), float("nan"), 10.0]), min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_no_samples_whatever_make_a_pass_or_a_nan(samples) -> None:
    from gates.stats.sampling import fixed_pairs

    bad = any(sample != 10.0 for sample in samples)
    ripple, now = itertools.count(), [0.0]  # no card repeats itself

    def timer(us):
        def block(n):
            now[0] += 1e-3 + 50e-6 * sum(value for value in us if usable(value))
            return [value * (1 + 1e-9 * next(ripple)) for value in us]

        return block

    blocks, _ = fixed_pairs(timer(samples), timer([20.0] * len(samples)), pairs=12, samples=1, seed=1, clock=lambda: now[0])
    control = tuple(Block(side, pair, (20.0,) * 8) for pair in range(12) for side in ("baseline", "control"))
    record = evidence(blocks, control)
    result = judge(record)
    assert result.status is Status.PASS if not bad else result.status is not Status.PASS
    json.dumps([records.to_json(record), records.to_json(result)], allow_nan=False)


@pytest.mark.parametrize("value", [0, -1, None, 1e308, "10", True])
def test_a_p50_that_is_no_time_is_an_error_of_the_file_and_key(value) -> None:
    data = records.to_json(fed([10.0] * 20, [12.0] * 20))
    data["figures"]["cold"]["candidate"]["p50_us"] = value
    with pytest.raises(GatesError, match=r"performance\.json.*cold"):
        records.from_json(PerformanceEvidence, data, "performance.json")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, _schema())


def test_a_missing_p50_is_an_error_too() -> None:
    data = records.to_json(fed([10.0] * 20, [12.0] * 20))
    del data["figures"]["cold"]["candidate"]["p50_us"]
    with pytest.raises(GatesError, match="p50_us"):
        records.from_json(PerformanceEvidence, data, "performance.json")


def _schema() -> dict:
    return json.loads(schema_path("performance").read_text())


def test_evidence_round_trip_and_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(_schema())
    for record in (
        singles(fed([10.0] * 20, [12.0] * 20), [10.0] * 5, [12.0] * 5),
        not_run("new", None, "small", "performance.no_device", "none"),
    ):
        data = json.loads(json.dumps(records.to_json(record), allow_nan=False))
        jsonschema.validate(data, _schema())
        assert records.from_json(PerformanceEvidence, data, "performance.json") == record
        for key, value in (("schema_version", 2), ("status", "passed"), ("surprise", 1)):
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate({**data, key: value}, _schema())


def test_a_runner_can_not_hand_in_a_verdict() -> None:
    raw = {"task": "new", "baseline": None, "shape": "small", "backends": {}, "code": "", "message": "", "process_s": 1.0}
    for measured in ([], {"status": "pass", "speedup": 9}, {"series": "fast"}, {"figures": {"cold": {}}, "verdict": "pass"}):
        with pytest.raises(GatesError):
            parse({**raw, "measured": measured})


def test_judging_again_with_another_bar_needs_nothing_but_the_evidence() -> None:
    record = fed([100.0] * 20, [118.0] * 20)
    assert judge(record).status is Status.PASS and judge(record, min_speedup_pct=20).status is Status.FAIL


def test_a_gain_that_two_loads_of_one_binary_may_show_is_no_gain() -> None:
    # The twin happens to lie like the baseline (no difference), the candidate does not: 0.25 % in every pair of the run,
    # less than one event pair's share of a sample (1.5 of 500 us). Seen on a card with one binary under three names,
    # and once 0.3 %: both sides carry such a share, so 0.5 % is not told from none either.
    for slower in (10.025, 10.05):
        assert judge(fed([10.0] * 20, [slower] * 20), min_speedup_pct=0).code == "performance.within_noise"
    assert judge(fed([10.0] * 20, [10.07] * 20), min_speedup_pct=0).status is Status.PASS
