"""Limits know the output's format, references that compute in half are noticed, and nothing compared is no evidence."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from correctness_kit import LIMITS, TASKS, gate, side, task_folder

from gates.core.records import Status, from_json
from gates.gate.correctness import judge
from gates.gate.correctness.evidence import Case, CorrectnessEvidence, OutputErrors
from gates.gate.correctness.limits import tighter_than_format
from gates.gate.correctness.runner.accuracy import figures
from gates.gate.correctness.runner.roughness import Roughness
from gates.launch import guarded_buffers
from gates.task.tensor_digest import digest
from gates.worker import wire

WANT = torch.randn(64, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3


def verdict(got: torch.Tensor, want: torch.Tensor = WANT, limits: dict[str, float] = LIMITS, **more: Any):
    found = from_json(OutputErrors, figures("out", got, want, limits["bad_atol"]), "figures")
    case = Case("small", 0, "headline", "ok", "", launch_count=1, outputs=(found,), **more)
    evidence = CorrectnessEvidence(
        1, "cuda:0", "one", 1, (), limits["bad_atol"], None, (case,), None, (), (), (), limits_at={"max_abs_err": "task.yaml:18"}
    )
    return judge.judge(evidence, limits)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e5m2])
def test_a_limit_below_one_rounding_of_the_format_is_the_task_s_fault(dtype: torch.dtype) -> None:
    result = verdict(WANT.to(dtype))
    cost = float((WANT.to(dtype).double() - WANT).abs().max())
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "correctness.limit_too_tight")
    name = str(dtype).removeprefix("torch.")
    assert (
        f"rounding the exact result to {name} already costs {cost:.3g} at small seed 0; no kernel can keep 1e-05; set about "
        f"{2 * cost:.1g} (task.yaml:18)" in result.checks[0].hint + "".join(c.hint for c in result.checks)
    )
    assert not any("accumulation" in check.hint for check in result.checks)


def test_whole_numbers_too_and_what_the_format_holds_exactly_is_judged_to_the_bit() -> None:
    assert verdict(WANT.round().to(torch.int32)).code == "correctness.limit_too_tight"
    assert verdict(WANT.round().to(torch.int32), WANT.round()).status is Status.PASS
    halves = WANT.half()
    assert verdict(halves, halves.double()).status is Status.PASS
    assert verdict(torch.nextafter(halves, torch.tensor(9.0).half()), halves.double()).status is Status.FAIL


@pytest.mark.parametrize(
    ("dtype", "steps", "limit", "told"),
    [
        (
            torch.float16,
            1,
            1e-5,
            "1 unit in the last place of float16; the limit is tighter than the format can hold: it allows 1e-05 there, and one "
            "rounding may cost 0.000977",
        ),
        (
            torch.bfloat16,
            2,
            1e-3,
            "2 units in the last place of bfloat16; the limit is tighter than the format can hold: it allows 0.001 there, and one "
            "rounding may cost 0.00781",
        ),
        (
            torch.float32,
            2,
            1e-9,
            "2 units in the last place of float32; the limit is tighter than the format can hold: it allows 1e-09 there, and one "
            "rounding may cost 1.19e-07",
        ),
        (torch.float16, 3, 1e-5, ""),
        (torch.float16, 1, 1e-3, ""),
        (torch.float16, 2, 3e-3, ""),
    ],
    ids=["half", "bfloat", "float", "three_steps", "limit_of_a_rounding", "a_wider_limit"],
)
def test_a_limit_between_neighbours_of_the_format_is_told_and_fails_all_the_same(
    dtype: torch.dtype, steps: int, limit: float, told: str
) -> None:
    want = torch.tensor([2.5, 3.0, 0.5]).to(dtype)
    got, far = want.clone(), torch.tensor(9.0).to(dtype)
    for _ in range(steps):
        got[1] = torch.nextafter(got[1], far)
    result = verdict(got, want.double(), {"max_abs_err": limit, "bad_atol": limit})
    (check,) = [check for check in result.checks if check.name == "max_abs_err"]
    assert result.status is check.status is Status.FAIL and (told in check.hint if told else "tighter" not in check.hint), check.hint


def test_an_error_bound_between_neighbours_of_the_format_is_told() -> None:
    want = torch.tensor([3.0, 0.0]).half()
    got = torch.tensor([3.0 + 2.0**-9, 0.0]).half()
    found = from_json(OutputErrors, figures("out", got, want.double(), None, torch.full((2,), 1e-5, dtype=torch.float64)), "figures")
    assert "1 unit in the last place of float16; the limit is tighter" in tighter_than_format(found, "max_err_over_bound", 1.0)
    assert tighter_than_format(found, "max_err_over_bound", 100.0) == "" == tighter_than_format(found, "bad_pct", 0.0)


def test_a_wrong_half_kernel_is_refused_all_the_same() -> None:
    assert verdict((WANT * 1.05).half()).status is Status.FAIL
    assert verdict(torch.zeros(64).half()).status is Status.FAIL
    wide = {"max_abs_err": 0.01, "mean_abs_err": 0.003, "bad_pct": 0.0, "bad_atol": 0.01}
    assert verdict(WANT.half(), limits=wide).status is Status.PASS


@pytest.mark.parametrize(
    ("reference", "seen"),
    [
        (lambda a: (a.half() @ a.half()).double(), "matmul in float16"),
        (lambda a: torch.softmax(a.bfloat16(), 1).double(), "softmax in bfloat16"),
        (lambda a: (a.half() * 2).float(), "mul in float16"),
        (lambda a: torch.autocast("cpu", dtype=torch.bfloat16)(torch.mm)(a, a).double(), "mm in bfloat16"),
        (lambda a: torch.softmax(a.half().double(), 1), ""),  # rounded on purpose, computed in full
        (lambda a: a.half().t().contiguous()[1:].double() * 2, ""),
        (lambda a: a.half().amax(1).double(), ""),
    ],
    ids=["product", "softmax", "factor", "autocast", "rounded_inputs", "moves", "maximum"],
)
def test_arithmetic_in_half_is_seen_and_moves_are_not(reference: Any, seen: str) -> None:
    with Roughness() as rough:
        reference(torch.randn(4, 4))
    assert rough.seen == seen


ROUGH = (TASKS / "saxpy_problem.py").read_text()
EXACT = 'return {"out": inputs["a"] * inputs["x"].double() + inputs["y"].double()}'


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ('return {"out": (inputs["a"] * inputs["x"].half() + inputs["y"].half()).double()}', Status.INCONCLUSIVE, "mul in float16"),
        ('return {"out": (inputs["a"] * inputs["x"].double() + inputs["y"].double()).half()}', Status.INCONCLUSIVE, "out in float16"),
        (
            'return {"out": (inputs["a"] * inputs["x"].double() + inputs["y"].double()).float()}',
            Status.PASS,
            "the reference gives out in float32",
        ),
        (EXACT, Status.PASS, ""),
    ],
    ids=["computed_in_half", "given_in_half", "float32", "float64"],
)
def test_a_rough_reference_is_told_at_run_time(library: Path, tmp_path: Path, text: str, status: Status, words: str) -> None:
    folder = task_folder(tmp_path / "t", "rough_problem", ROUGH.replace(EXACT, text))
    loose = {"max_abs_err": 0.02, "mean_abs_err": 0.005, "bad_pct": 0.0, "bad_atol": 0.02}
    _, result = gate(
        tmp_path / "w", side(library, "honest", folder, "rough_problem"), shapes=("small",), seeds=(0,), quick=False, limits=loose
    )
    told = result.sentence + "".join(str(check.observed) for check in result.checks if check.code)
    assert result.status is status and words in told, told
    if status is Status.INCONCLUSIVE:
        assert result.code == "correctness.rough_reference"


def test_a_case_without_elements_is_no_evidence(library: Path, tmp_path: Path) -> None:
    text = ROUGH.replace('"small": {"N": 1000}', '"small": {"N": 1000}, "empty": {"N": 0}').replace("range(1,", "range(0,")
    one = side(library, "honest", task_folder(tmp_path / "t", "empty_problem", text), "empty_problem")
    evidence, result = gate(tmp_path / "a", one, shapes=("small", "empty"), seeds=(0,), quick=False)
    assert (
        result.status is Status.PASS
        and "1/1 cases" in result.sentence
        and "1 without elements, not counted (empty seed 0)" in result.sentence
    )
    assert [case.empty for case in evidence.cases] == [False, True]
    _, result = gate(tmp_path / "b", one, shapes=("empty",), seeds=(0,), quick=False)
    assert (result.status, result.code) == (Status.INCONCLUSIVE, "correctness.no_elements")
    assert "None" not in result.sentence and "no elements: nothing was compared" in result.sentence


@pytest.mark.parametrize(
    ("dtype", "beyond", "right"),
    [
        (torch.float8_e4m3fn, 1000.0, (448.0, math.nan)),
        (torch.float8_e5m2, 1e6, (math.inf,)),
        (torch.float16, 1e6, (math.inf,)),
        (torch.bfloat16, 1e39, (math.inf,)),
    ],
)
def test_what_is_beyond_the_range_of_a_format(dtype: torch.dtype, beyond: float, right: tuple[float, ...]) -> None:
    """The infinity of the format; of one that has none its largest number or NaN."""
    want = torch.tensor([beyond, -beyond, 2.0], dtype=torch.float64)
    for value in (*right, 3.0):
        found = figures("out", torch.tensor([value, -value, 2.0]).to(dtype), want, None)
        assert (found["nonfinite"] == 0 and found["max_abs_err"] == 0.0) is (value != 3.0)


def test_whole_numbers_that_differ_are_off_by_one_at_least() -> None:
    """Float64 makes 2^62 and 2^62 + 1 equal; an element that has no answer is left out all the same."""
    want = torch.tensor([2**62, -(2**62), 5])
    for got, missing, error in (
        (want, None, 0.0),
        (want + 1, None, 1.0),
        (want + 7, None, 7.0),
        (want + 1, torch.tensor([True, True, True]), 0.0),
    ):
        assert figures("out", got, want, 0.5, missing=missing)["max_abs_err"] == error


@pytest.mark.parametrize("size", [1, 3])
def test_a_view_of_one_element_is_like_any_other(size: int) -> None:
    """Torch calls it contiguous whatever its stride is."""
    spread = torch.fft.fft(torch.arange(float(size)) + 1).conj().imag
    assert (
        digest({"x": spread}) == digest({"x": torch.tensor(spread.tolist())})
        and not guarded_buffers.differing(spread, torch.tensor(spread.tolist())).numel()
    )
    sent = io.BytesIO()
    wire.send(sent, {"x": spread})
    assert torch.equal(wire.receive(io.BytesIO(sent.getvalue()))["x"], spread)
