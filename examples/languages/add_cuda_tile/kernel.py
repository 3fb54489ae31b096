"""Vector addition in cuda.tile: each block adds a tile of 1024 elements."""

import cuda.tile as ct
import torch

TILE = 1024


@ct.kernel
def add_kernel(x, y, out):
    block = ct.bid(0)
    left = ct.load(x, index=(block,), shape=(TILE,), padding_mode=ct.PaddingMode.ZERO)
    right = ct.load(y, index=(block,), shape=(TILE,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, index=(block,), tile=left + right)


def add(x, y):
    out = torch.empty_like(x)
    ct.launch(torch.cuda.current_stream(), (ct.cdiv(x.numel(), TILE), 1, 1), add_kernel, (x, y, out))
    return out
