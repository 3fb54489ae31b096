"""torch._scaled_mm of float4 matrices, which torch has on a device only: products of blocks of 16 numbers that share a factor.

A byte holds two e2m1 numbers, the first in its low half. The e4m3 factors lie in tiles of 128 rows and 4 blocks, as cuBLAS wants
them: row r of a tile is at [r % 32, r // 32].
"""

from __future__ import annotations

from typing import Any

import torch

_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_BLOCK, _ROWS, _BLOCKS = 16, 128, 4  # numbers with one factor; a tile's rows and blocks


def scaled_product(
    first: torch.Tensor, second: torch.Tensor, first_scale: torch.Tensor, second_scale: torch.Tensor, bias: Any = None, **named: Any
) -> torch.Tensor:
    """Return the product in ``out_dtype`` (bfloat16 if left out), summed in float64. Raises NotImplementedError for other options."""
    dtype = named.pop("out_dtype", None) or torch.bfloat16
    if bias is not None or any(value is not None and value is not False for value in named.values()):
        raise NotImplementedError(f"torch._scaled_mm with {', '.join(sorted(named)) or 'bias'} does not run on the CPU")
    return (_numbers(first, first_scale) @ _numbers(second.t(), second_scale).t()).to(dtype)


def _numbers(packed: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return the matrix with its factors, in float64."""
    rows, columns = packed.shape[0], 2 * packed.shape[1]
    halves = packed.view(torch.uint8)
    codes = torch.stack((halves & 15, halves >> 4), dim=-1).reshape(rows, columns).long()
    values = torch.tensor([*_VALUES, *(-value for value in _VALUES)], dtype=torch.float64)[codes]
    down, across = -(-rows // _ROWS), -(-columns // (_BLOCK * _BLOCKS))
    tiles = scale.to(torch.float64).reshape(down, across, 32, 4, _BLOCKS).permute(0, 3, 2, 1, 4)
    factors = tiles.reshape(down * _ROWS, across * _BLOCKS)[:rows, : columns // _BLOCK]
    return values * factors.repeat_interleave(_BLOCK, dim=1)
