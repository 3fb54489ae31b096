"""The names of a problem's inputs are known without drawing large ones."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch

from gates.task.problem import Problem


def module(make: Any, size: int) -> ModuleType:
    found = ModuleType("p")
    found.SHAPES, found.make_inputs, found.reference = {"given": {"N": size}}, make, lambda inputs: {}  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize(("size", "devices"), [(2**22, ["cpu"]), (2**30, ["meta"])])
def test_large_inputs_are_not_drawn(size: int, devices: list[str]) -> None:
    asked: list[str] = []

    def make(shape: dict[str, int], seed: int, device: str) -> dict[str, Any]:
        asked.append(device)
        return {"x": torch.empty(shape["N"], device=device), "scale": 2.0}

    assert Problem(module(make, size)).ARGUMENTS == ("x", "scale") and asked == devices


def test_a_problem_that_needs_values_has_them_drawn() -> None:
    def make(shape: dict[str, int], seed: int, device: str) -> dict[str, Any]:
        x = torch.ones(3, device=device)
        return {"x": x, "whole": int(x.sum())}  # nothing is known of a sum without values

    assert Problem(module(make, 2**30)).ARGUMENTS == ("x", "whole")
