"""out = x, N floats."""

import torch

SHAPES = {"small": {"N": 10_000}, "mission": {"N": 1 << 20}, "single": {"N": 1}, "odd": {"N": 4097}, "large": {"N": 1 << 26}}
ODD_SHAPES = ("single", "odd")
DIMS = {"N": range(1, (1 << 26) + 1)}
ARGUMENTS = ("x", "out", "N")


def make_inputs(shape, seed, device):
    return {"x": torch.randn(shape["N"], generator=torch.Generator().manual_seed(seed)).to(device)}


def make_outputs(shape, device):
    return {"out": torch.empty(shape["N"], device=device)}


def reference(inputs):
    return inputs["x"].double()


def error_bound(inputs, shape):
    return {"out": torch.zeros(shape["N"], dtype=torch.float64)}


def work(shape):
    return {"bytes": 8 * shape["N"]}
