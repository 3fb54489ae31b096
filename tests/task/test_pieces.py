"""Results computed in pieces equal those computed at once."""

from __future__ import annotations

import json
import math

import pytest
import torch

from gates.gate.correctness.runner import accuracy
from gates.task import honest_error, pieces
from gates.task.problem import ProblemError


def test_pieces_make_up_the_whole() -> None:
    assert list(pieces.pieces(0)) == [slice(0, 0)]
    count = 2 * pieces.ELEMENTS + 3
    assert [place for piece in pieces.pieces(count) for place in (piece.start, piece.stop)][1:-1:2] == [
        pieces.ELEMENTS,
        2 * pieces.ELEMENTS,
    ]
    assert list(pieces.pieces(count))[-1].stop == count


@pytest.mark.parametrize("elements", [1, 3, 40])
@pytest.mark.parametrize("planted", [{}, {0: math.inf}, {59: math.nan}, {7: 0.0, 31: math.inf, 32: -math.inf}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float8_e4m3fn, torch.int64])
def test_figures_and_bounds_are_the_same(
    monkeypatch: pytest.MonkeyPatch, elements: int, planted: dict[int, float], dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(5)
    want = 20 * torch.randn(6, 10, generator=generator, dtype=torch.float64)
    got = (want + torch.randn(6, 10, generator=generator, dtype=torch.float64)).to(dtype)
    if dtype.is_floating_point:
        for place, value in planted.items():
            want.view(-1)[place] = value
        got.view(torch.float32 if dtype == torch.float32 else torch.uint8).view(-1)[20] = math.nan if dtype == torch.float32 else 0x7F
    else:
        want = want.round().to(torch.int64)

    def found() -> tuple[object, object]:
        honest = {"y": want.to(torch.float32) if dtype.is_floating_point else want}
        errors = honest_error.errors({"y": want}, honest)
        bound = honest_error.bounds({"y": want}, honest, errors, {"x": want})["y"]
        whole = accuracy.figures("y", got, want, 0.5, bound.nan_to_num(0.0), {"ones": torch.ones_like(want)}, rule=bound.abs(), nan=True)
        return whole, bound.nan_to_num(7.0).tolist()

    at_once = found()
    monkeypatch.setattr(pieces, "ELEMENTS", elements)
    in_pieces = found()
    assert in_pieces[1] == at_once[1]
    assert_alike(in_pieces[0], at_once[0])


def test_an_honest_evaluation_that_overflows_is_refused_for_whole_numbers_too() -> None:
    with pytest.raises(ArithmeticError, match="y overflows in float32"):
        honest_error.errors({"y": torch.tensor([1000, 2])}, {"y": torch.tensor([math.inf, 2.0])})


def test_sums_beyond_the_range_of_a_float_are_figures() -> None:
    want = 1.5e308 * torch.ones(4, 3, dtype=torch.float64)
    json.dumps(accuracy.figures("y", want, want, 0.5), allow_nan=False)
    wrong = accuracy.figures("y", torch.zeros_like(want), want, 0.5)
    json.dumps(wrong, allow_nan=False)
    assert wrong["nonfinite"] == 0 and wrong["max_abs_err"] == 1.5e308 and wrong["bad_pct"] == 100.0


@pytest.mark.parametrize("shape", [(6, 1), (1, 10), ()])
def test_a_tolerance_of_others_may_be_one_for_many_elements(shape: tuple[int, ...]) -> None:
    want = torch.ones(6, 10, dtype=torch.float64)
    assert accuracy.figures("y", want + 0.5, want, None, rule=torch.full(shape, 0.25))["max_err_over_rule"] == 2.0
    with pytest.raises(ProblemError, match=r"rule 'y' has shape \(7,\), the reference \(6, 10\)"):
        accuracy.figures("y", want, want, None, rule=torch.ones(7))


def assert_alike(one: object, other: object) -> None:
    """Check that both are equal; floats to 1e-12, since sums differ in their last bits."""
    if isinstance(one, dict) and isinstance(other, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_alike(one[key], other[key])
    elif isinstance(one, list) and isinstance(other, list):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            assert_alike(*pair)
    else:
        assert one == (pytest.approx(other, rel=1e-12) if isinstance(other, float) else other)
