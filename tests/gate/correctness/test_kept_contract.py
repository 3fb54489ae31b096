"""Values that the engine makes stay in the contract that an input shows: its order, its permutations, its symmetry."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gates.core.records import Status
from gates.gate.correctness import judge
from gates.gate.correctness.codes import STALE_ANSWER
from gates.gate.correctness.evidence import Case, OutputErrors
from gates.gate.correctness.runner import accuracy
from gates.gate.correctness.runner import case as casecheck
from gates.gate.correctness.runner.yardstick import Yardstick
from gates.launch.side import Launched
from gates.task import value_contract, values
from gates.task.problem import VALUES, Problem

N = 64


def drawn(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ends(seed: int) -> dict[str, torch.Tensor]:
    begin = torch.randint(0, 90, (N,), generator=drawn(seed))
    return {"begin": begin, "end": begin + torch.randint(1, 9, (N,), generator=drawn(seed + 1))}


CONTRACTS: dict[str, tuple[Any, Any]] = {  # inputs by seed; whether they are in contract
    "sorted_floats": (lambda seed: {"x": torch.randn(N, generator=drawn(seed)).sort().values}, lambda i: bool((i["x"].diff() >= 0).all())),
    "descending_rows": (
        lambda seed: {"x": torch.randn(8, 16, generator=drawn(seed)).half().sort(-1, descending=True).values},
        lambda i: bool((i["x"].diff() <= 0).all()),
    ),
    "offsets_of_each_row": (
        lambda seed: {"x": torch.randint(0, 50, (8, 6), generator=drawn(seed)).sort(-1).values},
        lambda i: bool((i["x"].diff() >= 0).all()),
    ),
    "a_permutation_a_row": (
        lambda seed: {"x": torch.stack([torch.randperm(16, generator=drawn(seed + row)) for row in range(8)])},
        lambda i: torch.equal(i["x"].sort(-1).values, torch.arange(16).expand(8, 16)),
    ),
    "two_chosen_experts": (
        lambda seed: {"x": torch.rand(32, 8, generator=drawn(seed)).topk(2).indices},
        lambda i: bool((i["x"][:, 0] != i["x"][:, 1]).all()),
    ),
    "prefix_masks": (
        lambda seed: {"x": torch.arange(16) < torch.randint(1, 16, (8, 1), generator=drawn(seed))},
        lambda i: bool((i["x"].int().diff() <= 0).all()),
    ),
    "symmetric": (lambda seed: {"x": (a := torch.randn(3, 8, 8, generator=drawn(seed))) + a.mT}, lambda i: torch.equal(i["x"], i["x"].mT)),
    "begins_and_ends": (ends, lambda i: bool((i["begin"] < i["end"]).all())),
}


def problem(make: Any, reference: Any = None) -> Problem:
    names = tuple(make(0))
    module = SimpleNamespace(
        __name__="kept",
        SHAPES={"small": {"N": N}},
        ARGUMENTS=names,
        make_inputs=lambda shape, seed, device: make(seed),
        reference=lambda inputs, shape: {
            "out": (reference or (lambda i: sum(value.double().sum() for value in i.values()).reshape(1)))(inputs)
        },
    )
    return Problem(module)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CONTRACTS)
def test_structured_and_exchanged_values_stay_in_contract(name: str) -> None:
    make, holds = CONTRACTS[name]
    one = problem(make)
    for seed in range(5):
        assert holds(make(seed)) and holds(accuracy.nudge(make(seed), one.ARGUMENTS, seed))
        for kind in values.kinds(one, {"N": N}, seed):
            assert holds(values.inputs_of(one, kind, {"N": N}, seed, "cpu")), kind


@pytest.mark.parametrize("name", ["sorted_floats", "a_permutation_a_row", "two_chosen_experts", "symmetric"])
def test_exchanged_values_are_others_all_the_same(name: str) -> None:
    make, _ = CONTRACTS[name]
    assert not torch.equal(accuracy.nudge(make(0), ("x",), 0)["x"], make(0)["x"])


@pytest.mark.parametrize(
    "value",
    [
        torch.randn(N, generator=drawn(0)),
        torch.randn(8, 8, generator=drawn(0)),
        torch.randint(0, 9, (N,), generator=drawn(0)),
        torch.randint(0, 9, (8, 8), generator=drawn(0)),
        torch.zeros(N),
        torch.rand(N, generator=drawn(0)) < 0.5,
    ],
    ids=["floats", "square", "whole", "whole_rows", "zeros", "mask"],
)
def test_random_values_keep_to_nothing_and_get_every_kind(value: torch.Tensor) -> None:
    assert not (value_contract.falls_or_rises(value) or value_contract.is_distinct(value) or value_contract.is_symmetric(value))
    found = values.kinds(problem(lambda seed: {"x": value}), {"N": N}, 0)
    assert set(found) >= ({*VALUES} - {"small"} if value.dtype.is_floating_point else {"one_hot"})


class Factor:
    """A kernel that raises for what is not positive definite, as its problem does."""

    emulated = function = True
    stream = "current"

    def __init__(self, one: Problem, raises: bool) -> None:
        self.problem, self.arguments, self.raises = one, one.ARGUMENTS, raises

    def call(self, inputs: Any, shape: Any, **_: Any) -> Launched:
        try:
            return Launched({"out": torch.linalg.cholesky(inputs["x"])}, {})
        except RuntimeError as error:
            return Launched(
                {} if self.raises else {"out": torch.full_like(inputs["x"], torch.nan)}, {}, error=str(error) if self.raises else ""
            )


@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.parametrize(
    ("inputs", "role", "status"), [("default", "headline", "ok"), ("all_equal", "fresh", "undefined"), ("zero_rows", "fresh", "undefined")]
)
def test_what_the_problem_refuses_is_no_fault_of_the_kernel(raises: bool, inputs: str, role: str, status: str) -> None:
    def make(seed: int) -> dict[str, Any]:
        a = torch.randn(16, 8, 8, generator=drawn(seed))
        return {"x": a @ a.mT + 0.5 * torch.eye(8)}

    one = problem(make, lambda i: torch.linalg.cholesky(i["x"].double()))
    case = {"shape": "small", "seed": 0, "inputs": inputs, "role": role, "orders": ["forward", "forward"], "probe": role == "headline"}
    record = casecheck.check(Factor(one, raises), case, {"reference": 1e-3}, lambda phase: None, {"max_abs_err": 1e-3}, Yardstick(one))  # type: ignore[arg-type]
    assert record["status"] == status, record["message"]


def test_a_kernel_that_refuses_what_the_problem_answers_still_fails() -> None:
    one = problem(lambda seed: {"x": torch.randn(2, 8, 8, generator=drawn(seed))}, lambda i: i["x"].double())
    case = {"shape": "small", "seed": 0, "inputs": "all_equal", "role": "fresh", "orders": ["forward"]}
    record = casecheck.check(Factor(one, True), case, {"reference": 1e-3}, lambda phase: None, {"max_abs_err": 1e-3}, Yardstick(one))  # type: ignore[arg-type]
    assert record["status"] == "launch_error"


@pytest.mark.parametrize(("lost", "status"), [(1, "ok"), (0, "problem_error")])
def test_exchanged_elements_that_overflow_in_the_problems_own_precision_are_left_out(lost: int, status: str) -> None:
    one = problem(lambda seed: {"x": torch.randn(64, 8, generator=drawn(seed))}, lambda i: i["x"].double())
    calls = iter(range(10))

    def error_bound(inputs: Any, shape: Any) -> dict[str, Any]:
        if next(calls) >= lost:
            raise ArithmeticError("out overflows in float32")
        return {"out": torch.ones(64, 8, dtype=torch.float64)}

    one.error_bound = error_bound
    kernel = Factor(one, raises=True)
    kernel.call = lambda inputs, *_, **__: Launched({"out": inputs["x"]}, {})  # type: ignore[method-assign]
    case = {"shape": "small", "seed": 0, "inputs": "default", "role": "headline", "orders": ["forward"], "probe": True}
    record = casecheck.check(kernel, case, {"reference": 1e-3}, lambda phase: None, {"max_abs_err": 1e-3}, Yardstick(one))  # type: ignore[arg-type]
    assert record["status"] == status, record["message"]
    assert status == "problem_error" or not record.get("nudged")


def test_nan_in_the_call_on_exchanged_elements_fails_whatever_the_limits() -> None:
    good = OutputErrors("out", "float32", 8, 0, 0.0, 0.0, 0.0, (0,), 1.0, 1.0, 1.0, 1.0, 2.0**-24)
    for odd, status in ((0, Status.PASS), (1, Status.FAIL)):
        case = Case("small", 0, "headline", "ok", "", outputs=(good,), nudged=(replace(good, nonfinite=odd),))
        checks = judge._errors(case, case.nudged, {"max_abs_err": 1e-3}, "exchanged_elements.", lambda _: STALE_ANSWER)
        assert (Status.FAIL if any(check.status is Status.FAIL for check in checks) else Status.PASS) is status
