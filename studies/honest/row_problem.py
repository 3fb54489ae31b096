"""out[r] = sum over c of x[r, c], R rows of C floats."""

import torch

SHAPES = {"small": {"R": 6, "C": 100}, "tail": {"R": 3, "C": 33}, "mission": {"R": 4096, "C": 1024}}
ODD_SHAPES = ("tail",)
DIMS = {"R": range(1, 4097), "C": range(1, 1025)}
ARGUMENTS = ("x", "out", "R", "C")


def make_inputs(shape, seed, device):
    return {"x": torch.randn(shape["R"], shape["C"], generator=torch.Generator().manual_seed(seed)).to(device)}


def make_outputs(shape, device):
    return {"out": torch.empty(shape["R"], device=device)}


def reference(inputs, shape):
    return {"out": inputs["x"].double().sum(dim=1)}


def error_bound(inputs, shape):
    """Any order of C additions: each of at most C - 1 roundings takes 2^-24 of a partial sum, which the sum of magnitudes bounds."""
    return {"out": shape["C"] * 2.0**-24 * inputs["x"].double().abs().sum(dim=1) + 2.0**-149}
