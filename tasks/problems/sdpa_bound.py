"""How far an attention kernel may be from the exact result: an a-priori bound, element by element.

Nothing here was fitted to a kernel. The bound holds for any kernel that forms scores and sums in float (by FMA or
by tensor cores), keeps P in float or half, works through the keys in tiles of 16 or more with an online softmax,
uses exp2f, expf or __expf, applies the scales in float to the sums, and rounds O to half once. Keys may be shared out
between warps, each with a maximum and sums of its own: putting those together is one more tile. Write u = 2^-24 and
h = 2^-11 (unit roundoffs of float and half), s_ij for the exact score, m_i for its row's maximum,
p_ij = exp(s_ij - m_i), l_i for the sum of p_ij over j, and O = P·V / l.

1. Sums. n exact products summed in float in any order are off by at most n u A, with A the sum of their magnitudes. A
   tensor core adds 8 products and the accumulator at a time, each cut to 24 bits of the largest of them, and cuts the
   result: 10 * 2^-23 A for 8 products, so 20 u A ceil(n / 8) at most. (Fasi, Higham, Mikaitis, Pranesh, "Numerical
   behavior of NVIDIA tensor cores", 2021; newer chips keep more bits.) Products of E4M3 bytes and of halves are exact in
   float, and where A fits into 24 bits above the lowest bit of any product, every partial sum is exact in any order.
2. Scores. Over D products 20 u A_ij D / 8, times the scale; one rounding of the scaled score, u |s_ij|. The scale
   itself (products of the inputs' own scales, softmax_scale, log2(e)) is off by 5 u for a whole head, which acts on
   differences only: 5 u (m_i - s_ij).
3. Exponentials. exp2f and ex2.approx: 2 ulp = 4 u. __expf(x): 2 + 1.173 |x| ulp (CUDA programming guide), and the
   rounding of x: together 3.4 u |x|. An online softmax multiplies by exp(m_old - m_new) once a tile, with at most 4 u
   more each; the arguments add up to m_i - s_ij.
   2 and 3 change the weight p_ij by exp(t_ij), with |t_ij| <= d_ij, the sum of the above. Numerator and denominator
   see the same change, so the result moves by at most sum_j p_ij (exp(d_ij) - 1) |v_j - O_i| / sum_j p_ij exp(-d_ij),
   which is bounded by Cauchy and Schwarz to need only products of matrices. It never moves further than V is wide:
   a weighted mean stays one.
4. P in half, in the numerator alone: |dp| <= max(h p, 2^-25), the latter where p is subnormal in half.
5. P·V over S keys as in 1, and one rounding of the accumulator for each tile, u S / 16.
6. l over S positive terms in any order: S u, with S / 16 u for its rescaling; division, v_scale, and the product: 6 u.
   Keys that a causal mask hides have no weight, and a row's S is the number that it sees.
7. O to half: h times the result, or 2^-25 where that is subnormal.
For P and O in bfloat16 h is 2^-8, and 2^-126 takes the place of 2^-25.

E4M3_PRODUCTS is for kernels whose tensor cores multiply E4M3 bytes, P too. There a tensor core adds 32 products and the accumulator at a
time, each cut to 13 bits behind the largest's first (Zhang et al., "SageAttention2", 2024), and cuts the result: 34 * 2^-13 A for 32
products. P is rounded with 2^-4, or 2^-14 of the largest p where it is subnormal: the largest P of a row is 16 or more. l sums up the
rounded P on tensor cores. So 4 changes weights in numerator and denominator, as 2 and 3 do.

4 to 6 act on the weights as computed, so they use W_i = sum_j p_ij |v_j| / l_i, enlarged by exp(2 max_j d_ij) and never
above the largest |v|. Products of two such errors are below 1 % of them for S up to 60,000, hence the factor 1.01.
What is not allowed for: scores in half, P in 8 bits (but for E4M3_PRODUCTS), a half accumulator, more than one rounding of O.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from tasks.problems.sdpa import hidden

_U = 2.0**-24


@dataclass(frozen=True)
class Arithmetic:
    """How a kernel rounds: ``out`` is the unit roundoff of O, and half of its smallest step; ``p`` that of P, whose largest value is 1.

    A sum on tensor cores is off by ``step_error`` u of its terms' magnitudes for each ``step`` products, and exact if they fit into
    ``bits``. ``short_l``: l is such a sum, of the rounded P.
    """

    out: tuple[float, float]
    p: tuple[float, float]
    step: int = 8
    step_error: int = 20
    bits: int = 24
    short_l: bool = False

    def sum_error(self, products: torch.Tensor | int) -> torch.Tensor | int:
        """The error of a sum of ``products``, in u of its terms' magnitudes."""
        return self.step_error * -(-products // self.step)


HALF = Arithmetic((2.0**-11, 2.0**-25), (2.0**-11, 2.0**-25))  # 2^-25: half of the smallest half
BFLOAT16 = Arithmetic((2.0**-8, 2.0**-126), (2.0**-8, 2.0**-126))  # 2^-126: the smallest float that -ftz=true keeps
E4M3_PRODUCTS = Arithmetic(HALF.out, (2.0**-4, 2.0**-14), step=32, step_error=34 * 2**11, bits=13, short_l=True)
_LEAST_TILE = 16
_ROWS = 256  # queries whose matrices are held at once


def bound(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, factor: torch.Tensor, causal: bool = False, arithmetic: Arithmetic = HALF
) -> torch.Tensor:
    """The largest error of O that rounding explains: float64 [B, H, Sq, D].

    ``q``, ``k``: the values that are multiplied; ``factor`` [B, H] times their products are the scores. ``v``: V's values.
    ``arithmetic``: HALF, BFLOAT16 or E4M3_PRODUCTS.
    """
    found = torch.empty_like(q)
    for batch in range(q.shape[0]):
        for head in range(q.shape[1]):
            keys, values, scale = k[batch, head], v[batch, head], factor[batch, head]
            key_bits = _lowest_bit(keys)
            for start in range(0, q.shape[2], _ROWS):
                rows = slice(start, min(start + _ROWS, q.shape[2]))
                queries = q[batch, head, rows]
                magnitude = queries.abs() @ keys.abs().T
                exact = magnitude < 2.0**arithmetic.bits * _lowest_bit(queries)[:, None] * key_bits
                summed = magnitude.masked_fill_(exact, 0.0).mul_(scale.abs() * arithmetic.sum_error(q.shape[3]))
                unseen = hidden(rows, len(keys)) if causal else torch.zeros_like(exact)
                found[batch, head, rows] = _rows(queries @ keys.T * scale, summed, values, unseen, arithmetic)
    return found


def _rows(
    scores: torch.Tensor, summed: torch.Tensor, values: torch.Tensor, unseen: torch.Tensor, arithmetic: Arithmetic
) -> torch.Tensor:
    """The bound of some rows: ``scores``, 1 / u of what their sums are ``summed`` wrong (both overwritten) and ``unseen``
    are [rows, S]; ``values`` [S, D]."""
    (half, tiny), (coarse, tiny_p) = arithmetic.out, arithmetic.p
    keys = (~unseen).sum(dim=1, keepdim=True)
    tiles = -(-keys // _LEAST_TILE)
    scores.masked_fill_(unseen, -torch.inf)
    below = scores.amax(dim=1, keepdim=True) - scores
    weights = torch.exp(-below)
    total = weights.sum(dim=1, keepdim=True)
    out, spread = (weights @ torch.cat([values, values.abs()], dim=1) / total).chunk(2, dim=1)
    off = summed.add_(scores.abs_()).add_(below, alpha=5 + 3.4).add_(4 * (1 + tiles)).mul_(_U)  # 2 and 3
    if arithmetic.short_l:
        off.add_(-math.log1p(-coarse))  # 4, in numerator and denominator
    off = off.masked_fill_(unseen, 0.0).clamp_(max=300.0)  # far beyond what the width of V caps; exp of more is no number
    most = off.amax(dim=1, keepdim=True)
    moved = _moved(weights, torch.expm1(off), values, out)
    largest = values.abs().amax(dim=0)
    sized = torch.minimum(spread * torch.exp(2 * most), largest)
    rounded = tiny_p * values.abs().sum(dim=0) / total  # 4
    rounded += tiny_p * keys * out.abs() / total if arithmetic.short_l else sized * coarse
    summed = sized * _U * (arithmetic.sum_error(keys) + tiles)  # 5
    divided = sized * _U * ((arithmetic.sum_error(keys) if arithmetic.short_l else keys) + tiles + 6)  # 6
    inner = 1.01 * (moved + torch.minimum(rounded, sized) + summed + divided)
    return inner + torch.clamp(half * (out.abs() + inner), min=tiny)  # 7


def _moved(weights: torch.Tensor, growth: torch.Tensor, values: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """How far the weighted mean ``out`` moves where each weight changes by a factor of at most 1 + growth, up or down."""
    least = (weights / (1 + growth)).sum(dim=1, keepdim=True)
    change = growth.mul_(weights)
    whole = change.sum(dim=1, keepdim=True)
    square, cross = (change @ torch.cat([values**2, values], dim=1)).chunk(2, dim=1)
    spread = (square - 2 * out * cross + out**2 * whole).clamp(min=0)  # sum of change * (v - out)^2
    spread = spread + 1e-15 * (square + out**2 * whole)  # what cancels in float64
    moved = torch.sqrt(whole * spread) / least
    return torch.minimum(moved, values.amax(dim=0) - values.amin(dim=0))


def _lowest_bit(values: torch.Tensor) -> torch.Tensor:
    """For each row, the largest power of two that divides all its elements; 1 where all are 0."""
    mantissa, exponent = torch.frexp(values)
    whole = (mantissa.abs() * 2.0**53).to(torch.int64)
    bit = (whole & -whole).double() * torch.exp2(exponent.double() - 53)
    lowest = torch.where(values == 0, torch.inf, bit).amin(dim=1)
    return torch.where(torch.isinf(lowest), 1.0, lowest)
