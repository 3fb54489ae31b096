"""out = x + y, N float32 numbers: one problem for every kernel language."""

import torch

SHAPES = {"small": {"N": 4096}, "odd": {"N": 1031}, "single": {"N": 1}, "mission": {"N": 1 << 20}}
ODD_SHAPES = ("odd", "single")
DIMS = {"N": range(1, (1 << 20) + 1)}


def make_inputs(shape, seed, device):
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(shape["N"], generator=generator) for _ in range(2))
    return {"x": x.to(device), "y": y.to(device)}


def reference(inputs):
    return inputs["x"].double() + inputs["y"].double()


def error_bound(inputs, shape):
    """One rounding to float32."""
    return {"out": 2.0**-24 * reference(inputs).abs() + 2.0**-149}


def work(shape):
    return {"cuda.fp32": shape["N"], "bytes": 12 * shape["N"]}
