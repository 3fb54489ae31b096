"""out = x, N floats. `large` is twenty times the L2 cache of an H200, so that what stays in it is little."""

import torch

SHAPES = {"small": {"N": 10_000}, "mission": {"N": 1 << 20}, "single": {"N": 1}, "odd": {"N": 4097}, "large": {"N": 1 << 27}}
ODD_SHAPES = ("single", "odd")
DIMS = {"N": range(1, (1 << 27) + 1)}
DIFFERENT = 1 << 21  # values, which repeat: a generator is slower than the bus
ARGUMENTS = ("x", "out", "N")


def make_inputs(shape, seed, device):
    values = torch.randn(min(DIFFERENT, shape["N"]), generator=torch.Generator().manual_seed(seed))
    return {"x": values.repeat(-(-shape["N"] // DIFFERENT))[: shape["N"]].to(device)}


def make_outputs(shape, device):
    return {"out": torch.empty(shape["N"], device=device)}


def reference(inputs):
    return inputs["x"].double()


def error_bound(inputs, shape):
    return {"out": torch.zeros(shape["N"], dtype=torch.float64)}


def work(shape):
    return {"bytes": 8 * shape["N"]}
