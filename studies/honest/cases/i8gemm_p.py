import torch

SHAPES = {"small": {"M": 32, "N": 32, "K": 64}, "mission": {"M": 64, "N": 64, "K": 256}, "odd": {"M": 33, "N": 17, "K": 68}}
ODD_SHAPES = ("odd",)
ARGUMENTS = ("a", "b", "out", "M", "N", "K")


def make_inputs(shape, seed, device):
    g = torch.Generator().manual_seed(seed)
    a = torch.randint(-128, 128, (shape["M"], shape["K"]), generator=g, dtype=torch.int8)
    b = torch.randint(-128, 128, (shape["N"], shape["K"]), generator=g, dtype=torch.int8)
    return {"a": a.to(device), "b": b.to(device)}


def make_outputs(shape, device):
    return {"out": torch.empty(shape["M"], shape["N"], dtype=torch.int32, device=device)}


def reference(inputs):
    return {"out": inputs["a"].double() @ inputs["b"].double().t()}
