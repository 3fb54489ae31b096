"""What a case takes is known before it is taken."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gates.task import needs


def product(inputs: dict[str, Any], _: Any) -> dict[str, Any]:
    return {"out": inputs["a"] @ inputs["a"]}


def square(shape: dict[str, int], seed: int, device: str) -> dict[str, Any]:
    import torch

    return {"a": torch.empty(shape["N"], shape["N"], device=device)}


def test_one_size_may_be_the_side_of_a_matrix() -> None:
    problem: Any = SimpleNamespace(__name__="square", make_inputs=square, honest=product)
    found = needs.known(problem, {"N": 4096})
    assert found is not None and found.core_s == 6 * 2 * 4096**3 / 2e9, "N alone is a small number"
    assert "s are allowed" in needs.refusal(problem, {"N": 4096}, 1)
    assert needs.known(problem, {"N": 64}) is None, "a small problem is not followed"
    assert needs.known(problem, {"N": 64}, small=True) is not None, "but where the estimate is written down: its sizes may say little"
