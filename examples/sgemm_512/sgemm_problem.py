"""C = A B of N x N float32 matrices."""

import torch

SHAPES = {"small": {"N": 64}, "odd": {"N": 37}, "mission": {"N": 512}}
ODD_SHAPES = ("odd",)
DIMS = {"N": range(1, 1025)}


def make_inputs(shape, seed, device):
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(shape["N"], shape["N"], generator=generator) for _ in range(2))
    return {"a": a.to(device), "b": b.to(device)}


def reference(inputs):
    return inputs["a"].double() @ inputs["b"].double()


def error_bound(inputs, shape):
    """|error| <= N u |A| |B|, summed in any order (Higham, Accuracy and Stability, 3.5)."""
    return {"out": shape["N"] * 2.0**-24 * (inputs["a"].double().abs() @ inputs["b"].double().abs())}


def work(shape):
    return {"cuda.fp32": 2 * shape["N"] ** 3, "bytes": 12 * shape["N"] ** 2}
