"""How often each of 256 values occurs among N bytes."""

import torch

SHAPES = {"small": {"N": 4096}, "odd": {"N": 1031}, "single": {"N": 1}, "mission": {"N": 1 << 18}}
ODD_SHAPES = ("odd", "single")
DIMS = {"N": range(1, (1 << 18) + 1)}
ARGUMENTS = ("x", "counts", "N")


def make_inputs(shape, seed, device):
    """Half of the bytes are below 8, so that many threads meet in few counters."""
    generator = torch.Generator().manual_seed(seed)
    wide, narrow = (torch.randint(0, most, (shape["N"],), generator=generator) for most in (256, 8))
    return {"x": torch.where(torch.rand(shape["N"], generator=generator) < 0.5, wide, narrow).to(torch.uint8).to(device)}


def make_outputs(shape, device):
    return {"counts": torch.empty(256, dtype=torch.int32, device=device)}


def reference(inputs):
    return {"counts": torch.bincount(inputs["x"].long(), minlength=256).double()}


def work(shape):
    return {"flops": shape["N"], "bytes": shape["N"] + 4 * 256}
