import torch

SHAPES = {"small": {"M": 32, "N": 32, "K": 64}, "mission": {"M": 128, "N": 128, "K": 256}, "odd": {"M": 33, "N": 17, "K": 65}}
ODD_SHAPES = ("odd",)
ARGUMENTS = ("a", "b", "out", "M", "N", "K")


def make_inputs(shape, seed, device):
    g = torch.Generator().manual_seed(seed)
    a = torch.randn(shape["M"], shape["K"], generator=g)
    b = torch.randn(shape["K"], shape["N"], generator=g)
    return {"a": a.to(device), "b": b.to(device)}


def make_outputs(shape, device):
    return {"out": torch.empty(shape["M"], shape["N"], device=device)}


def reference(inputs):
    return {"out": inputs["a"].double() @ inputs["b"].double()}


def error_bound(inputs, shape):
    return {"out": 2.0**-24 * (shape["K"] + 2) * (inputs["a"].double().abs() @ inputs["b"].double().abs())}
