"""Compare complex numbers as pairs of reals: every figure, rounding and map sees the real and the imaginary part as two elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch


def reals(value: Any) -> Any:
    """Return a complex tensor as [..., 2] real numbers of half its width, any other tensor as it is."""
    return torch.view_as_real(value.resolve_conj()) if value.is_complex() else value


def all_reals(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``reals`` of each of ``values`` by name."""
    return {name: reals(value) for name, value in values.items()}


def bound_of(bound: Any, output: Any) -> Any:
    """Return an error bound for ``reals(output)``: real numbers for a complex output bound each of its two parts."""
    return torch.stack((bound, bound), dim=-1) if output.is_complex() and not bound.is_complex() else reals(bound)
