"""Derive limits from the error of an honest evaluation: what the problem's own code is off by in its own precision.

The bound of an element is FACTOR times the largest honest error among the output's elements of its size or smaller ones (at least
FEWEST of them), and ULPS units in the last place of the output's format, at the element and at the output's median: another formula of
the same function rounds there. The factor grows with the length of a sum beyond TERMS terms,
which a kernel may add up one after the other. A whole number must be the exact one, or the one that the honest evaluation gives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from gates.task.pieces import pieces

FACTOR = 20.0
ULPS = 4.0
FEWEST = 256
TERMS = 1024
_MOST_SORTED = 2**20
_LOWEST, _HIGHEST = -1100, 1100  # binary exponents of float64


def errors(exact: Mapping[str, Any], honest: Mapping[str, Any]) -> dict[str, Any]:
    """Return for each output the honest error that counts at each element (float64).

    Raises ArithmeticError if the honest evaluation has other outputs, or is not finite where the exact result is.
    """
    import torch

    if list(exact) != list(honest):
        raise ArithmeticError(f"the honest evaluation gives {', '.join(honest)}, the reference {', '.join(exact)}")
    found = {}
    for name, want in exact.items():
        if want.shape != honest[name].shape:
            raise ArithmeticError(
                f"{name} has the shape {list(honest[name].shape)} in the honest evaluation, {list(want.shape)} in float64"
            )
        error, sizes = torch.empty(want.numel(), dtype=torch.float64), _Sizes(want.numel())
        flat, made = want.reshape(-1), honest[name].reshape(-1)
        for piece in pieces(want.numel()):
            error[piece] = _error(name, flat[piece], made[piece])
            if _is_inexact(made):
                sizes.add(piece, flat[piece], error[piece])
        found[name] = (sizes.largest() if _is_inexact(made) and want.numel() else error).reshape(want.shape)
    return found


def _error(name: str, want: Any, honest: Any) -> Any:
    """Return the absolute error per element; 0 if not finite. Raises ArithmeticError if only the honest result is not finite."""
    import torch

    finite = torch.isfinite(honest)
    if not bool(finite.all()) and bool((torch.isfinite(want) & ~finite).any()):
        raise ArithmeticError(f"{name} overflows in {str(honest.dtype).removeprefix('torch.')}, where the exact result is finite")
    error = (honest.to(want.dtype) - want).abs().to(torch.float64)
    return error if math.isfinite(float(error.sum())) else torch.where(torch.isfinite(error), error, 0.0)


class _Sizes:
    """Collects the largest error per power of two of the reference, over ``count`` elements added in pieces."""

    def __init__(self, count: int) -> None:
        import torch

        self._place = torch.empty(count, dtype=torch.int16)
        self._counts = torch.zeros(_HIGHEST - _LOWEST + 1, dtype=torch.int64)
        self._largest = torch.zeros(_HIGHEST - _LOWEST + 1, dtype=torch.float64)

    def add(self, piece: slice, want: Any, error: Any) -> None:
        """Add a piece: its reference values and their errors."""
        import torch

        size = want.abs().to(torch.float64)
        exponent = torch.frexp(size.nan_to_num(0.0, 0.0, 0.0))[1].to(torch.int64).clamp(_LOWEST, _HIGHEST)
        place = torch.where(size > 0, exponent - _LOWEST, 0)
        self._counts += torch.bincount(place, minlength=len(self._counts))
        self._largest.scatter_reduce_(0, place, error, "amax")
        self._place[piece] = place

    def largest(self) -> Any:
        """Return per element the largest error among elements of its size or smaller (float64)."""
        import torch

        largest, found = self._largest.cummax(0).values, torch.empty(len(self._place), dtype=torch.float64)
        enough = int((self._counts.cumsum(0) >= min(FEWEST, len(found))).int().argmax())
        largest[:enough] = largest[enough]
        for piece in pieces(len(found)):
            found[piece] = largest[self._place[piece].to(torch.int64)]
        return found


def bounds(
    exact: Mapping[str, Any],
    honest: Mapping[str, Any],
    counted: Mapping[str, Any],
    inputs: Mapping[str, Any],
    rules: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the error bound of each output, element by element (float64); ``counted``: what ``errors`` returned.

    ``rules``: tolerances that others ask each element to keep against the honest evaluation. Where one is narrower it is the bound, with
    the honest error added: the bound never refuses what the rule accepts.
    """
    import torch

    factor, found = factor_of(inputs, exact), {}
    for name, error in counted.items():
        found[name] = error
        if _is_inexact(honest[name]):
            form = torch.finfo(honest[name].dtype)
            flat, counts, median = exact[name].reshape(-1), error.reshape(-1), _median(exact[name])
            bound = torch.empty(flat.numel(), dtype=torch.float64)
            for piece in pieces(flat.numel()):
                size = flat[piece].abs().nan_to_num(0.0, 0.0, 0.0)
                bound[piece] = factor * counts[piece] + ULPS * form.eps * (size + median) + form.tiny
                if name in rules:
                    rule = torch.maximum(rules[name].reshape(-1)[piece], form.eps * size)  # no rule is narrower than the format's step
                    bound[piece] = torch.minimum(bound[piece], rule + counts[piece])
            found[name] = bound.reshape(error.shape)
    return found


def factor_of(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> float:
    """Return how many times the honest error is allowed."""
    largest = max((value.numel() for value in inputs.values() if hasattr(value, "numel")), default=1)
    return FACTOR * max(1.0, largest / max(1, min(value.numel() for value in outputs.values())) / TERMS)


def _median(values: Any) -> float:
    """Return the median absolute value; large tensors are sampled at equal steps."""
    flat = values.reshape(-1)
    return float(flat[:: max(1, flat.numel() // _MOST_SORTED)].abs().nan_to_num(0.0, 0.0, 0.0).median()) if flat.numel() else 0.0


def _is_inexact(value: Any) -> bool:
    return bool(value.dtype.is_floating_point or value.dtype.is_complex)
