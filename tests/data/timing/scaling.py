"""A problem for the timing tests: y = 2 x."""

import torch

SHAPES = {"tiny": {"count": 64}, "more": {"count": 200}}
ARGUMENTS = ("x", "y", "count")


def make_inputs(shape, seed, device):
    return {"x": torch.randn(shape["count"], generator=torch.Generator().manual_seed(seed)).to(device)}


def make_outputs(shape, device):
    return {"y": torch.empty(shape["count"], device=device)}


def reference(inputs, shape):
    return {"y": inputs["x"].to(torch.float64) * 2}


def work(shape):
    return {"flops": shape["count"], "bytes": 8 * shape["count"]}


def backends(inputs, shape):
    def broken():
        raise NotImplementedError("no kernel for this shape")

    return {"torch": lambda: inputs["x"] * 2, "broken": broken}
