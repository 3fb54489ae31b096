import torch

SHAPES = {"small": {"S": 64, "D": 64}, "mission": {"S": 4096, "D": 64}, "odd": {"S": 33, "D": 30}}
ODD_SHAPES = ("odd",)
ARGUMENTS = ("x", "freq", "out", "S", "D")


def make_inputs(shape, seed, device):
    g = torch.Generator().manual_seed(seed)
    half = shape["D"] // 2
    freq = (10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)).float()
    return {"x": torch.randn(shape["S"], shape["D"], generator=g).to(device), "freq": freq.to(device)}


def make_outputs(shape, device):
    return {"out": torch.empty(shape["S"], shape["D"], device=device)}


def reference(inputs):
    x = inputs["x"].double()
    half = x.shape[1] // 2
    angle = (torch.arange(x.shape[0], dtype=torch.float32)[:, None] * inputs["freq"].cpu().float()[None]).double().to(x.device)
    c, s = angle.cos(), angle.sin()
    a, b = x[:, :half], x[:, half:]
    return {"out": torch.cat([a * c - b * s, b * c + a * s], 1)}
