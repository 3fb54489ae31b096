"""What a tensor's values keep to in their contract, as far as the tensor shows it: an order, all different, symmetry.

The engine makes values of its own (structured, exchanged) and can't ask the problem whether they are in contract. So a property that random
values would not have by chance is kept: rows that ascend or descend (keys, edges, offsets), rows of whole numbers that are all different
(permutations, chosen experts), and square matrices that are symmetric. A row is along the last axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

_LENGTH = 6  # of rows whose order counts: of random ones 1 in 720 ascends
_LEAST = 8  # elements of a tensor that say something


def falls_or_rises(value: torch.Tensor) -> int:
    """1 if every row ascends, -1 if every row descends, else 0; rows that are constant, or too short to tell, do neither."""
    rows = _rows(value)
    if value.dtype.is_complex or rows.numel() < _LEAST or rows.shape[-1] < 2 or (rows.shape[0] == 1 and rows.shape[-1] < _LENGTH):
        return 0
    steps = rows.to(torch.float64 if value.dtype.is_floating_point else torch.int64).diff(dim=-1)
    return next((sign for sign in (1, -1) if bool((sign * steps >= 0).all()) and bool(steps.any())), 0)


def is_symmetric(value: torch.Tensor) -> bool:
    """Whether it holds square matrices of 3 x 3 and more that equal their transposes."""
    return value.dim() >= 2 and value.shape[-1] == value.shape[-2] >= 3 and _same(value, value.mT)


def is_distinct(value: torch.Tensor) -> bool:
    """Whether the whole numbers of each row are all different."""
    if value.dtype.is_floating_point or value.dtype.is_complex or value.dtype == torch.bool:
        return False
    rows = _rows(value).to(torch.int64)
    if rows.shape[-1] < 2 or (rows.shape[0] > 1 and rows.numel() < _LEAST):
        return False
    return bool((rows.sort(dim=-1).values.diff(dim=-1) != 0).all())


def ordered_beside(name: str, inputs: Mapping[str, Any]) -> bool:
    """Whether whole numbers are, element by element, never above or never below another input's: begins and ends, lengths and limits."""
    value = inputs[name]
    if value.dtype.is_floating_point or value.dtype.is_complex or value.dtype == torch.bool or value.numel() < _LEAST:
        return False
    others = (
        other
        for key, other in inputs.items()
        if key != name and isinstance(other, torch.Tensor) and (other.shape, other.dtype) == (value.shape, value.dtype)
    )
    return any(bool((value <= other).all()) or bool((value >= other).all()) for other in others)


def restored(changed: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """``changed`` values of ``value`` with its order and symmetry: rows sorted again, the lower triangle the upper one's mirror."""
    if is_symmetric(value):
        upper = torch.ones(value.shape[-2:], dtype=torch.bool).triu()
        raw = _comparable(changed)
        return (
            torch.where(upper, raw, raw.mT).view(changed.dtype) if raw.dtype != changed.dtype else torch.where(upper, changed, changed.mT)
        )
    if (sign := falls_or_rises(value)) and changed.numel():
        wide = changed.to(torch.float64 if value.dtype.is_floating_point else torch.int64)
        return wide.sort(dim=-1, descending=sign < 0).values.to(changed.dtype)
    return changed


def _rows(value: torch.Tensor) -> torch.Tensor:
    return value.reshape(-1, value.shape[-1]) if value.dim() and value.numel() else value.reshape(1, -1)


def _comparable(value: torch.Tensor) -> torch.Tensor:
    """Floats of one byte as bytes: torch compares and selects few of them."""
    return value.view(torch.uint8) if value.dtype.is_floating_point and value.dtype.itemsize == 1 else value


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(_comparable(one.contiguous()), _comparable(other.contiguous()))
