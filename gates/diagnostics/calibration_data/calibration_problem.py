"""One shape per unit whose peak is measured, and a small one of each to check its numbers. KIND: 0 copy, 1 fma, 2 ex2, 3 mma."""

import torch

KINDS = ("memory", "cuda.fp32", "sfu.ex2", "tensor.fp16")
SHAPES = {
    **{unit: {"N": 1 << 27 if unit == "memory" else 1 << 23, "KIND": kind} for kind, unit in enumerate(KINDS)},
    **{f"small.{unit}": {"N": 2048, "KIND": kind} for kind, unit in enumerate(KINDS)},
}
ARGUMENTS = ("x", "out", "N", "KIND")
PER_THREAD = 8 * 128  # kChains * kRounds of calibration.cu
FIXED_POINT = 0.6411857445049860  # of 2^-x


def make_inputs(shape, seed, device):
    return {"x": torch.rand(shape["N"], generator=torch.Generator().manual_seed(seed)).to(device)}


def make_outputs(shape, device):
    return {"out": torch.empty(shape["N"], device=device)}


def reference(inputs, shape):
    return {"out": inputs["x"].double() + (0.0, 2.0, FIXED_POINT, 128 / 16)[shape["KIND"]]}


def work(shape):
    """Of mma a warp of 32 threads makes a product of 16 x 8 x 16."""
    threads, kind = shape["N"], shape["KIND"]
    operations = (None, 2 * PER_THREAD, PER_THREAD, 2 * 16 * 8 * 16 * PER_THREAD / 32)[kind]
    return {"bytes": 8 * threads} | ({KINDS[kind]: operations * threads} if kind else {})
