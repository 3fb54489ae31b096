"""RMSNorm of each row: out = x / sqrt(mean(x^2) + 1e-6) * weight, float32."""

import torch

SHAPES = {"small": {"R": 4, "C": 512}, "odd": {"R": 3, "C": 100}, "mission": {"R": 1024, "C": 2048}}
ODD_SHAPES = ("odd",)
DIMS = {"R": range(1, 4097), "C": range(1, 4097)}


def make_inputs(shape, seed, device):
    generator = torch.Generator().manual_seed(seed)
    x, weight = torch.randn(shape["R"], shape["C"], generator=generator), torch.randn(shape["C"], generator=generator)
    return {"x": x.to(device), "weight": weight.to(device)}


def reference(inputs):
    x = inputs["x"].double()
    return x * torch.rsqrt(x.square().mean(dim=1, keepdim=True) + 1e-6) * inputs["weight"].double()


def error_bound(inputs, shape):
    """|error| <= u (C / 2 + 8) |out|: the sum of C squares in any order (the root halves it), division, root and two products."""
    return {"out": 2.0**-24 * (shape["C"] / 2 + 8) * reference(inputs).abs() + 2.0**-140}


def work(shape):
    return {"cuda.fp32": 4 * shape["R"] * shape["C"], "bytes": 8 * shape["R"] * shape["C"] + 4 * shape["C"]}
