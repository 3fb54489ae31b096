import math

import torch

"""Scores with a mask: masked places are -inf, as attention's own masks are. The exact answer holds -inf."""
SHAPES = {"small": {"R": 8, "C": 256}, "odd": {"R": 5, "C": 33}, "mission": {"R": 256, "C": 1000}}
ODD_SHAPES = ("odd",)
ARGUMENTS = ("x", "mask", "out", "R", "C")


def make_inputs(shape, seed, device):
    g = torch.Generator().manual_seed(seed)
    return {
        "x": torch.randn(shape["R"], shape["C"], generator=g).to(device),
        "mask": (torch.rand(shape["R"], shape["C"], generator=g) < 0.3).to(torch.uint8).to(device),
    }


def make_outputs(shape, device):
    return {"out": torch.empty(shape["R"], shape["C"], device=device)}


def reference(inputs):
    return {"out": inputs["x"].double().masked_fill(inputs["mask"].bool(), -math.inf)}
