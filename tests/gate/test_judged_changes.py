"""Each judge on evidence that differs in one place at a time: every verdict, number and word is the kept one."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
from judged import assert_kept, said
from performance_gates import fed
from places import DATA

from gates.core.records import GateResult, Status
from gates.evidence.judging import load_evidence
from gates.gate.correctness import judge as correctness
from gates.gate.correctness.evidence import CorrectnessEvidence, EmulatorFinding, NullErrors, OutputErrors
from gates.gate.correctness.limits import tighter_than_format
from gates.gate.ncu import judge as ncu
from gates.gate.performance import judge as performance
from gates.gate.performance.evidence import Alone, PerformanceEvidence, Work
from gates.gate.ptxas import judge as ptxas
from gates.gate.ptxas.evidence import CalledFunction, Launch
from gates.gate.sass import judge as sass
from gates.gate.sass.evidence import SassEvidence
from gates.stats.calibration import Calibration
from gates.stats.outside import OutsideBlock
from gates.stats.samples import Block, Series

RUN = DATA / "runs" / "h100_stage2"


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return load_evidence(RUN)


def test_ptxas(recorded: dict[str, Any]) -> None:
    limits = {"max_registers": 128, "max_smem_bytes": 65536, "max_spill_bytes": 0}
    assert_kept("ptxas", said(ptxas.judge, recorded["ptxas"], limits))


@pytest.mark.parametrize(("stores", "loads", "told"), [(0, 0, []), (8, 0, [8]), (0, 4, [0]), (None, None, [])])
def test_spills_of_called_functions_are_told(recorded: dict[str, Any], stores: int | None, loads: int | None, told: list[int]) -> None:
    called = CalledFunction("_Z1fv", "f()", "sm_90", 0, stores, loads)
    checks = ptxas.judge(dataclasses.replace(recorded["ptxas"], called_functions=(called,)), {}).checks
    assert [check.observed for check in checks if check.name == "called_function_spills"] == told


@pytest.mark.parametrize(
    ("static", "launches", "note", "limit", "told"),
    [
        (100, (), "", 100, [("smem", "inconclusive", None)]),
        (101, (), "", 100, [("smem", "fail", 101)]),
        (100, (Launch(32, 0, 0),), "as declared", 100, [("smem", "pass", 100), ("dynamic_smem", "pass", 0)]),
        (227, (Launch(32, 0, 0, 100),), "", 300, [("smem", "pass", 227)]),
        (228, (Launch(32, 0, 0, 100),), "", 300, [("smem", "pass", 228), ("smem_beyond_source", "pass", 128)]),
    ],
)
def test_shared_memory(recorded: dict[str, Any], static: int, launches: Any, note: str, limit: int, told: list[Any]) -> None:
    base = recorded["ptxas"]
    kernel = dataclasses.replace(base.kernels[0], static_smem_bytes=static, launches=launches, linked=None)
    evidence = dataclasses.replace(base, kernels=(kernel,), launches_note=note)
    names = ("smem", "dynamic_smem", "smem_beyond_source")
    checks = ptxas.judge(evidence, {"max_smem_bytes": limit}).checks
    assert [(check.name, check.status.value, check.observed) for check in checks if check.name in names] == told


def test_the_form_of_machine_code_evidence_has_a_version() -> None:
    assert {field.name: field.default for field in dataclasses.fields(SassEvidence)}["schema_version"] == 1


def test_sass(recorded: dict[str, Any]) -> None:
    limits = {"require": {"tensor": 1, "barrier": 2}, "forbid": ("local_memory", "tma")}
    assert_kept("sass", said(sass.judge, recorded["sass"], limits))


def test_ncu(recorded: dict[str, Any]) -> None:
    limits = {"rises": ("tensor_pipe",), "steady": {"dram_bytes_pct": 10}, "min": {"occupancy": 2}, "max": {"bank_conflicts": 2}}

    def judge(evidence: Any, limits: Any) -> GateResult:
        return ncu.judge(evidence, limits, timed_us={"candidate": 12.0, "baseline": 21.0})

    assert_kept("ncu", said(judge, recorded["ncu"], limits, left_out=("launches", "source", "version")))


def small(evidence: CorrectnessEvidence, **changes: Any) -> CorrectnessEvidence:
    """Two seeds of a shape and a case of each other role, all within their bounds, with the baseline's."""
    headline, other = ([case for case in evidence.cases if case.role == role] for role in ("headline", "odd"))
    roles = {
        "odd": {},
        "edge": {"shape": "one"},
        "family": {"inputs": "zeros"},
        "fresh": {"shape": "drawn", "seed": 7},
    }
    kept = [*headline[:2], *(dataclasses.replace(other[0], role=role, **more) for role, more in roles.items())]

    def bounded(outputs: tuple[OutputErrors, ...]) -> tuple[OutputErrors, ...]:
        return tuple(dataclasses.replace(one, max_err_over_bound=0.5, bound_index=(3,), bound_error=1e-4, bound_at=2e-4) for one in outputs)

    cases = tuple(dataclasses.replace(case, outputs=bounded(case.outputs), nudged=bounded(case.nudged)) for case in kept)
    made = dataclasses.replace(evidence, cases=cases, asked=2, baseline_cases=cases, excerpts={}, planned=None)
    return dataclasses.replace(made, **changes)


LIMITS = {
    "max_abs_err": 2e-3,
    "mean_abs_err": 3e-4,
    "bad_pct": 0.1,
    "bad_atol": 1e-3,
    "max_err_over_bound": 1.0,
    "match_baseline": True,
    "end_to_end": {"max_abs_err": 0.12, "mean_abs_err": 0.02},
}
NO_NUMBER = ("wall_s", "processes", "error_map", "launches", "nulls", "sizes", "inputs_sha256", "output_sha256")


def test_correctness(recorded: dict[str, Any]) -> None:
    assert_kept("correctness", said(correctness.judge, small(recorded["correctness"]), LIMITS, left_out=NO_NUMBER))


def test_correctness_of_a_wrong_kernel(recorded: dict[str, Any]) -> None:
    """Every way to be wrong at once: each check fails, and each change mends one."""
    base = small(recorded["correctness"], device="emulator", default_launches=("k.cu:7: k<<<1, 1>>>",))
    case = base.cases[0]
    off = dataclasses.replace(case.outputs[0], nonfinite=2, max_abs_err=0.5, mean_abs_err=0.01, bad_pct=7.0, max_err_over_bound=9.0)
    wrong = dataclasses.replace(
        case,
        outputs=(off,),
        nudged=(off,),
        end_to_end=(off,),
        guards=("out: 3 bytes behind",),
        mutated=("q",),
        differences=5,
        first_difference="out[3]",
        unwritten={"out": 4},
        findings=(EmulatorFinding("race_shared", "k", "k.cu:9", "a race"), EmulatorFinding("odd", "k", "", "something else")),
        check="columns do not sum to 1",
        silent_inputs=("scale",),
        launch_count=0,
        rough_reference="matmul in float16",
    )
    no_answer = dataclasses.replace(base.cases[2], status="undefined", outputs=(), message="no answer", guards=("out: 1 byte before",))
    evidence = dataclasses.replace(
        base, cases=(wrong, base.cases[1], no_answer, *base.cases[3:]), refused=("line 3: no JSON", "line 4", "line 5", "line 6")
    )
    assert_kept("correctness_wrong", said(correctness.judge, evidence, LIMITS, left_out=NO_NUMBER))


def test_correctness_by_the_honest_error(recorded: dict[str, Any]) -> None:
    """Limits that come from the honest error, a limit tighter than the format, a weak case."""
    base = small(recorded["correctness"])
    output = dataclasses.replace(
        base.cases[0].outputs[0],
        max_err_over_bound=2.5,
        bound_index=(1, 2),
        bound_error=0.25,
        bound_at=0.125,
        honest_err=0.01,
        max_err_over_rule=0.5,
        rule_over_bound=20.0,
        reference_dtype="float32",
        best=NullErrors("rounded", 3e-3, 4e-4, 0.2),
        nulls=(NullErrors("zeros", 1e-3, 1e-4, 0.0, 0.5), NullErrors("mean", 1.0, 1.0, 1.0, 1.0)),
    )
    cases = (dataclasses.replace(base.cases[0], outputs=(output,)), dataclasses.replace(base.cases[1], outputs=(output,)))
    evidence = dataclasses.replace(base, cases=(*cases, *base.cases[2:]))
    left_out = tuple(name for name in NO_NUMBER if name != "nulls")
    assert_kept("correctness_honest", said(correctness.judge, evidence, {**LIMITS, "bad_pct": 6.0}, left_out=left_out))


def test_cases_of_a_role_are_counted(recorded: dict[str, Any]) -> None:
    base = small(recorded["correctness"])
    more = dataclasses.replace(base.cases[5], seed=8, inputs_sha256="another")
    evidence = dataclasses.replace(base, cases=(*base.cases, more), baseline_cases=(*base.baseline_cases, more))
    assert "1 case with special inputs, 2 fresh cases" in correctness.judge(evidence, LIMITS).sentence


def test_a_weak_case_is_told_and_not_counted(recorded: dict[str, Any]) -> None:
    base = small(recorded["correctness"])
    null = NullErrors("zeros", 0.0, 0.0, 0.0, 0.0)
    edge = base.cases[3]
    weak = dataclasses.replace(edge, outputs=tuple(dataclasses.replace(output, nulls=(null,)) for output in edge.outputs))
    result = correctness.judge(dataclasses.replace(base, cases=(*base.cases[:3], weak, *base.cases[4:])), LIMITS)
    assert f"; 1 weak, not counted ({edge.where})" in result.sentence and "edge case" not in result.sentence


@pytest.mark.parametrize(("expected", "error", "told"), [(1.0, 4e-4, True), (0.0, 4e-4, False), ("nan", 4e-4, False), (1.0, None, False)])
def test_a_limit_below_half_a_step_of_the_format_is_told(recorded: dict[str, Any], expected: Any, error: float | None, told: bool) -> None:
    output = dataclasses.replace(
        recorded["correctness"].cases[0].outputs[0], worst_expected=expected, max_abs_err=error, unit_roundoff=2**-11
    )
    assert bool(tighter_than_format(output, "max_abs_err", 1e-4)) is told  # a step is 2**-10 there
    for limit, error, found in ((0.5 * 2**-10, 6e-4, False), (4.8e-4, 6e-4, True), (4.8e-4, 4.8e-4 + 2.01 * 2**-10, False)):
        assert bool(tighter_than_format(dataclasses.replace(output, worst_expected=1.0, max_abs_err=error), "max_abs_err", limit)) is found
    assert tighter_than_format(output, "mean_abs_err", 1e-4) == ""


@pytest.mark.parametrize(
    ("guards", "seen"),
    [((), "no case fails; all are weak by nature, so none counts"), (("out: 1 byte before",), "all weak, so none counts")],
)
def test_no_case_that_counts_is_no_verdict(recorded: dict[str, Any], guards: tuple[str, ...], seen: str) -> None:
    base = small(recorded["correctness"])
    unjudged = tuple(dataclasses.replace(case, status="undefined", outputs=(), message="no answer", guards=guards) for case in base.cases)
    result = correctness.judge(dataclasses.replace(base, cases=unjudged), LIMITS)
    assert [(check.observed, check.code) for check in result.checks if check.name == "cases"] == [(seen, "correctness.too_weak")]


def test_a_kernel_on_another_stream_is_told_by_its_cause_alone(recorded: dict[str, Any]) -> None:
    base = small(recorded["correctness"], default_launches=("k.cu:7: k<<<1, 1>>>",))
    case = base.cases[0]
    off = dataclasses.replace(case.outputs[0], max_abs_err=0.5, mean_abs_err=0.1, bad_pct=9.0)

    def codes(default: OutputErrors) -> set[str]:
        wrong = dataclasses.replace(case, outputs=(off,), default_stream=(default,))
        result = correctness.judge(dataclasses.replace(base, cases=(wrong, *base.cases[1:])), {**LIMITS, "match_baseline": False})
        return {check.code for check in result.checks if check.where == case.where and check.status is not Status.PASS}

    assert codes(case.outputs[0]) == {"correctness.other_stream"}
    many = dataclasses.replace(
        base, cases=(dataclasses.replace(case, outputs=(off,), default_stream=case.outputs),), default_launches=tuple("abcd")
    )
    cause = next(check for check in correctness.judge(many, LIMITS).checks if check.name == "stream")
    assert cause.hint.startswith("launches without a stream: a; b; c. ")
    assert "correctness.other_stream" not in codes(off) | codes(dataclasses.replace(case.outputs[0], nonfinite=1))


def test_what_the_honest_error_is_worth_beside_the_format_s_rule() -> None:
    told = {ratio: correctness.worth(ratio).partition(", and the format's own rule ")[2] for ratio in (None, 20.0, 1.0, 0.9, 1234.0)}
    assert told == {None: "", 20.0: "20 times as wide", 1.0: "1 times as wide", 0.9: "", 1234.0: "1,200 times as wide"}
    assert {correctness.worth(ratio).endswith("allows if that is less") for ratio in (0.0, 0.9)} == {True}


def test_seeds_must_change_the_inputs_and_on_some_shape_the_answer(recorded: dict[str, Any]) -> None:
    base = small(recorded["correctness"])
    one, two, *others = base.cases

    def of(**changes: Any) -> list[tuple[Any, ...]]:
        made = dataclasses.replace(base, cases=(one, dataclasses.replace(two, **changes), *others))
        return [(check.code, check.observed, check.where) for check in correctness.judge(made, LIMITS).checks if check.name == "seeds"]

    assert of() == [] and of(inputs_sha256=one.inputs_sha256, inputs="zeros") == []
    assert of(inputs_sha256=one.inputs_sha256) == [
        ("correctness.same_inputs", f"inputs equal those of seed {one.seed}", two.where),
    ]
    told = f"the reference equals that of seed {one.seed}: it is constant over the inputs"
    assert of(reference_sha256=one.reference_sha256) == [("correctness.too_weak", told, two.where)]


def timed(new: float = 10.0, old: float = 12.0, **changes: Any) -> PerformanceEvidence:
    """A measurement with all that can stand beside it: both cache modes, single launches, long blocks, the baseline alone."""
    base = fed([new * (1 + 1e-4 * n) for n in range(5)], [old * (1 + 1e-4 * n) for n in range(5)])

    def series(mode: str, factor: float, sides: dict[str, float], samples: int = 5, sm_mhz: float = 1980.0) -> Series:
        blocks = tuple(
            Block(
                side,
                pair,
                tuple(us * factor * (1 + 1e-4 * n + 1e-6 * pair) for n in range(samples)),
                sm_mhz=sm_mhz,
                wall_us=us * factor * 51 * samples + 90.0,
            )
            for pair in range(12)
            for side, us in sides.items()
        )
        return Series(mode, dict.fromkeys(sides, 50 if mode != "single" else 1), blocks, "pairs")

    both = {"candidate": new, "baseline": old}
    outside = tuple(OutsideBlock(side, 500, 10, 5000 * us, 5000 * us + 2100.0) for side, us in both.items() for _ in range(2))
    more = {
        "series": (series("cold", 1.0, both), series("warm", 0.9, both)),
        "single": series("single", 1.3, both, 12),
        "outside": outside,
        "alone": Alone(series("cold", 1.0, {"baseline": old * 0.99}, sm_mhz=2000.0), ""),
        "process_s": 90.0,
    }
    return dataclasses.replace(base, **{**more, **changes})


def test_a_task_that_expects_much_may_have_it() -> None:
    for pct, most in ((15, 100.0), (1900, 200.0)):
        checks = performance.judge(timed(), {**TIMES, "min_speedup_pct": pct}).checks
        assert [check.limit for check in checks if check.name == "baseline_over_candidate"] == [most]


@pytest.mark.parametrize("changes", [{"series": ()}, {"single": None}, {"functions": ("candidate", "baseline")}, {"calibration": None}])
def test_single_launches_are_compared_where_both_are_known(changes: dict[str, Any]) -> None:
    def names(**more: Any) -> set[str]:
        return {check.name for check in performance.judge(timed(**more), TIMES).checks}

    warm_only = {"series": timed().series[1:], "gated_mode": "warm"}
    assert "single_p50" in names() and "single_p50" not in names(**changes)
    found = performance.judge(timed(**warm_only), {**TIMES, "cache": "warm"}).checks
    assert not {"single_p50", "single_on_top", "cold_p50"} & {check.name for check in found}


@pytest.mark.parametrize(("steps", "asked"), [(2000.5, True), (1999.5, False)])
def test_equal_samples_are_looked_for_where_the_timer_is_fine_enough(steps: float, asked: bool) -> None:
    base = timed()
    step_us = base.series[0].launches["candidate"] * base.series[0].samples("candidate")[0] / steps
    checks = performance.judge(dataclasses.replace(base, calibration=Calibration(step_us, 1.5, 0.5)), TIMES).checks
    assert any(check.name == "distinct_samples" and check.where.startswith("candidate") for check in checks) is asked


def test_a_side_without_samples_hides_no_other_s_timer() -> None:
    base = timed()
    cold = dataclasses.replace(base.series[0], launches={"absent": 1, **base.series[0].launches})
    checks = performance.judge(dataclasses.replace(base, series=(cold, base.series[1])), TIMES).checks
    assert [check.where.partition(",")[0] for check in checks if check.name == "event_overhead"] == ["candidate", "baseline"]


@pytest.mark.parametrize(("beyond_us", "code"), [(600.0, "host_busy"), (900.0, "host_busy"), (1100.0, "inconsistent")])
def test_how_well_the_outside_clock_knows_decides_who_is_blamed(beyond_us: float, code: str) -> None:
    """The baseline's blocks take longer outside than they claim, by figures that scatter by 200 us around ``beyond_us``."""
    base = timed()
    blocks = tuple(
        dataclasses.replace(
            block, wall_us=50 * sum(block.samples_us) + (beyond_us + 200.0 * (block.pair % 3 - 1) if block.side == "baseline" else 10.0)
        )
        for block in base.series[0].blocks
    )
    evidence = dataclasses.replace(base, series=(dataclasses.replace(base.series[0], blocks=blocks), base.series[1]))
    (check,) = [check for check in performance.judge(evidence, TIMES).checks if check.name == "beyond_claims"]
    doubt = 2.0 * 1.2533 * 1.4826 * 200.0 / 12**0.5
    assert check.code == f"performance.{code}" and check.limit == pytest.approx(0.05 * 3000.6 + 400.0, rel=1e-3)
    assert check.observed == pytest.approx(beyond_us - 10.0 + (doubt if code == "host_busy" else 0.0), abs=1.0)


TIMES = {"shape": "mission", "min_speedup_pct": 15, "metrics": ("p50", "p90", "mean"), "max_std_us": 10.0}
NO_TIME = (
    "metrics",
    "figures",
    "dimensions",
    "torch_version",
    "inputs",
    "backends",
    "also",
    "mem_mhz",
    "power_w",
    "temperature_c",
    "throttle",
    "build",
)


def test_performance_with_a_warm_cache() -> None:
    base = timed()
    warm = dataclasses.replace(base, gated_mode="warm", alone=Alone(dataclasses.replace(base.alone.series, mode="warm"), ""))
    left_out = (*NO_TIME, "series", "control", "single", "alone", "outputs", "shape", "calibration", "device", "work")
    assert_kept("performance_warm", said(performance.judge, warm, {**TIMES, "cache": "warm"}, left_out=left_out))


def test_an_open_outcome_says_what_would_pass_and_follows_the_seed() -> None:
    base = timed(10.0, 11.5)
    blocks = tuple(
        dataclasses.replace(block, samples_us=tuple(us * random.Random(block.pair).gauss(1.0, 0.03) for us in block.samples_us))
        if block.side == "baseline"
        else block
        for block in base.series[0].blocks
    )
    evidence = dataclasses.replace(base, series=(dataclasses.replace(base.series[0], blocks=blocks), base.series[1]))
    reading = performance.read(evidence, "cold", TIMES["min_speedup_pct"])
    seen = reading.ruling.interval
    text = performance.sentence(evidence, reading, 15.0)
    assert f"half width {seen.half_width_pct:.2f} %, a ratio of {1.15 * (1 + seen.half_width_pct / 100):.3f} would pass" in text
    speedup = next(check for check in performance.judge(evidence, TIMES).checks if check.name == "speedup_p50")
    assert seen.half_width_pct > 3.0 and reading.ruling.outcome == "open" and speedup.status is Status.INCONCLUSIVE
    low = {seed: performance.read(dataclasses.replace(evidence, seed=seed), "cold", 5.0).ruling for seed in (1, 2)}
    assert low[1].bootstrap != low[2].bootstrap and low[1].interval == low[2].interval


def test_a_gain_of_single_launches_within_the_noise_floor_is_no_loss() -> None:
    """The control shows 1 %; single launches that are 0.5 % slower pass, and those that are 5 % slower fail."""
    base = timed()
    control = tuple(
        dataclasses.replace(block, samples_us=tuple(1.01 * us for us in block.samples_us)) if block.side == "control" else block
        for block in base.control.blocks
    )
    for factor, code in ((1.206, ""), (1.263, "performance.slower_mean")):
        single = tuple(
            dataclasses.replace(block, samples_us=tuple(factor * us for us in block.samples_us)) if block.side == "candidate" else block
            for block in base.single.blocks
        )
        evidence = dataclasses.replace(
            base, control=dataclasses.replace(base.control, blocks=control), single=dataclasses.replace(base.single, blocks=single)
        )
        (check,) = [check for check in performance.judge(evidence, TIMES).checks if check.name == "speedup_mean"]
        assert check.code == code and check.limit == pytest.approx(-1.0, abs=0.02)


def test_the_least_time_by_arithmetic() -> None:
    checks = performance.judge(timed(work=Work(5.4e9, None, 0)), TIMES).checks
    found = [(check.where, check.limit) for check in checks if check.name == "candidate_p50"]
    assert found == [("least time by arithmetic", pytest.approx(1.35))]


def test_performance_with_slow_single_launches() -> None:
    base = timed()
    slow = tuple(
        dataclasses.replace(block, samples_us=tuple(1.3 * us for us in block.samples_us)) if block.side == "candidate" else block
        for block in base.single.blocks
    )
    evidence = dataclasses.replace(base, single=dataclasses.replace(base.single, blocks=slow))
    result = performance.judge(evidence, TIMES)
    told = {check.name: (check.code, check.observed) for check in result.checks if check.name in ("speedup_p90", "speedup_mean")}
    assert result.code == "performance.slower_p90" and told == {
        name: (f"performance.slower_{name[8:]}", pytest.approx(100.0 * (1.2 / 1.3 - 1.0))) for name in ("speedup_p90", "speedup_mean")
    }


@pytest.mark.parametrize(("name", "new", "old"), [("faster", 10.0, 12.0), ("slower", 10.0, 10.5), ("met", 10.0, 11.5)])
def test_performance(name: str, new: float, old: float) -> None:
    left_out = NO_TIME if name == "faster" else (*NO_TIME, "series", "control", "single", "outside", "alone", "outputs")
    assert_kept(f"performance_{name}", said(performance.judge, timed(new, old), TIMES, left_out=left_out))
