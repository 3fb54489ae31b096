"""How far an output is from its reference, in figures that hold no NaN.

Non-finite elements are counted first and left out of the maximum and the mean; they count as bad.
What the cheapest wrong answers (all zeros, the reference's own mean) would score stands beside the
figures, so that the judge can tell limits that reject nothing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from gates.task import value_contract
from gates.task.problem import ProblemError
from gates.task.reals import bound_of, reals

# Unit roundoff (half a unit in the last place, relative) of the output formats.
ROUNDOFF = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
    torch.float8_e4m3fn: 2.0**-4,
    torch.float8_e5m2: 2.0**-3,
}


def figures(
    name: str,
    got: Any,
    want: Any,
    bad_atol: float | None,
    bound: Any = None,
    nulls: Mapping[str, Any] | None = None,
    *,
    honest: Any = None,
    rule: Any = None,
    missing: Any = None,
    nan: bool = False,
    flushed: bool = False,
) -> dict[str, Any]:
    """Error figures of the output ``got`` against the reference ``want`` (any float or complex dtype, CPU).

    Complex numbers are pairs of reals here: ``elements`` counts both parts, and places have one more index (``gates.task.reals``).
    ``bound`` is the error that rounding explains, element by element; ``nulls`` are null answers of the problem's own.
    ``honest``: the honest error that ``bound`` comes from; ``rule``: a tolerance of others, which judges nothing.
    ``missing``: a mask of elements that have no answer and are left out. ``nan``: NaN in the reference asks for NaN.
    ``flushed``: what is smaller than the smallest normal float may be zero.
    A reference beyond the range of the output's format asks for what ``in_format`` says. ``best`` is what the
    exact result itself scores once it is rounded to the output's format.
    Raises ProblemError where shapes differ, the reference holds NaN, or the bound is no number, negative or infinite.
    """
    if got.shape != want.shape:
        raise ProblemError(f"reference {name!r} has shape {tuple(want.shape)}, the output {tuple(got.shape)}")
    if got.is_complex() != want.is_complex():
        raise ProblemError(f"reference {name!r} is {_format(want)}, the output {_format(got)}: both must be complex, or both real")
    declared, bound, rule = _format(got), *(None if one is None else bound_of(one, want) for one in (bound, rule))
    nulls = {kind: reals(values.to(torch.complex128) if got.is_complex() else values) for kind, values in (nulls or {}).items()}
    got, want = reals(got), reals(want)
    whole = not (got.dtype.is_floating_point or want.dtype.is_floating_point)
    unequal = got.to(torch.int64) != want.to(torch.int64) if whole else None  # a float64 holds no odd numbers beyond 2^53
    given, want = want.dtype, want.to(torch.float64)
    if missing is not None:
        want, got = torch.where(missing, 0.0, want), torch.where(missing, torch.zeros_like(got), got)
        bound = None if bound is None else torch.where(missing, 0.0, bound)
    if not nan and bool(torch.isnan(want).any()):
        raise ProblemError(f"reference {name!r} holds NaN")
    want = in_format(want, got)
    if bound is not None:
        bound = _checked_bound(name, torch.where(torch.isnan(want), 0.0, bound) if nan else bound, want)
    plain = got.to(torch.float64)
    error = _error(plain, want)
    if unequal is not None:
        error = torch.maximum(error, (unequal if missing is None else unequal & ~missing).to(torch.float64))
    if flushed and got.dtype in (torch.float32, torch.bfloat16):
        error[error <= torch.finfo(torch.float32).tiny] = 0.0
    finite = torch.isfinite(error)
    nonfinite = int((~finite).sum())
    worst = int((~finite).reshape(-1).int().argmax()) if nonfinite else _argmax(error)
    size = want[torch.isfinite(want)].abs()
    return {
        "name": name,
        "dtype": declared,
        "elements": got.numel(),
        "nonfinite": nonfinite,
        **_summary(error, finite, bad_atol),
        "worst_index": _unravel(worst, got.shape),
        "worst_expected": _number(want, worst),
        "worst_got": _number(plain, worst),
        "reference_max_abs": float(size.max()) if size.numel() else 0.0,
        "reference_mean_abs": float(size.mean()) if size.numel() else 0.0,
        "unit_roundoff": ROUNDOFF.get(got.dtype, 0.0),
        "reference_dtype": str(given).removeprefix("torch."),
        **_over_bound(error, finite, bound, got.shape),
        "honest_err": None if honest is None else float(honest.max()) if honest.numel() else 0.0,
        "max_err_over_rule": _over_bound(error, finite, rule, got.shape)["max_err_over_bound"],
        "rule_over_bound": _ratio(rule, bound),
        "nulls": [
            _null(kind, values.to(got.dtype if got.dtype.is_floating_point else torch.float64).to(torch.float64), want, bad_atol, bound)
            for kind, values in {**_nulls(want), **nulls}.items()
        ],
        "best": _null(
            "rounded", (want.to(got.dtype) if got.dtype.is_floating_point else want.round()).to(torch.float64), want, bad_atol, bound
        ),
    }


def in_format(want: Any, got: Any) -> Any:
    """Return the float64 ``want`` with what a kernel may write where it is beyond the range of ``got``'s format.

    That is infinity. A format without infinity has NaN or the largest number, whichever ``got`` has.
    """
    if not got.dtype.is_floating_point:
        return want
    rounded, given, largest = want.to(got.dtype).to(torch.float64), got.to(torch.float64), torch.finfo(got.dtype).max
    if math.isinf(torch.tensor(math.inf).to(got.dtype).item()):
        return torch.where(torch.isinf(rounded), rounded, want)
    return torch.where(
        want.abs() > largest, torch.where(torch.isnan(given), given, torch.copysign(torch.full_like(want, largest), want)), want
    )


def _format(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _error(values: Any, want: Any) -> Any:
    """Return the absolute error per element; 0 if both are the same infinity or both NaN."""
    error = (values - want).abs()
    error[(values == want) | (torch.isnan(values) & torch.isnan(want))] = 0.0
    return error


def silent_inputs(problem: Any, inputs: Mapping[str, Any], shape: Mapping[str, int], seed: int, reference: Mapping[str, Any]) -> list[str]:
    """Return the kernel's input tensors that the reference ignores: no change of their values changes one bit of it.

    Order may not matter (a sum, a histogram), so an input counts as ignored only if other values change nothing either:
    shuffled, those of the next seed, scaled element by element, drawn anew from the same values. Zeros stay zeros in all of
    these but the next seed's: an input of zeros hides that a kernel does not read it.
    """
    silent = []
    other: Mapping[str, Any] | None = None
    for name, value in inputs.items():
        if name not in problem.ARGUMENTS or not isinstance(value, torch.Tensor) or value.numel() == 0:
            continue
        if value.numel() == 1 and (not value.dtype.is_floating_point or value.dtype.itemsize == 1):
            continue
        for kind in ("shuffled", "next_seed", "other_values"):
            if kind == "next_seed":
                other = problem.make_inputs(shape, seed + 1, "cpu") if other is None else other
            changed = _changed(kind, value, other or {}, name)
            if changed is not None and _matters(problem, {**inputs, name: changed}, shape, reference):
                break
        else:
            silent.append(name)
    return silent


def _changed(kind: str, value: Any, other: Mapping[str, Any], name: str) -> Any:
    """``value`` with other elements; None where this kind of change has none to give."""
    generator = torch.Generator().manual_seed(1)
    if kind == "next_seed":
        found = other.get(name)
        return found if isinstance(found, torch.Tensor) and (found.shape, found.dtype) == (value.shape, value.dtype) else None
    if kind == "shuffled":
        return _taken(value, torch.randperm(value.numel(), generator=generator))
    if value.dtype.is_floating_point:
        factor = (0.5 + torch.rand(value.shape, generator=generator)) * torch.where(
            torch.rand(value.shape, generator=generator) < 0.25, -1.0, 1.0
        )
        return (value.to(torch.float64) * factor).to(value.dtype)
    picked = _taken(value, torch.randint(value.numel(), (value.numel(),), generator=generator))
    return (
        picked
        if value.dtype == torch.bool or not torch.equal(picked, value)
        else (value.to(torch.int64) + value.to(torch.int64).sign()).to(value.dtype)
    )


def _matters(problem: Any, changed: Mapping[str, Any], shape: Mapping[str, int], reference: Mapping[str, Any]) -> bool:
    """Whether the reference differs on ``changed`` inputs; values that it refuses are values that it reads."""
    try:
        again = problem.reference(changed, shape)
    except Exception:
        return True
    return not all(torch.equal(again[output], reference[output]) for output in reference)


def _taken(value: Any, places: Any) -> Any:
    """The elements of ``value`` at flat ``places``, one for each element, in its shape."""
    raw = value.contiguous().reshape(-1).view(torch.uint8).view(value.numel(), value.element_size())
    return raw[places].contiguous().view(-1).view(value.dtype).view(value.shape)


def nudge(inputs: Mapping[str, Any], names: Sequence[str], seed: int) -> dict[str, Any]:
    """Return a copy of ``inputs`` in which each tensor of ``names`` has about 1 in 64 elements overwritten by others of it.

    The first and the last element stay. Values come from the tensor itself, so indices stay in range; their multiset changes,
    so a sum or a histogram changes too. Whole numbers whose rows are all different stay so (permutations: they are exchanged), and those
    in order, or in order beside another input, stay as they are (offsets, sorted keys, ends). Floats keep their order and symmetry.
    """
    generator = torch.Generator().manual_seed(seed + 1)
    changed = dict(inputs)
    for name in names:
        value = changed.get(name)
        if not isinstance(value, torch.Tensor) or value.numel() < 4:
            continue
        whole = not (value.dtype.is_floating_point or value.dtype.is_complex)
        if whole and (
            bool((value.reshape(-1).to(torch.int64).diff() >= 0).all())
            or value_contract.falls_or_rises(value)
            or value_contract.ordered_beside(name, inputs)
        ):
            continue
        count = max(2, value.numel() // 64)
        picked = 1 + torch.randperm(value.numel() - 2, generator=generator)[:count]
        places = torch.arange(value.numel())
        if not value_contract.is_distinct(value):
            places[picked] = torch.randint(value.numel(), picked.shape, generator=generator)
        elif value.dim() < 2:
            places[picked] = picked.roll(1)
        else:  # the second and the last place of some rows
            rows = torch.randperm(value.numel() // value.shape[-1], generator=generator)[: max(1, count // 2)] * value.shape[-1]
            one, other = rows + min(1, value.shape[-1] - 2), rows + value.shape[-1] - 1
            places[one], places[other] = other, one
        changed[name] = value_contract.restored(_taken(value, places), value)
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
    error = _error(values, want)
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
        "max_err_over_bound": float(ratio.reshape(-1)[worst]),
        "bound_index": _unravel(worst, shape),
        "bound_error": float(error.reshape(-1)[worst]),
        "bound_at": min(at, sys.float_info.max),
    }


def _ratio(rule: Any, bound: Any) -> float | None:
    """How many times as wide as the bound the rule is, over all elements."""
    if rule is None or bound is None or not float(bound.sum()):
        return None
    ratio = float(rule.to(torch.float64).nan_to_num(0.0, 0.0, 0.0).mean() / bound.mean())
    return ratio if math.isfinite(ratio) else None


def _argmax(error: Any) -> int:
    return int(error.reshape(-1).argmax()) if error.numel() else 0


def _unravel(index: int, shape: Any) -> list[int]:
    place: list[int] = []
    for size in reversed(shape):
        place.insert(0, index % size if size else 0)
        index //= size or 1
    return place


def _number(tensor: Any, index: int) -> float | str | None:
    if not tensor.numel():
        return None
    value = float(tensor.reshape(-1)[index])
    return value if math.isfinite(value) else str(value)
