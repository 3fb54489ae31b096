"""Planted defects must turn the correctness gate red; an honest kernel passes."""

from __future__ import annotations

from pathlib import Path

import pytest
from correctness_kit import LIMITS, gate, in_process, side, task_folder

from gates.core.errors import GatesError
from gates.core.records import Status


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    in_process(monkeypatch)


def codes(result) -> set[str]:
    return {check.code for check in result.checks if check.status is not Status.PASS}


def test_an_honest_kernel_passes(library: Path, tmp_path: Path) -> None:
    evidence, result = gate(
        tmp_path, side(library, "honest"), baseline=side(library, "honest"), extra_seeds=(77,), limits={**LIMITS, "match_baseline": True}
    )
    assert result.status is Status.PASS, result.sentence
    fresh = sum(case.role == "fresh" for case in evidence.cases)
    assert fresh >= 8 and result.sentence == f"6/6 cases and {fresh} fresh cases; fresh seed 77"
    assert [case.role for case in evidence.cases].count("extra") == 1
    assert len(evidence.baseline_cases) == len(evidence.cases) - fresh == 7
    assert evidence.cases[0].orders == ("forward", "shuffled", "reversed")
    assert all(case.launch_count == len(case.orders) for case in evidence.cases)


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ("writes_nan", "non_finite"),
        ("writes_inf", "non_finite"),
        ("unwritten_tail", "unwritten"),
        ("writes_nothing", "unwritten"),
        ("changes_input", "input_mutated"),
        ("keeps_state", "not_repeatable"),
        ("depends_on_order", "not_repeatable"),
        ("depends_on_reversed", "not_repeatable"),
        ("second_call_only", "not_repeatable"),
        ("accumulates", "not_repeatable"),
        ("wrong_scale", "max_abs_err"),
        ("wrong_scale", "mean_abs_err"),
        ("wrong_scale", "bad_pct"),
        ("all_zeros", "max_abs_err"),
        ("returns_error", "launch_error"),
        ("keeps_answers", "stale_answer"),
        ("launches_nothing", "no_launch"),
        ("launches_once", "no_launch"),
        ("has_finding", "barrier_divergence"),
    ],
)
def test_planted_defect_fails(library: Path, tmp_path: Path, entry: str, code: str) -> None:
    _, result = gate(tmp_path, side(library, entry), seeds=(0, 1))
    assert result.status is Status.FAIL
    assert f"correctness.{code}" in codes(result), codes(result)
    assert all(check.hint for check in result.checks if check.code and check.name != "cases")


def test_messages_name_the_place(library: Path, tmp_path: Path) -> None:
    _, result = gate(tmp_path / "a", side(library, "writes_nan"), seeds=(0,), shapes=("small",))
    check = next(check for check in result.checks if check.name == "non_finite")
    assert check.observed == 1 and check.where == "small seed 0" and check.hint.startswith("out[500] is nan, expected")
    _, result = gate(tmp_path / "c", side(library, "depends_on_order"), seeds=(0,), shapes=("small",))
    check = next(check for check in result.checks if check.name == "not_repeatable")
    assert check.observed == 1 and "out[7]" in check.hint and "(shuffled)" in check.hint
    evidence, _ = gate(tmp_path / "d", side(library, "returns_error"), seeds=(0,), shapes=("small",))
    assert evidence.cases[0].message == "x is not aligned to 16 bytes"


def test_unwritten_elements_are_counted_exactly(library: Path, tmp_path: Path) -> None:
    evidence, _ = gate(tmp_path, side(library, "unwritten_tail"), seeds=(0,), shapes=("small",), quick=False)
    assert evidence.cases[0].unwritten == {"out": 1000 - 7 * 128}


def test_what_was_never_written_is_called_so_and_nothing_else(library: Path, tmp_path: Path) -> None:
    """Poison is NaN and differs from call to call, but neither a read before the write nor a race is the cause."""
    _, result = gate(tmp_path, side(library, "unwritten_tail"), seeds=(0,), shapes=("small",), quick=False)
    likely = [note for check in result.checks for note in check.notes if note.startswith("likely:")]
    assert likely[0].startswith("likely: never written: 104 of 1000 elements still hold the poison of every call")
    assert not any("race" in note or "NaN" in note for note in likely)
    failed = {check.name for check in result.checks if check.status is Status.FAIL}
    assert result.code == "correctness.unwritten" and not failed & {"non_finite", "not_repeatable"}, failed


def test_kernel_that_knows_the_seeds_meets_a_fresh_one(library: Path, tmp_path: Path) -> None:
    evidence, result = gate(tmp_path, side(library, "knows_seeds"), extra_seeds=(123456,))
    failed = {check.where for check in result.checks if check.status is Status.FAIL and check.where}
    assert result.status is Status.FAIL and "small seed 123456 (extra)" in failed
    assert all("seed 123456" in where for where in failed)  # drawn shapes and values have it too
    assert next(check for check in result.checks if check.name == "cases").observed == "6/6"
    assert evidence.extra_seeds == (123456,)


def test_odd_shapes_are_tried_and_count(library: Path, tmp_path: Path) -> None:
    evidence, result = gate(tmp_path, side(library, "unwritten_tail"), shapes=("mission",), seeds=(0,))
    assert [(case.shape, case.role) for case in evidence.cases] == [("mission", "headline"), ("tail", "odd")]
    assert result.status is Status.FAIL
    assert {check.where for check in result.checks if check.code} >= {"tail seed 0 (odd)"}
    assert next(check for check in result.checks if check.name == "cases").observed == "1/1"


def test_worse_than_the_baseline(library: Path, tmp_path: Path) -> None:
    loose = {"max_abs_err": 0.1, "mean_abs_err": 0.1, "bad_pct": 0.0, "bad_atol": 0.1, "match_baseline": True}
    _, result = gate(tmp_path / "a", side(library, "slightly_worse"), limits=loose, baseline=side(library, "honest"))
    assert codes(result) == {"correctness.worse_than_baseline", "correctness.cases"}
    _, result = gate(tmp_path / "b", side(library, "honest"), limits=loose, baseline=side(library, "slightly_worse"))
    assert result.status is Status.PASS
    _, result = gate(tmp_path / "c", side(library, "honest"), limits=loose)
    assert result.status is Status.INCONCLUSIVE and result.code == "correctness.no_baseline"
    _, result = gate(tmp_path / "d", side(library, "honest"), limits=loose, baseline=side(library, "returns_error"))
    assert result.status is Status.INCONCLUSIVE and result.code == "correctness.no_baseline"


PROBLEM = """
import torch
SHAPES = {"small": {"N": 1000}, "tail": {"N": 1023}}
ARGUMENTS = ("x", "y", "out", "N", "a")
def make_inputs(shape, seed, device):
    g = torch.Generator().manual_seed(seed)
    x, y = torch.randn(shape["N"], generator=g), torch.randn(shape["N"], generator=g)
    %s
    return {"x": x, "y": y, "a": 2.5}
def make_outputs(shape, device):
    return {"out": torch.empty(shape["N"])}
def reference(inputs, shape):
    %s
    return {"out": inputs["a"] * inputs["x"].double() + inputs["y"].double()}
"""


@pytest.mark.parametrize(
    ("name", "inputs", "reference", "entry", "limits", "status", "code"),
    [
        ("zero_inputs", "x, y = x * 0, y * 0", "", "all_zeros", LIMITS, Status.FAIL, "too_weak"),
        ("zero_y", "y = y * 0", "", "ignores_y", LIMITS, Status.FAIL, "too_weak"),
        ("loose", "", "", "all_zeros", {"max_abs_err": 50.0, "mean_abs_err": 50.0}, Status.FAIL, "too_weak"),
        (
            "constant",
            "",
            "inputs = {'a': 1.0, 'x': torch.arange(shape['N']), 'y': torch.zeros(shape['N'])}",
            "honest",
            LIMITS,
            Status.FAIL,
            "too_weak",
        ),
        (
            "one_seed",
            "g = torch.Generator().manual_seed(5); x = torch.randn(shape['N'], generator=g); y = x + 1",
            "",
            "honest",
            LIMITS,
            Status.FAIL,
            "same_inputs",
        ),
        ("strided", "x = torch.randn(2 * shape['N'], generator=g)[::2]", "", "honest", LIMITS, Status.FAIL, "problem_error"),
        ("no_memory", "", "raise MemoryError('needs 128 GiB')", "honest", LIMITS, Status.INCONCLUSIVE, "no_memory"),
        ("torch_memory", "", "torch.empty(1 << 50)", "honest", LIMITS, Status.INCONCLUSIVE, "no_memory"),
        ("raises", "", "raise KeyError('q')", "honest", LIMITS, Status.FAIL, "problem_error"),
        ("nan_reference", "", "return {'out': inputs['x'].double() * float('nan')}", "honest", LIMITS, Status.FAIL, "problem_error"),
        ("other_shape", "", "return {'out': inputs['x'].double()[1:]}", "honest", LIMITS, Status.FAIL, "problem_error"),
    ],
)
def test_weak_or_broken_problems(library, tmp_path, name, inputs, reference, entry, limits, status, code) -> None:
    folder = task_folder(tmp_path / name, f"planted_{name}", PROBLEM % (inputs or "pass", reference or "pass"))
    _, result = gate(tmp_path / "work", side(library, entry, folder, f"planted_{name}"), limits=limits)
    assert result.status is status, result.sentence
    assert f"correctness.{code}" in codes(result), codes(result)


def test_lack_of_memory_says_how_much_is_needed(library: Path, tmp_path: Path) -> None:
    folder = task_folder(tmp_path / "t", "planted_huge", PROBLEM % ("pass", "torch.empty(1 << 50, dtype=torch.uint8)"))
    evidence, _ = gate(tmp_path / "work", side(library, "honest", folder, "planted_huge"), seeds=(0,))
    assert evidence.cases[0].message == "not enough memory for the reference: needs 1.049e+06 GiB"


def test_not_contiguous_input_is_named(library: Path, tmp_path: Path) -> None:
    text = PROBLEM % ("x = torch.randn(2 * shape['N'], generator=g)[::2]", "pass")
    folder = task_folder(tmp_path / "t", "planted_view", text)
    evidence, _ = gate(tmp_path / "work", side(library, "honest", folder, "planted_view"), seeds=(0,))
    assert "input 'x' is not contiguous" in evidence.cases[0].message


def test_inputs_that_the_kernel_does_not_get_need_not_matter(library: Path, tmp_path: Path) -> None:
    text = PROBLEM % ("pass", "pass")
    text = text.replace('"a": 2.5}', '"a": 2.5, "original": torch.zeros(3, 4).T}')
    folder = task_folder(tmp_path / "t", "planted_more", text)
    _, result = gate(tmp_path / "w", side(library, "honest", folder, "planted_more"), seeds=(0, 1))
    assert result.status is Status.PASS, result.sentence


def test_end_to_end_has_limits_of_its_own(library: Path, tmp_path: Path) -> None:
    text = (
        PROBLEM % ("pass", "pass")
        + """
ODD_SHAPES = ("tail",)
def end_to_end(inputs, shape):
    return {"out": inputs["a"] * inputs["x"] + inputs["y"] + 0.01}
"""
    )
    folder = task_folder(tmp_path / "t", "planted_whole", text)
    whole = {"max_abs_err": 0.02, "mean_abs_err": 0.02, "bad_pct": 0.0, "bad_atol": 0.02}
    candidate = side(library, "honest", folder, "planted_whole")
    evidence, result = gate(tmp_path / "o", candidate, shapes=("small",), limits={**LIMITS, "end_to_end": {**whole, "mean_abs_err": 0.005}})
    assert {check.where for check in result.checks if check.code and check.where} == {"small seed 0", "small seed 1", "small seed 2"}
    evidence, result = gate(tmp_path / "a", candidate, limits={**LIMITS, "end_to_end": whole})
    assert result.status is Status.PASS
    assert evidence.cases[0].end_to_end[0].max_abs_err == pytest.approx(0.01, rel=1e-3)
    _, result = gate(tmp_path / "b", candidate, limits={**LIMITS, "end_to_end": {**whole, "mean_abs_err": 0.005}})
    assert codes(result) == {"correctness.end_to_end", "correctness.cases"}


@pytest.mark.parametrize(
    ("shapes", "seeds", "text"),
    [
        (("small",), (0, 0, 0), "seed 0 is given twice"),
        (("small", "small"), (0,), "shape small is given twice"),
        (("smal",), (0,), "no shape 'smal'"),
    ],
)
def test_wrong_cases_are_refused(library: Path, tmp_path: Path, shapes, seeds, text) -> None:
    with pytest.raises(GatesError, match=text) as caught:
        gate(tmp_path, side(library, "honest"), shapes=shapes, seeds=seeds)
    if shapes == ("smal",):
        assert "small" in caught.value.hint
