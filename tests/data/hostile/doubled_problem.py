"""y = 2 x + 1, with a name for each thing that a hostile kernel may go for."""

import torch

SHAPES = {"small": {"N": 64}}


def make_inputs(shape, seed, device):
    return {"x": torch.randn(shape["N"], generator=torch.Generator().manual_seed(seed)).to(device)}


def reference(inputs):
    return 2 * inputs["x"].double() + 1
