"""Derive limits from the error of an honest evaluation: what the problem's own code is off by in its own precision.

The bound of an element is FACTOR times the largest honest error among the output's elements of its size or smaller ones (at least
FEWEST of them), and ULPS units in the last place of the output's format, at the element and at the output's median: another formula of
the same function rounds there. The factor grows with the length of a sum beyond TERMS terms,
which a kernel may add up one after the other. A whole number must be the exact one, or the one that the honest evaluation gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
        if bool((torch.isfinite(want) & ~torch.isfinite(honest[name])).any()):
            raise ArithmeticError(f"{name} overflows in {str(honest[name].dtype).removeprefix('torch.')}, where the exact result is finite")
        error = (honest[name].to(want.dtype) - want).abs().to(torch.float64)
        error = torch.where(torch.isfinite(error), error, 0.0)
        found[name] = _by_size(want.abs().to(torch.float64), error) if _is_inexact(honest[name]) else error
    return found


def bounds(exact: Mapping[str, Any], honest: Mapping[str, Any], counted: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the error bound of each output, element by element (float64); ``counted``: what ``errors`` returned."""
    import torch

    factor, found = factor_of(inputs, exact), {}
    for name, error in counted.items():
        found[name] = error
        if _is_inexact(honest[name]):
            form = torch.finfo(honest[name].dtype)
            size = exact[name].abs().nan_to_num(0.0, 0.0, 0.0)
            found[name] = factor * error + ULPS * form.eps * (size + _median(size)) + form.tiny
    return found


def factor_of(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> float:
    """Return how many times the honest error is allowed."""
    largest = max((value.numel() for value in inputs.values() if hasattr(value, "numel")), default=1)
    return FACTOR * max(1.0, largest / max(1, min(value.numel() for value in outputs.values())) / TERMS)


def _median(size: Any) -> float:
    """The median, of evenly spaced elements if there are many."""
    flat = size.reshape(-1)
    return float(flat[:: max(1, flat.numel() // _MOST_SORTED)].median()) if flat.numel() else 0.0


def _is_inexact(value: Any) -> bool:
    return bool(value.dtype.is_floating_point or value.dtype.is_complex)


def _by_size(size: Any, error: Any) -> Any:
    """The largest error among elements in the same power of two or below."""
    import torch

    if not error.numel():
        return error
    exponent = torch.frexp(size.nan_to_num(0.0, 0.0, 0.0))[1].to(torch.int64).clamp(_LOWEST, _HIGHEST)
    place = torch.where(size > 0, exponent - _LOWEST, 0).reshape(-1)
    count = torch.bincount(place, minlength=_HIGHEST - _LOWEST + 1)
    largest = torch.zeros(len(count), dtype=torch.float64).scatter_reduce_(0, place, error.reshape(-1), "amax").cummax(0).values
    enough = int((count.cumsum(0) >= min(FEWEST, error.numel())).int().argmax())
    largest[:enough] = largest[enough]
    return largest[place].reshape(error.shape)
