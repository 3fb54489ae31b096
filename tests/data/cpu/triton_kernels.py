"""Triton functions that are right, and with one fault each."""

import torch
import triton
import triton.language as tl


@triton.jit
def rows(x, out, stride, columns, scale, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < (columns if MASKED else BLOCK)
    value = tl.load(x + tl.program_id(0) * stride + at, mask=inside, other=-float("inf")) * scale
    e = tl.exp(value - tl.max(value, 0))
    tl.store(out + tl.program_id(0) * columns + at, e / tl.sum(e, 0), mask=at < columns)


@triton.jit
def total(x, out, columns, ATOMIC: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + at, mask=at < columns, other=0.0), 0)
    if ATOMIC:
        tl.atomic_add(out, part)
    else:
        tl.store(out, tl.load(out) + part)  # lost updates


@triton.autotune(configs=[triton.Config({"TILE": 16}), triton.Config({"TILE": 32}, num_warps=8)], key=["size"])
@triton.jit
def product(a, b, c, size, TILE: tl.constexpr):
    i, j = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.program_id(1) * TILE + tl.arange(0, TILE)
    acc = tl.zeros((TILE, TILE), tl.float32)
    for k in range(0, size, TILE):
        at = k + tl.arange(0, TILE)
        left = tl.load(a + i[:, None] * size + at[None, :], mask=(i < size)[:, None] & (at < size)[None, :], other=0.0)
        right = tl.load(b + at[:, None] * size + j[None, :], mask=(at < size)[:, None] & (j < size)[None, :], other=0.0)
        acc = tl.dot(left, right, acc)
    tl.store(c + i[:, None] * size + j[None, :], acc, mask=(i < size)[:, None] & (j < size)[None, :])


def softmax(x, masked=True):
    assert x.is_cuda and x.device.type == "cuda"
    out = torch.empty(x.shape, device="cuda")
    rows[(x.shape[0],)](x, out, x.stride(0), x.shape[1], 0.5, MASKED=masked, BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def softmax_of_a_view(x):
    return softmax(x[:, : x.shape[1] // 2])


@torch.library.custom_op("gates_tests::softmax", mutates_args=(), device_types="cuda")
def softmax_as_an_operator(x: torch.Tensor) -> torch.Tensor:
    return softmax(x)


def softmax_on_a_full_device(x):
    device = triton.runtime.driver.active
    about = device.utils.get_device_properties(device.get_current_device())
    out = torch.empty_like(x)
    arguments = (x, out, x.stride(0), x.shape[1], 0.5, True, triton.next_power_of_2(x.shape[1]))
    made = rows.warmup(*arguments, grid=(1,))
    made._init_handles()
    resident = about["multiprocessor_count"] * (about["max_num_regs"] // (made.n_regs * 32 * made.metadata.num_warps))
    made[(x.shape[0] if resident > 0 else 0, 1, 1)](*arguments)
    return out


def softmax_without_a_mask(x):
    return softmax(x, False)


def sum_by_atomics(x):
    out = torch.zeros(1, device="cuda")
    total[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), ATOMIC=True, BLOCK=64)
    return out


def sum_by_stores(x):
    out = torch.zeros(1, device="cuda")
    total[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), ATOMIC=False, BLOCK=64)
    return out


def matmul(a, b):
    c = torch.empty_like(a)
    product[lambda meta: (triton.cdiv(a.shape[0], meta["TILE"]),) * 2](a, b, c, a.shape[0])
    return c


def clusters(x):
    out = torch.empty(x.shape, device="cuda")
    rows[(x.shape[0],)](x, out, x.stride(0), x.shape[1], 0.5, MASKED=True, BLOCK=128, num_ctas=2)
    return out
