"""Inputs of attention: ordinary ones, and families made to show what ordinary ones hide, before a format rounds them.

A maker gives Q, K and V as float32 tensors on the CPU, so that the values are the same on every device. A shape has B, H
and D, and S, or Sq queries and Sk keys. Where a family's special kind would make a null answer right
(all zeros, all keys equal), only the even heads are of that kind and the odd ones are ordinary, so that the case
still proves something, and a kernel that mixes up heads shows too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch

Shape = Mapping[str, int]
Values = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sizes(shape: Shape) -> tuple[tuple[int, int, int, int], ...]:
    """[B, H, rows, D] of Q, K and V."""
    rows = (shape["S"],) * 3 if "S" in shape else (shape["Sq"], shape["Sk"], shape["Sk"])
    return tuple((shape["B"], shape["H"], count, shape["D"]) for count in rows)


def even(shape: Shape) -> torch.Tensor:
    """True for the heads 0, 2, 4, …, counted over batch and head: [B, H, 1, 1]."""
    return (torch.arange(shape["B"] * shape["H"]) % 2 == 0).view(shape["B"], shape["H"], 1, 1)


def normal(shape: Shape, seed: int) -> Values:
    """N(0, 1)."""
    draw = generator(seed)
    q, k, v = (torch.randn(size, generator=draw) for size in sizes(shape))
    return q, k, v


def uniform(shape: Shape, seed: int) -> Values:
    """Uniform in [-1, 1)."""
    draw = generator(seed)
    q, k, v = (torch.rand(size, generator=draw) * 2 - 1 for size in sizes(shape))
    return q, k, v


def dominant_key(shape: Shape, seed: int) -> Values:
    """Each query points at one key, another one for each row: O is nearly that key's row of V."""
    q, k, v = normal(shape, seed)
    chosen = torch.randint(0, k.shape[2], (q.shape[2],), generator=generator(seed + 1))
    return 4 * k[:, :, chosen], k, v


def equal_keys(shape: Shape, seed: int) -> Values:
    """All keys of the even heads are equal: every weight is 1 / S."""
    q, k, v = normal(shape, seed)
    return q, torch.where(even(shape), k[:, :, :1], k), v


def zeros(shape: Shape, seed: int) -> Values:
    """Q, K and V of the even heads are zero."""
    q, k, v = (torch.where(even(shape), 0.0, values) for values in normal(shape, seed))
    return q, k, v


def large_scores(shape: Shape, seed: int) -> Values:
    """Scores of about 100 in the even heads and 1e4 in the odd ones: the softmax saturates."""
    q, k, v = normal(shape, seed)
    return q * torch.where(even(shape), 10.0, 100.0), k * torch.where(even(shape), 10.0, 100.0), v


def equal_scores(shape: Shape, seed: int) -> Values:
    """Every third query is zero: the scores of its row are identical."""
    q, k, v = normal(shape, seed)
    q[:, :, ::3] = 0
    return q, k, v


def rising_max(shape: Shape, seed: int) -> Values:
    """Scores rise by 12 from the first key to the last, so every tile brings a new maximum of every row."""
    keys = sizes(shape)[1][2]
    return along_keys(shape, seed, 12 * torch.arange(keys) / keys)


def max_last(shape: Shape, seed: int) -> Values:
    """The last key outweighs all others together by about 20 in the even heads, and equals them in the odd ones."""
    keys = sizes(shape)[1][2]
    last = torch.zeros(shape["B"], shape["H"], keys)
    last[..., -1] = torch.where(even(shape)[..., 0, 0], math.log(keys) + 3, math.log(keys))
    return along_keys(shape, seed, last)


def along_keys(shape: Shape, seed: int, scores: torch.Tensor) -> Values:
    """Values whose scores are about those given, by key, plus a little noise."""
    q, k, v = normal(shape, seed)
    return 1 + q / 8, k / 8 + (scores / math.sqrt(shape["D"]))[..., None], v


FAMILIES: dict[str, Callable[[Shape, int], Values]] = {
    make.__name__: make for make in (
        uniform, dominant_key, equal_keys, zeros, large_scores, equal_scores, rising_max, max_last,
    )
}
