"""Functions whose kernels are Numba-CUDA's: right ones, and one for each fault that the emulator must find."""

import torch
from numba import cuda, float32

THREADS = 128


@cuda.jit
def saxpy_kernel(a, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


def saxpy(x, y):
    out = torch.empty_like(x)
    stream = cuda.external_stream(torch.cuda.current_stream().cuda_stream)
    saxpy_kernel[(x.numel() + THREADS - 1) // THREADS, THREADS, stream](1.5, x, y, out)
    return out


def saxpy_for_all(x, y):
    out = cuda.device_array_like(x)
    saxpy_kernel.forall(x.numel())(1.5, cuda.as_cuda_array(x), y, out)
    return out


@cuda.jit("void(float32[:, :], float32[:, :])")
def transpose_kernel(x, out):
    row, column = cuda.grid(2)
    if row < x.shape[0] and column < x.shape[1]:
        out[column, row] = x[row, column]


def transpose_of_a_view(x):
    x = x.reshape(40, 25)[:, :20]
    out = torch.empty(20, 40, device=x.device)
    transpose_kernel[(5, 3), (8, 8)](x, out)
    return out


def block_sum(synchronises):
    """A kernel that adds each block's elements in shared memory, and the blocks' sums by atomics."""

    @cuda.jit
    def sum_kernel(x, out):
        partial = cuda.shared.array(THREADS, float32)
        t, i = cuda.threadIdx.x, cuda.grid(1)
        partial[t] = x[i] if i < x.size else 0.0
        cuda.syncthreads()
        step = THREADS // 2
        while step > 0:
            if t < step:
                partial[t] += partial[t + step]  # what another warp wrote
            if synchronises:
                cuda.syncthreads()
            step //= 2
        if t == 0:
            cuda.atomic.add(out, 0, partial[0])

    def total(x):
        out = torch.zeros(1, device=x.device)
        sum_kernel[(x.numel() + THREADS - 1) // THREADS, THREADS](x, out)
        return out

    return total


sum_by_atomics = block_sum(True)
sum_without_a_barrier = block_sum(False)


@cuda.jit
def dynamic_kernel(x, out):
    kept = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    kept[t] = x[t]
    cuda.syncthreads()
    out[t] = kept[cuda.blockDim.x - 1 - t]


def reverse_in_dynamic_shared_memory(x):
    out = torch.empty_like(x[:64])
    dynamic_kernel[1, 64, 0, 64 * 4](x, out)
    return out


@cuda.jit
def unguarded_kernel(x, out):
    i = cuda.grid(1)
    out[i] = 2 * x[i]  # past the end


def double_without_a_bound(x):
    out = torch.empty_like(x)
    unguarded_kernel[(x.numel() + THREADS - 1) // THREADS, THREADS](x, out)
    return out


@cuda.jit
def lost_kernel(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0] += x[i]  # lost updates


def sum_by_stores(x):
    out = torch.zeros(1, device=x.device)
    lost_kernel[(x.numel() + THREADS - 1) // THREADS, THREADS](x, out)
    return out


@cuda.jit
def half_kernel(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + x[i]


def double_halves(x):
    x = x.half()
    out = torch.empty_like(x)
    half_kernel[(x.numel() + THREADS - 1) // THREADS, THREADS](x, out)
    return out.float()


@cuda.jit
def half_a_barrier_kernel(x, out):
    kept = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    kept[t] = x[t]
    if t < 32:
        cuda.syncthreads()
    out[t] = kept[63 - t]  # of the other warp


def barrier_of_some(x):
    out = torch.empty_like(x[:64])
    half_a_barrier_kernel[1, 64](x, out)
    return out


@cuda.jit
def all_kernel(out):
    cuda.cg.this_grid().sync()
    out[0] = 1


def all_blocks_at_once(x):
    out = torch.zeros(1, device=x.device)
    all_kernel[2, 32](out)
    return out
