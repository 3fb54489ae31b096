"""Softmax of each row of an R x C float32 matrix."""

import torch

SHAPES = {"small": {"R": 8, "C": 256}, "odd": {"R": 5, "C": 33}, "single": {"R": 1, "C": 1}, "mission": {"R": 2048, "C": 1024}}
ODD_SHAPES = ("odd", "single")
DIMS = {"R": range(1, 4097), "C": range(1, 1025)}  # softmax_vector holds a row in registers
ARGUMENTS = ("x", "out", "R", "C")


def make_inputs(shape, seed, device):
    generator = torch.Generator().manual_seed(seed)
    x = 4 * torch.randn(shape["R"], shape["C"], generator=generator)
    return {"x": x.to(device)}


def _large(shape, seed, device):
    """Values that overflow exp unless the row's maximum is taken off first."""
    return {"x": make_inputs(shape, seed, device)["x"] + 100}


INPUT_FAMILIES = {"large": _large}


def make_outputs(shape, device):
    return {"out": torch.empty(shape["R"], shape["C"], device=device)}


def reference(inputs):
    return torch.softmax(inputs["x"].double(), dim=1)


def error_bound(inputs, shape):
    """|error| <= u (2 |x - max| + C + 8) out: rounding of x - max (half an ulp), exp (2 ulp), the sum of C terms in any order, the
    division.
    """
    x = inputs["x"].double()
    below = x.max(dim=1, keepdim=True).values - x
    return {"out": 2.0**-24 * (2 * below + shape["C"] + 8) * torch.softmax(x, dim=1) + 2.0**-140}


def work(shape):
    return {"cuda.fp32": 3 * shape["R"] * shape["C"], "sfu.ex2": shape["R"] * shape["C"], "bytes": 8 * shape["R"] * shape["C"]}
