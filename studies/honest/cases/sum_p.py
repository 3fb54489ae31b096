import torch

SHAPES = {"small": {"N": 1000}, "mission": {"N": 1 << 17}, "odd": {"N": 1031}}
ODD_SHAPES = ("odd",)
ARGUMENTS = ("x", "out", "N")


def make_inputs(shape, seed, device):
    g = torch.Generator().manual_seed(seed)
    return {"x": torch.rand(shape["N"], generator=g).to(device)}


def make_outputs(shape, device):
    return {"out": torch.empty(1, device=device)}


def reference(inputs):
    return {"out": inputs["x"].double().sum().reshape(1)}


def error_bound(inputs, shape):
    return {"out": 2.0**-24 * 64 * inputs["x"].double().abs().sum().reshape(1)}
