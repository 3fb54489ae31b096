"""Vector addition in Gluon: each program adds a block in a layout of its own choice."""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: gl.constexpr, layout: gl.constexpr):
    at = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    inside = at < n
    gl.store(out_ptr + at, gl.load(x_ptr + at, mask=inside) + gl.load(y_ptr + at, mask=inside), mask=inside)


def add(x, y):
    out = torch.empty_like(x)
    layout = gl.BlockedLayout(size_per_thread=[4], threads_per_warp=[32], warps_per_cta=[4], order=[0])
    add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024, layout=layout, num_warps=4)
    return out
