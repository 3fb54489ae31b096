"""out = a x + y over N floats."""

import torch

SHAPES = {"small": {"N": 1000}, "large": {"N": 1 << 18}}
DIMS = {"N": range(1, (1 << 18) + 1)}
ARGUMENTS = ("x", "y", "out", "N", "a")


def make_inputs(shape, seed, device):
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(shape["N"], generator=generator) for _ in range(2))
    return {"x": x.to(device), "y": y.to(device), "a": 2.5}


def make_outputs(shape, device):
    return {"out": torch.empty(shape["N"], device=device)}


def reference(inputs, shape):
    return {"out": inputs["a"] * inputs["x"].double() + inputs["y"].double()}
