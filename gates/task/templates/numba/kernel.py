"""out = silu(x) * y, one thread per element. Change first: the kernel, then the function that launches it."""

import math

import torch
from numba import cuda


@cuda.jit
def silu_mul_kernel(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] / (1 + math.exp(-x[i])) * y[i]


def silu_mul(x, y):
    """What the gates call. It launches on torch's current stream."""
    out = torch.empty_like(x)
    stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
    silu_mul_kernel[(x.numel() + 255) // 256, 256, stream](x, y, out)
    return out
