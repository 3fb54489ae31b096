"""Vector addition in the CuTe DSL: one thread per element."""

import cuda.bindings.driver as driver
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

THREADS = 256


@cute.kernel
def add_kernel(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * THREADS + thread
    if i < cute.size(out):
        out[i] = x[i] + y[i]


@cute.jit
def launch(x: cute.Tensor, y: cute.Tensor, out: cute.Tensor, stream: driver.CUstream):
    add_kernel(x, y, out).launch(grid=[cute.ceil_div(cute.size(out), THREADS), 1, 1], block=[THREADS, 1, 1], stream=stream)


def add(x, y):
    out = torch.empty_like(x)
    tensors = [from_dlpack(tensor).mark_layout_dynamic() for tensor in (x, y, out)]
    launch(*tensors, driver.CUstream(torch.cuda.current_stream().cuda_stream))
    return out
