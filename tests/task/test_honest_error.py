"""Error bounds from an honest evaluation: wide enough for honest kernels, and of no other width."""

from __future__ import annotations

import itertools

import pytest
import torch

from gates.task import honest_error
from gates.task.precision import DOUBLE, SINGLE, InPrecision, SingleSums, exactly


def bound(exact: torch.Tensor, honest: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
    counted = honest_error.errors({"out": exact}, {"out": honest})
    return honest_error.bounds({"out": exact}, {"out": honest}, counted, inputs)["out"]


def test_an_exact_evaluation_leaves_a_few_units_in_the_last_place() -> None:
    exact = torch.tensor([0.0, 1.0, -8.0], dtype=torch.float64)
    assert bound(exact, exact.float()).tolist() == pytest.approx([4 * 2.0**-23, 8 * 2.0**-23, 36 * 2.0**-23], abs=1e-30)


def test_small_elements_are_judged_by_the_errors_of_small_ones() -> None:
    torch.manual_seed(0)
    exact = torch.cat([torch.rand(1000, dtype=torch.float64) + 1.0, 1e6 * (torch.rand(1000, dtype=torch.float64) + 1.0)])
    allowed = bound(exact, exact.float())
    assert float(allowed[:1000].max()) < 1e-5 < float(allowed[1000:].min())
    largest, rounding = float((exact - exact.float()).abs()[:1000].max()), 4 * 2.0**-23 * float(exact[0] + exact.median())
    assert float(allowed[0]) == pytest.approx(20 * largest + rounding)


def test_another_formula_may_round_at_the_size_of_the_outputs() -> None:
    x = torch.linspace(-3, 3, 4096)
    allowed = bound(x.double().tanh(), x.tanh())
    other = (1 - 2 / (torch.exp(2 * x) + 1)).double() - x.double().tanh()
    assert float((other.abs() / allowed).max()) < 1.0 < float((2e-6 / allowed).max())


def test_a_long_sum_may_be_added_up_one_after_the_other() -> None:
    torch.manual_seed(0)
    values = torch.randn(1, 65536)
    exact, honest = values.double().sum(1), values.sum(1)
    one_by_one = torch.zeros(1)
    for value in values[0]:
        one_by_one += value
    assert float((one_by_one.double() - exact).abs() / bound(exact, honest, x=values)) < 1.0


def test_a_rule_that_every_element_must_keep_narrows_the_bound() -> None:
    torch.manual_seed(0)
    exact = torch.randn(4096, dtype=torch.float64)
    honest = {"out": exact.bfloat16()}
    counted = honest_error.errors({"out": exact}, honest)

    def share_within(answer: torch.Tensor, rule: float | None) -> float:
        rules = {} if rule is None else {"out": (rule * exact.abs()).clamp(min=rule)}
        bound = honest_error.bounds({"out": exact}, honest, counted, {}, rules)["out"]
        return float(((answer - exact).abs() <= bound).double().mean())

    scaled = (1.03 * exact).bfloat16().double()
    assert share_within(scaled, None) == 1.0 > share_within(scaled, 1e-2)
    for rule in (1e-2, 1e-9):  # an honest answer keeps any, also one that is narrower than the format
        assert share_within(honest["out"].double(), rule) == 1.0
        assert share_within(exact.float().bfloat16().double(), rule) == 1.0


def test_a_running_sum_may_be_added_up_in_float32() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 4099)
    exact = x.double().cumsum(1)
    with SingleSums():
        honest = torch.cumsum(x, dim=1)
        assert x.cumsum(1).equal(honest) and x.clone().cumsum_(1).equal(honest) and torch.cumsum(x.t(), 0).t().equal(honest)
        assert x.double().cumsum(1).equal(exact) and x.half().cumsum(1).dtype is torch.float16
        assert torch.cumprod(x[:, :9], 1)[:, -1].tolist() == pytest.approx(x[:, :9].prod(1).tolist())
    assert float((honest - exact).abs().max()) > float((x.cumsum(1) - exact).abs().max())
    blocks, carry = [], torch.zeros(3, 1)  # as kernels do: blocks one after the other
    for block in x.split(64, 1):
        with SingleSums():
            blocks.append(block.cumsum(1) + carry)
        carry = blocks[-1][:, -1:]
    of_kernel = torch.cat(blocks, 1).double()
    assert float(((of_kernel - exact).abs() / bound(exact, honest)).max()) < 1.0
    with SingleSums():
        same = torch.full((1023,), 0.1).cumsum(0)
    assert same.tolist() == list(itertools.accumulate(torch.full((1023,), 0.1).numpy()))  # each rounded the same way
    assert float(((x.half().cumsum(1).double() - exact).abs() / bound(exact, honest)).max()) > 1.0


def test_whole_numbers_are_the_exact_or_the_honest_ones() -> None:
    assert bound(torch.tensor([3.0, 5.0], dtype=torch.float64), torch.tensor([3, 4])).tolist() == [0.0, 1.0]


def test_an_evaluation_that_overflows_is_no_measure() -> None:
    with pytest.raises(ArithmeticError, match="out overflows in float16"):
        bound(torch.tensor([1e6], dtype=torch.float64), torch.tensor([1e6]).half())


def test_code_that_names_a_precision_runs_in_another_one() -> None:
    x, weight = torch.rand(4).half(), torch.rand(4)
    with exactly():
        found = (x.to(torch.float32) * weight).to(x.dtype) + torch.ones(4)
        kept = x.to(torch.float8_e4m3fn)
    assert found.dtype is torch.float64 and torch.equal(found, x.double() * weight.double() + 1)
    assert kept.dtype is torch.float8_e4m3fn and torch.get_default_dtype() is torch.float32
    with InPrecision(SINGLE), torch.no_grad():
        assert (x.double() + weight.to(torch.float64)).dtype is torch.float32
    with InPrecision(DOUBLE):
        weight.add_(1.0)
    assert weight.dtype is torch.float32 and float(weight.min()) >= 1.0, "what is written into keeps its format"
