"""How far an output is from its reference, in figures that hold no NaN.

Non-finite elements are counted first and left out of the maximum and the mean; they count as bad.
What the cheapest wrong answers (all zeros, the reference's own mean) would score stands beside the
figures, so that the judge can tell limits that reject nothing.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch

# Unit roundoff (half a unit in the last place, relative) of the output formats.
_ROUNDOFF = {
    torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8,
    torch.float8_e4m3fn: 2.0**-4, torch.float8_e5m2: 2.0**-3,
}


class ProblemError(Exception):
    """The problem module gave something that can't be judged."""


class OutputError(Exception):
    """The kernel gave something that can't be compared with the reference."""


def digest(tensors: Mapping[str, Any]) -> str:
    """sha256 over names, dtypes, shapes and bytes of tensors (and the repr of plain numbers)."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name]
        if isinstance(value, torch.Tensor):
            flat = value.detach().cpu().contiguous()
            total.update(f"{name}:{flat.dtype}:{tuple(flat.shape)};".encode())
            total.update(flat.reshape(-1).view(torch.uint8).numpy().tobytes())
        else:
            total.update(f"{name}={value!r};".encode())
    return total.hexdigest()


def figures(
    name: str, got: Any, want: Any, bad_atol: float | None, bound: Any = None, nulls: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Error figures of the output ``got`` against the reference ``want`` (any float dtype, CPU).

    ``bound`` is the error that rounding explains, element by element; ``nulls`` are null answers of the problem's own.
    A reference beyond the range of the output's format asks for the infinity that rounding makes of it.
    Raises ProblemError where shapes differ, the reference holds NaN, or the bound is no number, negative or infinite.
    """
    if got.shape != want.shape:
        raise ProblemError(f"reference {name!r} has shape {tuple(want.shape)}, the output {tuple(got.shape)}")
    want = want.to(torch.float64)
    if bool(torch.isnan(want).any()):
        raise ProblemError(f"reference {name!r} holds NaN")
    if got.dtype.is_floating_point:
        rounded = want.to(got.dtype)
        want = torch.where(torch.isinf(rounded), rounded.to(torch.float64), want)
    if bound is not None:
        bound = _checked_bound(name, bound, want)
    plain = got.to(torch.float64)
    error = (plain - want).abs()
    error[plain == want] = 0.0  # an infinity that the reference asks for
    finite = torch.isfinite(error)
    nonfinite = int((~finite).sum())
    worst = int((~finite).reshape(-1).int().argmax()) if nonfinite else _argmax(error)
    size = want[torch.isfinite(want)].abs()
    return {
        "name": name,
        "dtype": str(got.dtype).removeprefix("torch."),
        "elements": got.numel(),
        "nonfinite": nonfinite,
        **_summary(error, finite, bad_atol),
        "worst_index": _unravel(worst, got.shape),
        "worst_expected": _number(want, worst),
        "worst_got": _number(plain, worst),
        "reference_max_abs": float(size.max()) if size.numel() else 0.0,
        "reference_mean_abs": float(size.mean()) if size.numel() else 0.0,
        "unit_roundoff": _ROUNDOFF.get(got.dtype, 0.0),
        **_over_bound(error, finite, bound, got.shape),
        "nulls": [
            _null(kind, values.to(got.dtype if got.dtype.is_floating_point else torch.float64).to(torch.float64), want, bad_atol, bound)
            for kind, values in {**_nulls(want), **(nulls or {})}.items()
        ],
    }


def silent_inputs(problem: Any, inputs: Mapping[str, Any], shape: Mapping[str, int], reference: Mapping[str, Any]) -> list[str]:
    """Input tensors of the kernel that the reference ignores: shuffling their elements does not change one bit of it.

    A single element is scaled by 1.25 instead. Such an input (all zeros, say) hides that a kernel
    does not read it.
    """
    silent = []
    for name, value in inputs.items():
        if name not in problem.ARGUMENTS or not isinstance(value, torch.Tensor) or value.numel() == 0:
            continue
        if value.numel() == 1:
            if not value.dtype.is_floating_point or value.dtype.itemsize == 1:
                continue
            changed = value * 1.25
        else:
            order = torch.randperm(value.numel(), generator=torch.Generator().manual_seed(1))
            flat = value.contiguous().reshape(-1)
            raw = flat.view(torch.uint8).view(value.numel(), value.element_size())
            changed = raw[order].contiguous().view(-1).view(value.dtype).view(value.shape)
        again = problem.reference({**inputs, name: changed}, shape)
        if all(torch.equal(again[output], reference[output]) for output in reference):
            silent.append(name)
    return silent


def nudge(inputs: Mapping[str, Any], names: Sequence[str], seed: int) -> dict[str, Any]:
    """A copy of ``inputs`` in which each tensor of ``names`` has about 1 in 64 elements exchanged with others.

    The first and the last element stay. Values are only moved, so indices stay in range.
    """
    generator = torch.Generator().manual_seed(seed + 1)
    changed = dict(inputs)
    for name in names:
        value = changed.get(name)
        if not isinstance(value, torch.Tensor) or value.numel() < 4:
            continue
        flat = value.clone().reshape(-1)
        raw = flat.view(torch.uint8).view(value.numel(), value.element_size())
        picked = 1 + torch.randperm(value.numel() - 2, generator=generator)[: max(2, value.numel() // 64)]
        raw[picked] = raw[picked.roll(1)]
        changed[name] = flat.view(value.shape)
    return changed


def _summary(error: Any, finite: Any, bad_atol: float | None) -> dict[str, float | None]:
    good = error[finite]
    bad = None
    if bad_atol is not None:
        bad = 100.0 * int((~(error <= bad_atol)).sum()) / error.numel() if error.numel() else 0.0
    return {
        "max_abs_err": float(good.max()) if good.numel() else None,
        "mean_abs_err": float(good.mean()) if good.numel() else None,
        "bad_pct": bad,
    }


def _nulls(want: Any) -> dict[str, Any]:
    """Answers of a kernel that does no work: zeros, one constant, and the right rows in the wrong places."""
    finite = want[torch.isfinite(want)]
    found = {"zeros": torch.zeros_like(want), "mean": torch.full_like(want, float(finite.mean()) if finite.numel() else 0.0)}
    rows = want.reshape(-1, want.shape[-1]) if want.dim() > 1 else want.reshape(-1)
    if rows.shape[0] > 1:
        found["rows_shifted"] = rows.roll(1, 0).reshape(want.shape)
    return found


def _null(kind: str, values: Any, want: Any, bad_atol: float | None, bound: Any) -> dict[str, Any]:
    error = (values - want).abs()
    error[values == want] = 0.0
    finite = torch.isfinite(error)
    over = _over_bound(error, finite, bound, want.shape)["max_err_over_bound"] if bool(finite.all()) else None
    return {"kind": kind, **_summary(error, finite, bad_atol), "max_err_over_bound": over}


def _checked_bound(name: str, bound: Any, want: Any) -> Any:
    if bound.shape != want.shape:
        raise ProblemError(f"error_bound {name!r} has shape {tuple(bound.shape)}, the reference {tuple(want.shape)}")
    bound = bound.to(torch.float64)
    if not bool((bound >= 0).all()):
        raise ProblemError(f"error_bound {name!r} is negative or NaN somewhere")
    if bool((torch.isinf(bound) & torch.isfinite(want)).any()):
        raise ProblemError(f"error_bound {name!r} is infinite where the reference is finite: any answer would keep it")
    return bound


def _over_bound(error: Any, finite: Any, bound: Any, shape: Any) -> dict[str, Any]:
    """The largest error over its bound, and where; the largest float stands for an error where the bound is 0."""
    if bound is None or not bool(finite.any()):
        return {"max_err_over_bound": None, "bound_index": [], "bound_error": None, "bound_at": None}
    ratio = torch.where(error == 0, 0.0, error / bound).nan_to_num(posinf=sys.float_info.max)
    worst = _argmax(torch.where(finite, ratio, 0.0))
    at = float(bound.reshape(-1)[worst])
    return {
        "max_err_over_bound": float(ratio.reshape(-1)[worst]), "bound_index": _unravel(worst, shape),
        "bound_error": float(error.reshape(-1)[worst]), "bound_at": min(at, sys.float_info.max),
    }


def _argmax(error: Any) -> int:
    return int(error.reshape(-1).argmax()) if error.numel() else 0


def _unravel(index: int, shape: Any) -> list[int]:
    place = []
    for size in reversed(shape):
        place.insert(0, index % size if size else 0)
        index //= size or 1
    return place


def _number(tensor: Any, index: int) -> float | str | None:
    if not tensor.numel():
        return None
    value = float(tensor.reshape(-1)[index])
    return value if math.isfinite(value) else str(value)
