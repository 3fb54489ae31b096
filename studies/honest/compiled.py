"""An honest entry of 2.5 x + y that torch.compile makes; by itself, since that is slow to import."""

import torch


@torch.compile
def _line(x, y):
    return 2.5 * x + y


def compiled(x, y):
    """torch.compile"""
    return _line(x, y)
