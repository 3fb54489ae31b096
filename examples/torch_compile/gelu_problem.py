"""out = gelu(x + bias) + residual, GELU by its tanh formula, float32."""

import math

import torch

SHAPES = {"small": {"R": 8, "C": 64}, "odd": {"R": 3, "C": 33}, "mission": {"R": 1024, "C": 1024}}
ODD_SHAPES = ("odd",)
DIMS = {"R": range(1, 4097), "C": [33, 64, 1024]}  # each C is compiled for


def make_inputs(shape, seed, device):
    generator = torch.Generator().manual_seed(seed)
    x, residual = (torch.randn(shape["R"], shape["C"], generator=generator) for _ in range(2))
    bias = torch.randn(shape["C"], generator=generator)
    return {"x": x.to(device), "bias": bias.to(device), "residual": residual.to(device)}


def reference(inputs):
    x, bias, residual = (inputs[name].double() for name in ("x", "bias", "residual"))
    y = x + bias
    return 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3))) + residual


def work(shape):
    return {"cuda.fp32": 12 * shape["R"] * shape["C"], "bytes": 12 * shape["R"] * shape["C"] + 4 * shape["C"]}
