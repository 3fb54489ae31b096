"""What a case takes is known before it is taken."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

from places import ROOT

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


FOLLOWED = """
import sys, torch
from types import SimpleNamespace
from gates.task import needs

def honest(inputs, shape):
    with torch.inference_mode():  # where a linear layer is one operation
        return torch.nn.functional.linear(inputs["a"], inputs["a"]).softmax(-1) / 2.0 + torch.arange(shape.get("N", 4096))

def make_inputs(shape, seed, device):
    return {"a": torch.randn(shape["N"], shape["N"], device=device)}

problem = SimpleNamespace(__name__="layer", make_inputs=make_inputs, honest=honest)
found = needs.known(problem, {"N": 4096})
assert "torch._dynamo" not in sys.modules, "torch's compiler takes seconds to import"
assert torch.compile(lambda x: x / 2.0, backend="eager")(torch.ones(2)).tolist() == [0.5, 0.5], "it is there for who needs it"
from torch.utils.flop_counter import FlopCounterMode
with torch.device("meta"), FlopCounterMode(display=False) as counted:
    honest(make_inputs({"N": 4096}, 0, "meta"), {})
print(counted.get_total_flops() > 0, found.core_s == needs._EVALUATIONS * counted.get_total_flops() / needs._FLOPS_PER_S)
"""


def test_operations_are_counted_as_torch_does_without_its_compiler() -> None:
    done = subprocess.run([sys.executable, "-c", FOLLOWED], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "True True\n", done.stderr
