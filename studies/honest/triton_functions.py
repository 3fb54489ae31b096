"""Honest Triton entries of 2.5 x + y in the forms that people write; the docstring says which form it is."""

import torch
import triton
import triton.language as tl


@triton.jit
def masked(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x, y = tl.load(x_ptr + at, mask=inside), tl.load(y_ptr + at, mask=inside)
    tl.store(out_ptr + at, 2.5 * x + y, mask=inside)


def _masked(x, y, block, **options):
    out = torch.empty_like(x)
    masked[(triton.cdiv(x.numel(), block),)](x, y, out, x.numel(), BLOCK=block, **options)
    return out


def tiles_64(x, y):
    """blocks of 64 elements"""
    return _masked(x, y, 64)


def tiles_1024(x, y):
    """blocks of 1024 elements"""
    return _masked(x, y, 1024)


def eight_warps(x, y):
    """eight warps a program"""
    return _masked(x, y, 512, num_warps=8)


def two_stages(x, y):
    """one warp and two stages"""
    return _masked(x, y, 128, num_warps=1, num_stages=2)


def grid_by_options(x, y):
    """a grid that is a function of the options"""
    out = torch.empty_like(x)
    masked[lambda options: (triton.cdiv(x.numel(), options["BLOCK"]),)](x, y, out, x.numel(), BLOCK=256)
    return out


@triton.jit
def with_other(x_ptr, y_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    y = tl.load(y_ptr + at, mask=inside, other=0.0)
    tl.store(out_ptr + at, tl.where(inside, scale * x + y, 0.0), mask=inside)


def masks_with_values(x, y):
    """masks with a value for what is outside, and a factor as argument"""
    out = torch.empty_like(x)
    with_other[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), 2.5, BLOCK=256)
    return out


@triton.jit
def persistent(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for first in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        at = first + tl.arange(0, BLOCK)
        inside = at < n
        tl.store(out_ptr + at, 2.5 * tl.load(x_ptr + at, mask=inside) + tl.load(y_ptr + at, mask=inside), mask=inside)


def persistent_programs(x, y):
    """a fixed grid whose programs loop"""
    out = torch.empty_like(x)
    persistent[(2,)](x, y, out, x.numel(), BLOCK=64)
    return out


@triton.jit
def line(x, y):
    return 2.5 * x + y


@triton.jit
def helped(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out_ptr + at, line(tl.load(x_ptr + at, mask=inside), tl.load(y_ptr + at, mask=inside)), mask=inside)


def helper_function(x, y):
    """a helper that is jitted too"""
    out = torch.empty_like(x)
    helped[(triton.cdiv(x.numel(), 128),)](x, y, out, x.numel(), BLOCK=128)
    return out


@triton.jit
def scaled(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, 2.5 * tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def added(y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(out_ptr + at, mask=at < n) + tl.load(y_ptr + at, mask=at < n), mask=at < n)


def two_kernels(x, y):
    """two kernels, the second on what the first wrote"""
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), 256),)
    scaled[grid](x, out, x.numel(), BLOCK=256)
    added[grid](y, out, x.numel(), BLOCK=256)
    return out
