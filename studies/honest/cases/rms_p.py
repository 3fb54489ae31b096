import torch

EPS = 1e-5
SHAPES = {"small": {"R": 4, "D": 256}, "mission": {"R": 128, "D": 1024}, "odd": {"R": 3, "D": 100}}
ODD_SHAPES = ("odd",)
ARGUMENTS = ("x", "w", "out", "R", "D")


def make_inputs(shape, seed, device):
    g = torch.Generator().manual_seed(seed)
    return {
        "x": torch.randn(shape["R"], shape["D"], generator=g).half().to(device),
        "w": (1 + 0.1 * torch.randn(shape["D"], generator=g)).half().to(device),
    }


def make_outputs(shape, device):
    return {"out": torch.empty(shape["R"], shape["D"], dtype=torch.float16, device=device)}


def reference(inputs):
    x = inputs["x"].double()
    return {"out": x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + EPS) * inputs["w"].double()}
