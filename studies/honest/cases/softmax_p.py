import torch

SHAPES = {"small": {"R": 8, "C": 256}, "odd": {"R": 5, "C": 33}, "single": {"R": 1, "C": 1}, "mission": {"R": 256, "C": 1024}}
ODD_SHAPES = ("odd", "single")
ARGUMENTS = ("x", "out", "R", "C")


def make_inputs(shape, seed, device):
    g = torch.Generator().manual_seed(seed)
    return {"x": (4 * torch.randn(shape["R"], shape["C"], generator=g)).to(device)}


def _large(shape, seed, device):
    return {"x": make_inputs(shape, seed, device)["x"] + 100}


INPUT_FAMILIES = {"large": _large}


def make_outputs(shape, device):
    return {"out": torch.empty(shape["R"], shape["C"], device=device)}


def reference(inputs):
    return torch.softmax(inputs["x"].double(), dim=1)


def error_bound(inputs, shape):
    x = inputs["x"].double()
    below = x.max(dim=1, keepdim=True).values - x
    return {"out": 2.0**-24 * (2 * below + shape["C"] + 8) * torch.softmax(x, dim=1) + 2.0**-140}
