import math

import torch

SHAPES = {"small": {"R": 8, "C": 128}, "mission": {"R": 256, "C": 1024}, "odd": {"R": 7, "C": 131}}
ODD_SHAPES = ("odd",)
ARGUMENTS = ("x", "b", "out", "R", "C")


def make_inputs(shape, seed, device):
    g = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(shape["R"], shape["C"], generator=g).to(device), "b": torch.randn(shape["C"], generator=g).to(device)}


def make_outputs(shape, device):
    return {"out": torch.empty(shape["R"], shape["C"], device=device)}


def reference(inputs):
    v = inputs["x"].double() + inputs["b"].double()
    return {"out": 0.5 * v * (1 + torch.erf(v / math.sqrt(2)))}
