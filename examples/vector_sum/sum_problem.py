"""The sum of N float32 numbers. Its order is the kernel's choice: other values change the answer, another order does not."""

import torch

SHAPES = {"small": {"N": 4096}, "odd": {"N": 1031}, "single": {"N": 1}, "mission": {"N": 1 << 20}}
ODD_SHAPES = ("odd", "single")
DIMS = {"N": range(1, (1 << 20) + 1)}
ARGUMENTS = ("x", "out", "N")


def make_inputs(shape, seed, device):
    return {"x": torch.rand(shape["N"], generator=torch.Generator().manual_seed(seed)).to(device)}


def make_outputs(shape, device):
    return {"out": torch.empty(1, device=device)}


def reference(inputs):
    return {"out": inputs["x"].double().sum().reshape(1)}


def error_bound(inputs, shape):
    """|error| <= u (256 + N / 1024) sum |x|: each of at least 1024 partial sums adds N / 1024 numbers in order, and up to 256 more sums
    bring them together.
    """
    return {"out": 2.0**-24 * (256 + shape["N"] / 1024) * inputs["x"].double().abs().sum().reshape(1) + 2.0**-140}


def work(shape):
    return {"cuda.fp32": shape["N"], "bytes": 4 * shape["N"]}
