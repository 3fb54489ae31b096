"""Answers that do not depend on the order of their inputs are honest tasks: sums, norms, histograms, sorts, counts."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from gates.core.records import Status
from gates.gate.correctness import judge
from gates.gate.correctness.evidence import Case, OutputErrors
from gates.gate.correctness.runner import accuracy

N = 1000
HONEST = {  # of one input x
    "sum": lambda x: x.sum().reshape(1),
    "mean": lambda x: x.mean().reshape(1),
    "norm": lambda x: x.norm().reshape(1),
    "histogram": lambda x: torch.histc(x, 32, -4, 4),
    "sort": lambda x: x.sort().values,
    "top_k": lambda x: x.topk(5).values,
    "maximum": lambda x: x.amax().reshape(1),
    "argmax": lambda x: x.argmax().reshape(1).double(),
    "rms_norm": lambda x: x / x.norm(),
    "positive": lambda x: (x > 0).sum().reshape(1).double(),
    "any_large": lambda x: (x > 3.0).sum().reshape(1).double(),
}


def problem(reference, make=None) -> SimpleNamespace:
    make = make or (lambda seed: torch.randn(N, generator=torch.Generator().manual_seed(seed)))
    return SimpleNamespace(
        ARGUMENTS=("x",),
        make_inputs=lambda shape, seed, device: {"x": make(seed)},
        reference=lambda inputs, shape: {"out": reference(inputs["x"].double())},
    )


def silent(one: SimpleNamespace, seed: int = 0) -> list[str]:
    inputs = one.make_inputs({}, seed, "cpu")
    return accuracy.silent_inputs(one, inputs, {}, seed, one.reference(inputs, {}))


@pytest.mark.parametrize("name", HONEST)
def test_an_input_whose_order_does_not_matter_is_not_ignored(name: str) -> None:
    assert silent(problem(HONEST[name])) == []


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: torch.randint(0, 40, (N,), generator=torch.Generator().manual_seed(seed)).to(torch.int32),
        lambda seed: torch.full((N,), 3, dtype=torch.int64),
    ],
    ids=["drawn", "all_equal"],
)
def test_counts_of_whole_numbers_are_not_ignored(make) -> None:
    assert silent(problem(lambda x: torch.bincount(x.long(), minlength=64).double(), make)) == []
    assert silent(problem(lambda x: x.unique().numel() * x.sum().reshape(1), make)) == []


@pytest.mark.parametrize(
    ("reference", "make"),
    [
        (lambda x: torch.ones(4), None),
        (lambda x: torch.full((4,), float(x.numel())), None),
        (lambda x: x * 2, lambda seed: torch.zeros(N)),
    ],
    ids=["constant", "size_alone", "zeros"],
)
def test_an_input_that_no_value_makes_matter_is_ignored(reference, make) -> None:
    assert silent(problem(reference, make)) == ["x"]


@pytest.mark.parametrize("name", [name for name in HONEST if name not in ("maximum", "argmax", "top_k", "any_large")])
def test_exchanged_elements_change_what_does_not_depend_on_order(name: str) -> None:
    one = problem(HONEST[name])
    inputs = one.make_inputs({}, 0, "cpu")
    changed = accuracy.nudge(inputs, ["x"], 0)
    before, after = (one.reference(given, {})["out"] for given in (inputs, changed))
    assert not torch.allclose(before, after, rtol=1e-4, atol=0.0)
    assert 2 <= int((changed["x"] != inputs["x"]).sum()) <= N // 32
    assert changed["x"][0] == inputs["x"][0] and changed["x"][-1] == inputs["x"][-1]


def test_exchanged_whole_numbers_stay_what_their_contract_may_ask_for() -> None:
    order = torch.randperm(N, generator=torch.Generator().manual_seed(0))
    offsets = torch.arange(N).cumsum(0)
    labels = torch.randint(0, 7, (N,), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    changed = accuracy.nudge({"order": order, "offsets": offsets, "labels": labels}, ["order", "offsets", "labels"], 0)
    assert torch.equal(changed["order"].sort().values, torch.arange(N)) and not torch.equal(changed["order"], order)
    assert torch.equal(changed["offsets"], offsets)
    assert set(changed["labels"].tolist()) <= set(labels.tolist())
    assert not torch.equal(torch.bincount(changed["labels"]), torch.bincount(labels))


def case(shape: str, seed: int, reference: str, inputs: str = "") -> Case:
    output = OutputErrors("out", "float32", 1, 0, 0.0, 0.0, 0.0, (0,), 1.0, 1.0, 1.0, 1.0, 2.0**-24)
    return Case(shape, seed, "headline", "ok", "", inputs_sha256=inputs or f"{shape}{seed}", reference_sha256=reference, outputs=(output,))


@pytest.mark.parametrize(
    ("answers", "weak"),
    [
        ({"small": "aab"}, False),  # a place or a count that two seeds share by chance
        ({"small": "aaa", "mission": "bcd"}, False),
        ({"small": "aaa", "mission": "bbb"}, True),
        ({"small": "aa"}, True),
        ({"small": "a", "mission": "b"}, False),  # one seed each says nothing
    ],
)
def test_a_reference_is_constant_only_where_no_seed_changes_it(answers: dict[str, str], weak: bool) -> None:
    cases = [case(shape, seed, f"{shape}{letter}") for shape, letters in answers.items() for seed, letter in enumerate(letters)]
    checks = judge._seeds(cases)
    assert [check.code for check in checks if check.status is Status.FAIL] == ["correctness.too_weak"] * weak


def test_seeds_that_give_the_same_inputs_still_fail() -> None:
    checks = judge._seeds([case("small", 0, "a", "one"), case("small", 1, "b", "one")])
    assert [check.code for check in checks] == ["correctness.same_inputs"]
