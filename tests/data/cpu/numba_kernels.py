"""Functions whose kernels are Numba-CUDA's: right ones, and one for each fault that the emulator must find."""

import numpy as np
import torch
from numba import cuda, float32

THREADS, TILE = 128, 16
SEVEN = np.full(8, 7, np.float32)


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


def arrays_of_numba(x, y):
    there = cuda.to_device(x.cpu().numpy())
    out = cuda.device_array(x.shape, np.float32)
    saxpy_kernel[(x.numel() + THREADS - 1) // THREADS, THREADS](1.5, there, y, out)
    return torch.as_tensor(out.copy_to_host(), device=y.device)


def arrays_that_are_filled(x, y):
    there = cuda.to_device(x.cpu(), to=cuda.device_array(x.shape, x.dtype))
    out, host = cuda.device_array(x.shape, x.dtype), np.empty(x.shape, np.float32)
    saxpy_kernel[(x.numel() + THREADS - 1) // THREADS, THREADS](1.5, there, y, out)
    out.copy_to_host(host)
    return torch.as_tensor(host, device=y.device)


@cuda.jit(fastmath=True)
def matmul_kernel(a, b, c):
    left, right = cuda.shared.array((TILE, TILE), float32), cuda.shared.array((TILE, TILE), float32)
    column, row = cuda.grid(2)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for k in range(0, a.shape[1], TILE):
        left[j, i] = a[row, k + i] if row < a.shape[0] and k + i < a.shape[1] else 0
        right[j, i] = b[k + j, column] if k + j < b.shape[0] and column < b.shape[1] else 0
        cuda.syncthreads()
        for step in range(TILE):
            total += left[j, step] * right[step, i]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


def matmul(x):
    a, b = x[:600].reshape(20, 30), x[:750].reshape(30, 25)
    c = torch.empty(20, 25, device=x.device)
    matmul_kernel[(2, 2), (TILE, TILE)](a, b, c)
    return c


@cuda.jit
def shuffle_kernel(x, out):
    i = cuda.grid(1)
    value = x[i] + cuda.const.array_like(SEVEN)[i % 8] if i < x.size else float32(0)
    step = 16
    while step > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
        step //= 2
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, value)


def shuffles_and_constants(x):
    out = torch.zeros(1, device=x.device)
    shuffle_kernel[(x.numel() + THREADS - 1) // THREADS, THREADS](x, out)
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
def half_to_float_kernel(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = float32(x[i]) * 2


def halves_as_floats(x):
    out = torch.empty_like(x)
    half_to_float_kernel[(x.numel() + THREADS - 1) // THREADS, THREADS](x.half(), out)
    return out


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
def half_a_warp_kernel(out):
    if cuda.threadIdx.x < 16:
        cuda.syncthreads()  # of half a warp
    out[0] = 1


def barrier_of_half_a_warp(x):
    out = torch.zeros(1, device=x.device)
    half_a_warp_kernel[1, 64](out)
    return out


@cuda.jit
def all_kernel(out):
    cuda.cg.this_grid().sync()
    out[0] = 1


def all_blocks_at_once(x):
    out = torch.zeros(1, device=x.device)
    all_kernel[2, 32](out)
    return out


def with_two_arguments_of_four(x):
    saxpy_kernel[1, 64](1.5, x)
    return x


def without_a_launch_configuration(x):
    saxpy_kernel(1.5, x, x, x)
    return x


def on_a_part_of_a_block(x):
    saxpy_kernel[x.numel() / 64, 64](1.5, x, x, x)
    return x


def doubled_on_a_stream_of_numba(x):
    out, stream = torch.empty_like(x), cuda.stream()
    with stream.auto_synchronize():
        saxpy_kernel[(x.numel() + THREADS - 1) // THREADS, THREADS, stream](1.0, x, x, out)
    return out


def memory_of_the_host(x):
    return cuda.pinned_array(64, np.float32)
