"""A problem for timing on a device: y = x, reached by a chain of multiply-adds."""

import torch

SHAPES = {"wide": {"count": 128 * 128}}
ARGUMENTS = ("x", "y", "count", "a", "b")


def make_inputs(shape, seed, device):
    x = torch.randn(shape["count"], generator=torch.Generator().manual_seed(seed)).to(device)
    return {"x": x, "a": 1.0, "b": 0.0}


def make_outputs(shape, device):
    return {"y": torch.empty(shape["count"], device=device)}


def reference(inputs, shape):
    return {"y": inputs["x"].to(torch.float64)}


def work(shape):
    return {"flops": 2.0 * shape["count"], "bytes": 8.0 * shape["count"]}


def backends(inputs, shape):
    return {"torch copy": inputs["x"].clone}
