"""Result lines are not believed before they are checked; the judge on records alone; guard bands and poison."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gates.core.errors import GatesError
from gates.core.records import Status, from_json, to_json
from gates.gate.correctness import evidence as parse
from gates.gate.correctness.judge import baseline_limit, judge
from gates.gate.correctness.runner.accuracy import figures
from gates.launch import guarded_buffers

LIMITS = {"max_abs_err": 1e-3, "mean_abs_err": 1e-4, "bad_pct": 1.0, "bad_atol": 1e-3}


def result(seed: int, **changes: Any) -> dict[str, Any]:
    want = torch.randn(64, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return {
        "status": "ok",
        "message": "",
        "wall_s": 0.1,
        "inputs_sha256": f"{seed:064x}",
        "reference_sha256": f"{seed + 9:064x}",
        "output_sha256": "",
        "orders": ["forward", "forward"],
        "launches": [],
        "launch_count": 0,
        "guards": [],
        "mutated": [],
        "differences": 0,
        "first_difference": "",
        "findings": [],
        "unwritten": {"out": 0},
        "outputs": [figures("out", want.to(torch.float32), want, 1e-3)],
        **changes,
    }


def raw(lines: list[Any] | None = None, **ended: Any) -> dict[str, Any]:
    """Two asked cases on a device; ``lines`` are what the runner wrote."""
    asked = [{"shape": "small", "seed": seed, "role": "headline"} for seed in (0, 1)]
    if lines is None:
        lines = [case(0), case(1), {"type": "done", "cases": 2}]
    texts = [line if isinstance(line, str) else json.dumps({"nonce": "right", **line}) for line in lines]
    record = {
        "nonce": "right",
        "returncode": 0,
        "cause": "exit 0",
        "timed_out": False,
        "wall_s": 1.0,
        "output_tail": "",
        "asked": asked,
        "lines": texts,
        **ended,
    }
    return {
        "device": "cuda:0",
        "bad_atol": 1e-3,
        "end_to_end_bad_atol": None,
        "extra_seeds": [],
        "asked": asked,
        "candidate": {"name": "stage", "cases": asked, "jobs": [record]},
        "baseline": None,
    }


def case(index: int, **changes: Any) -> dict[str, Any]:
    return {"type": "case", "index": index, "result": result(index, **changes)}


def verdict(data: dict[str, Any], limits: dict[str, Any] = LIMITS):
    return judge(parse.parse(data), limits)


def test_two_honest_lines_pass() -> None:
    assert verdict(raw()).status is Status.PASS


@pytest.mark.parametrize(
    ("lines", "ended", "code"),
    [
        ([], {}, "missing_cases"),
        ([case(0), {"type": "done"}], {}, "missing_cases"),
        ([case(0), {**case(1), "nonce": "wrong"}, {"type": "done"}], {}, "forged"),
        ([case(0), case(0), case(1), {"type": "done"}], {}, "forged"),
        ([case(0), {"type": "done"}, case(1)], {}, "forged"),
        ([case(0), case(1), case(7), {"type": "done"}], {}, "forged"),
        ([case(0), case(1), {"type": "verdict", "status": "pass"}, {"type": "done"}], {}, "forged"),
        ([case(0), '{"nonce": "right", "type": "case", "index": 1, "result": {"max_abs_err": NaN}}', {"type": "done"}], {}, "forged"),
        ([case(0), case(1, max_abs_err=0.0), {"type": "done"}], {}, "forged"),
        ([case(0), "not json", case(1), {"type": "done"}], {}, "forged"),
        (
            [case(0), {"type": "phase", "index": 1, "phase": "kernel"}, '{"type": "ca'],
            {"returncode": -11, "cause": "killed by SIGSEGV"},
            "crash",
        ),
        ([case(0), {"type": "phase", "index": 1, "phase": "kernel"}], {"returncode": -9, "cause": "killed", "timed_out": True}, "timeout"),
        ([case(0), {"type": "phase", "index": 1, "phase": "kernel"}], {}, "missing_cases"),
        ([case(0), {"type": "phase", "index": 1, "phase": "kernel"}], {"returncode": -9, "cause": "killed"}, "crash"),
    ],
)
def test_lines_that_are_no_proof(lines: list[Any], ended: dict[str, Any], code: str) -> None:
    judged = verdict(raw(lines, **ended))
    assert judged.status is Status.FAIL
    assert f"correctness.{code}" in {check.code for check in judged.checks}


def test_out_of_memory_killer_in_the_reference_does_not_blame_the_kernel() -> None:
    lines = [case(0), {"type": "phase", "index": 1, "phase": "reference"}]
    judged = verdict(raw(lines, returncode=-9, cause="killed by SIGKILL"))
    assert judged.status is Status.INCONCLUSIVE and judged.code == "correctness.no_memory"


def test_a_plan_that_leaves_out_a_case_is_noticed() -> None:
    data = raw([case(0), {"type": "done"}])
    data["candidate"]["cases"] = data["asked"][:1]
    judged = verdict(data)
    assert judged.status is Status.FAIL and "small seed 1" in judged.sentence


@pytest.mark.parametrize("figure", ["max_abs_err", "mean_abs_err", "bad_pct"])
@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), 2.0])
def test_a_figure_that_is_absent_or_no_number_fails(figure: str, value: float | None) -> None:
    evidence = parse.parse(raw())
    broken = dataclasses.replace(evidence.cases[0].outputs[0], **{figure: value})
    cases = (dataclasses.replace(evidence.cases[0], outputs=(broken,)), evidence.cases[1])
    judged = judge(dataclasses.replace(evidence, cases=cases), LIMITS)
    assert judged.status is Status.FAIL and judged.code == f"correctness.{figure}"


def test_a_limit_met_exactly_is_met() -> None:
    evidence = parse.parse(raw())
    worst = max(case.outputs[0].max_abs_err for case in evidence.cases)
    assert judge(evidence, {**LIMITS, "max_abs_err": worst}).status is Status.PASS
    below = {**LIMITS, "max_abs_err": worst * 0.999}
    told = judge(evidence, below)  # the error is one rounding of the format, so no kernel keeps less
    assert (told.status, told.code) == (Status.INCONCLUSIVE, "correctness.limit_too_tight")
    cases = tuple(
        dataclasses.replace(case, outputs=tuple(dataclasses.replace(one, best=None) for one in case.outputs)) for case in evidence.cases
    )
    assert judge(dataclasses.replace(evidence, cases=cases), below).status is Status.FAIL  # a run of before, which does not say so


def test_no_cases_and_no_limits_are_no_pass() -> None:
    evidence = parse.parse(raw())
    assert judge(dataclasses.replace(evidence, asked=0, cases=()), LIMITS).status is Status.NOT_RUN
    assert judge(dataclasses.replace(evidence, cases=()), LIMITS).status is Status.FAIL
    assert judge(evidence, {}).status is Status.INCONCLUSIVE


def test_loose_limits_are_said_to_be_loose() -> None:
    assert "loose by choice: 15.0 % may be off by more than 0.5" in verdict(raw(), {**LIMITS, "bad_pct": 15.0, "bad_atol": 0.5}).sentence
    assert "one shape only" in verdict(raw()).sentence


def test_baseline_on_other_inputs_is_refused() -> None:
    evidence = parse.parse(raw())
    other = tuple(dataclasses.replace(case, inputs_sha256="f" * 64) for case in evidence.cases)
    judged = judge(evidence, {**LIMITS, "match_baseline": True}, dataclasses.replace(evidence, cases=other))
    assert judged.status is Status.FAIL and judged.code == "correctness.other_inputs"
    assert judge(evidence, {**LIMITS, "match_baseline": True}, evidence).status is Status.PASS


def test_baseline_limit_allows_one_rounding_of_the_output_format() -> None:
    assert baseline_limit(1.0, 2.0**-11, 4e-4) == pytest.approx(1.25 * 4e-4 + 2.0**-11)


def test_an_edited_record_is_refused() -> None:
    data = to_json(parse.parse(raw()))
    assert from_json(parse.CorrectnessEvidence, data, "x") == parse.parse(raw())
    data["cases"][0]["outputs"] = []
    with pytest.raises(GatesError, match="exactly if its status is ok"):
        from_json(parse.CorrectnessEvidence, data, "correctness.json")


DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.int64,
    torch.int32,
    torch.int8,
    torch.uint8,
    torch.bool,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(7, 3), (1,), (), (0,)], ids=str)
def test_buffers_of_every_type(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    like = torch.zeros(shape).to(dtype)
    first, second = guarded_buffers.poison(like, 3, 0), guarded_buffers.poison(like, 3, 1)
    assert first.dtype is dtype and first.shape == like.shape
    assert guarded_buffers.differing(first, second).numel() == like.numel(), "the poisons differ in every element"
    if dtype.is_floating_point:
        assert bool(torch.isnan(first.to(torch.float64)).all()) and bool(torch.isfinite(second.to(torch.float64)).all())
    guarded = guarded_buffers.guarded(first, 5)
    room = guarded_buffers.room(guarded.image.numel(), "cpu").copy_(guarded.image)
    assert guarded_buffers.content(room).data_ptr() % guarded_buffers.ALIGN_BYTES == 0
    assert guarded.violation(room) == "" and guarded_buffers.differing(guarded.values(room), first).numel() == 0
    assert guarded_buffers.untouched([first, second], [first, second]) == like.numel()
    assert guarded_buffers.untouched([first, first], [first, second]) == 0


@settings(deadline=None, max_examples=60)
@given(size=st.integers(1, 300), place=st.integers(-4096, 4095), seed=st.integers(0, 10**6))
def test_one_changed_guard_byte_is_found(size: int, place: int, seed: int) -> None:
    values = torch.zeros(size, dtype=torch.uint8)
    guarded = guarded_buffers.guarded(values, seed)
    raw = guarded.image.clone()
    raw[guarded_buffers.GUARD_BYTES + (place if place < 0 else size + place)] ^= 0x10
    edge = f"{-place} bytes before the start" if place < 0 else f"{place} bytes behind the end"
    assert guarded.violation(raw) == f"1 guard bytes changed, nearest {edge}"


def test_figures_of_non_finite_and_infinite_elements() -> None:
    want = torch.tensor([1.0, 2.0, float("-inf"), 4.0], dtype=torch.float64)
    record = figures("out", torch.tensor([1.0, 2.5, float("-inf"), 4.0]), want, 0.1)
    assert (record["nonfinite"], record["max_abs_err"], record["bad_pct"], record["worst_index"]) == (0, 0.5, 25.0, [1])
    record = figures("out", torch.tensor([1.0, 2.0, 0.0, float("nan")]), want, 0.1)
    assert (record["nonfinite"], record["max_abs_err"], record["bad_pct"]) == (2, 0.0, 50.0)
    record = figures("out", torch.full((4,), float("nan")), want, None)
    assert (record["nonfinite"], record["max_abs_err"], record["mean_abs_err"], record["bad_pct"]) == (4, None, None, None)
    assert json.dumps(record, allow_nan=False)
