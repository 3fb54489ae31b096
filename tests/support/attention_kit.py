"""Shared by the tests of kernels/attention.py: its kernels on the emulator, calls in every layout, and what rounding explains."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from conftest import OnceASession
from defects.combined import compile_patched
from defects.record import Defect
from fp16_kit import V9, V10, V11, unpatched

from gates.launch.emulated_kernel import EmulatedKernel
from kernels import loader
from kernels.attention import Attention
from tasks.problems import sdpa
from tasks.problems.sdpa_bound import BFLOAT16, HALF, bound
from tasks.problems.sdpa_fp16_operator import GENERAL_ENTRY, emulated

# Small tiles, of which few keys need several. SPLIT: warps share out the keys. WHOLE: each has all of its rows'.
SPLIT = {"TILE_M": 32, "TILE_N": 64, "NUM_WARPS": 4, "STRIPS": 1, "STAGES": 2}
WHOLE = {"TILE_M": 32, "TILE_N": 32, "NUM_WARPS": 2, "STRIPS": 1, "STAGES": 2}
BUILDS = {
    "v9 split": (V9, SPLIT),
    "v9 whole": (V9, WHOLE),
    "v10": (V10, {"TILE_M": 64, "TILE_N": 64, "STAGES": 3}),
    "v11": (V11, {"TILE_M": 64, "TILE_N": 64, "STAGES": 2}),
}


def general(build: str, dtype: torch.dtype) -> Defect:
    """A build as it is, for tensors of ``dtype``."""
    rung, tiles = BUILDS[build]
    return unpatched(rung, **tiles, **loader.defines(dtype))


def compiled(kept: OnceASession, name: str, tried: Sequence[Defect], entry: str = GENERAL_ENTRY) -> list[EmulatedKernel]:
    """The kernels of ``tried``; those of Hopper in a library of their own."""
    found = {}
    for hopper in (False, True):
        own = [defect for defect in tried if (defect.stage != V9) == hopper]
        if own:
            folder = kept(f"{name}_hopper" if hopper else name, functools.partial(compile_patched, own))
            found |= {id(defect): EmulatedKernel(folder / "patched.so", f"{entry}_{number}") for number, defect in enumerate(own)}
    return [found[id(defect)] for defect in tried]


def attention_of(name: str, kernel: EmulatedKernel) -> Attention:
    """The operator ``kernel_gates::NAME``, whatever the shape, by ``kernel``."""
    return emulated(f"kernel_gates::{name}", lambda *_: kernel)


@dataclass(frozen=True)
class Case:
    """A call. ``layout``: "bhsd" and "bshd" name the order in memory, "packed" is one tensor of Q, K and V [B, S, heads, D];
    of "mixed" V alone has the order "bshd".
    """

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    width: int = 64
    causal: bool = False
    layout: str = "bhsd"

    def __str__(self) -> str:
        sizes = f"b{self.batch}h{self.heads}-{self.kv_heads}q{self.queries}k{self.keys}d{self.width}"
        return sizes + "c" * self.causal + f"-{self.layout}"

    def tensors(self, dtype: torch.dtype, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """q, k and v, N(0, 1)."""
        draw = torch.Generator().manual_seed(3)
        counts = (self.heads, self.kv_heads, self.kv_heads)
        if self.layout == "packed":
            assert self.queries == self.keys
            packed = torch.randn((self.batch, self.keys, sum(counts), self.width), generator=draw).to(device, dtype)
            q, k, v = (part.transpose(1, 2) for part in packed.split(counts, dim=2))
            return q, k, v
        found = []
        for name, heads, rows in zip("qkv", counts, (self.queries, self.keys, self.keys), strict=True):
            values = torch.randn((self.batch, heads, rows, self.width), generator=draw).to(device, dtype)
            turned = self.layout == "bshd" or (self.layout == "mixed" and name == "v")
            found.append(values.transpose(1, 2).contiguous().transpose(1, 2) if turned else values)
        return found[0], found[1], found[2]


def over_bounds(
    out: torch.Tensor, lse: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float
) -> float:
    """The largest error of ``out`` and ``lse`` over what rounding explains; infinite if a value is not finite."""
    if not (torch.isfinite(out).all() and torch.isfinite(lse).all()):
        return float("inf")
    group = q.shape[1] // k.shape[1]
    arithmetic = HALF if q.dtype == torch.float16 else BFLOAT16
    q, k, v = (tensor.cpu().double() for tensor in (q, k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)))
    exact, exact_lse, lse_bound = sdpa.attention(q, k, v, scale, causal), *_lse(q, k, causal, scale)
    allowed = bound(q, k, v, torch.full(q.shape[:2], scale, dtype=torch.float64), causal, arithmetic)
    error = (out.cpu().double() - exact).abs() / allowed
    lse_error = (lse.cpu().double() - exact_lse).abs() / lse_bound
    return max(error.max().item(), lse_error.max().item())


def _lse(q: torch.Tensor, k: torch.Tensor, causal: bool, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """log(sum of exp(score)) of each row, and the largest error that rounding explains, by the terms 2, 3 and 6 of sdpa_bound.py.

    A score that is off by d moves it by at most d, a sum that is off by a factor of 1 + e by e; log2f and two roundings of the result
    are some units of its last place, or of 1 if it is smaller.
    """
    scores = q @ k.transpose(2, 3) * scale
    summed = q.abs() @ k.abs().transpose(2, 3) * abs(scale) * 20 * -(-q.shape[3] // 8)
    if causal:
        unseen = sdpa.hidden(torch.arange(q.shape[2]), k.shape[2])
        scores, summed = scores.masked_fill(unseen, -torch.inf), summed.masked_fill(unseen, 0.0)
    found = torch.logsumexp(scores, dim=3)
    below = (scores.amax(dim=3, keepdim=True) - scores).masked_fill(torch.isinf(scores), 0.0)
    sized = scores.masked_fill(torch.isinf(scores), 0.0).abs()
    tiles, keys = -(-k.shape[2] // 16), k.shape[2]
    off = (summed + 6 * sized + 9 * below).amax(dim=3) + 4 * (1 + tiles) + keys + tiles + 8 * found.abs().clamp(min=1.0)
    return found, off * 2.0**-24


def default_scale(q: torch.Tensor) -> float:
    """The scale of a call that names none."""
    return float(q.shape[3] ** -0.5)
