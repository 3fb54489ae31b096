"""One shape per unit whose peak is measured, and a small one of each to check its numbers. KIND: 0 copy, 1 fma, 2 ex2, 3 tensor."""

import torch

KINDS = ("memory", "cuda.fp32", "sfu.ex2", "tensor.fp16")
TILE = 1 << 20  # different values of x at most: a generator is slower than the bus
SHAPES = {
    **{unit: {"N": n, "KIND": kind} for kind, (unit, n) in enumerate(zip(KINDS, (7 << 23, 1 << 22, 1 << 22, 1 << 21), strict=True))},
    **{f"small.{unit}": {"N": 256 if kind else 4096, "KIND": kind} for kind, unit in enumerate(KINDS)},
}
ARGUMENTS = ("x", "out", "N", "KIND")
PER_THREAD = 8 * 512  # kChains * kRounds of calibration.cu
PRODUCTS = 64  # kProducts of calibration.cu, on average
FIXED_POINT = 0.6411857445049860  # of 2^-x


def make_inputs(shape, seed, device):
    values = torch.rand(min(TILE, shape["N"]), generator=torch.Generator().manual_seed(seed))
    return {"x": values.repeat(shape["N"] // values.numel()).to(device)}


def make_outputs(shape, device):
    return {"out": torch.empty(shape["N"], device=device)}


def reference(inputs, shape):
    x = inputs["x"]
    return {"out": x.double() + (2.0, FIXED_POINT, PRODUCTS / 16)[shape["KIND"] - 1] if shape["KIND"] else x}


def work(shape):
    """Of the tensor kernel a warpgroup of 128 threads makes PRODUCTS products of 64 x 16 and 16 x 256 matrices, on average."""
    threads, kind = shape["N"], shape["KIND"]
    operations = (None, 2 * PER_THREAD, PER_THREAD, PRODUCTS * 2 * 64 * 256 * 16 / 128)[kind]
    return {"bytes": 8 * threads} | ({KINDS[kind]: operations * threads} if kind else {})
