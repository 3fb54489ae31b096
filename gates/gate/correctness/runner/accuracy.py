"""How far an output is from its reference, in figures that hold no NaN.

Non-finite elements are counted first and left out of the maximum and the mean; they count as bad.
What the cheapest wrong answers (all zeros, the reference's own mean) would score stands beside the
figures, so that the judge can tell limits that reject nothing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gates.task import value_contract
from gates.task.pieces import pieces
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
    if bound is not None and bound.shape != want.shape:
        raise ProblemError(f"error_bound {name!r} has shape {tuple(bound.shape)}, the reference {tuple(want.shape)}")
    shape, given, row = got.shape, want.dtype, want.shape[-1] if want.dim() > 1 else 1
    answer = _Answer(name, *(None if one is None else one.reshape(-1) for one in (got, want, bound, missing)), nan=nan)
    size = _Size.of(answer)
    own, by_rule, best = _Tally(bad_atol), _Tally(None), _Tally(bad_atol)
    trivial = {kind: _Tally(bad_atol) for kind in ("zeros", "mean", *(["rows_shifted"] if want.numel() > row else []), *nulls)}
    flat = {kind: values.reshape(-1) for kind, values in nulls.items()}
    tolerance = None if rule is None else _like(f"rule {name!r}", rule, want).reshape(-1)
    wide = narrow = 0.0  # the rule and the bound, over all elements
    for piece in pieces(got.numel()):
        exact, plain, error, allowed = answer.part(piece, flushed=flushed)
        own.add(error, allowed)
        if tolerance is not None:
            by_rule.add(error, tolerance[piece])
            if allowed is not None:
                wide += float(tolerance[piece].to(torch.float64).nan_to_num(0.0, 0.0, 0.0).sum())
                narrow += float(allowed.sum())
        wrong = {
            "zeros": torch.tensor(0.0, dtype=torch.float64),
            "mean": torch.tensor(size.mean, dtype=torch.float64),
            **({"rows_shifted": answer.shifted(piece, row)} if "rows_shifted" in trivial else {}),
            **{kind: values[piece] for kind, values in flat.items()},
        }
        for kind, values in wrong.items():
            trivial[kind].add(_error(_rounded(values, got.dtype), exact), allowed)
        best.add(_error(_rounded(exact, got.dtype) if got.dtype.is_floating_point else exact.round(), exact), allowed)
    worst = own.worst
    expected, came, *_ = answer.part(slice(worst, worst + 1))
    return {
        "name": name,
        "dtype": declared,
        "elements": got.numel(),
        "nonfinite": own.nonfinite,
        **own.summary(),
        "worst_index": _unravel(worst, shape),
        "worst_expected": _number(expected),
        "worst_got": _number(came),
        "reference_max_abs": size.largest,
        "reference_mean_abs": size.mean_abs,
        "unit_roundoff": ROUNDOFF.get(got.dtype, 0.0),
        "reference_dtype": str(given).removeprefix("torch."),
        **own.over_bound(shape),
        "honest_err": None if honest is None else float(honest.max()) if honest.numel() else 0.0,
        "max_err_over_rule": by_rule.over_bound(shape)["max_err_over_bound"],
        "rule_over_bound": wide / narrow if narrow and math.isfinite(wide / narrow) else None,
        "nulls": [tally.null(kind) for kind, tally in trivial.items()],
        "best": best.null("rounded"),
    }


class _Answer:
    """A flattened output and its reference, compared in pieces."""

    def __init__(self, name: str, got: Any, want: Any, bound: Any, missing: Any, *, nan: bool) -> None:
        self.name, self.got, self.want, self.bound, self.missing, self.nan = name, got, want, bound, missing, nan
        self.whole = not (got.dtype.is_floating_point or want.dtype.is_floating_point)

    def part(self, piece: slice, *, flushed: bool = False) -> tuple[Any, Any, Any, Any]:
        """Return (expected, output, absolute error, bound or None) of a piece, as float64.

        Raises ProblemError for an invalid reference or bound.
        """
        got, want = self.got[piece], self.want[piece]
        unequal = got.to(torch.int64) != want.to(torch.int64) if self.whole else None  # a float64 holds no odd numbers beyond 2^53
        missing = None if self.missing is None else self.missing[piece]
        if missing is not None:
            got = torch.where(missing, torch.zeros_like(got), got)
        exact, plain = self.exact(piece), got.to(torch.float64)
        error = _error(plain, exact)
        if unequal is not None:
            error = torch.maximum(error, (unequal if missing is None else unequal & ~missing).to(torch.float64))
        if flushed and got.dtype in (torch.float32, torch.bfloat16):
            error[error <= torch.finfo(torch.float32).tiny] = 0.0
        return exact, plain, error, self._bound_of(piece, exact)

    def exact(self, piece: slice) -> Any:
        """Return the piece's reference after ``in_format``; 0 for missing elements. Raises ProblemError for NaN that is not expected."""
        got, want = self.got[piece], self.want[piece].to(torch.float64)
        if self.missing is not None:
            missing = self.missing[piece]
            want, got = torch.where(missing, 0.0, want), torch.where(missing, torch.zeros_like(got), got)
        if not self.nan and bool(torch.isnan(want).any()):
            raise ProblemError(f"reference {self.name!r} holds NaN")
        return in_format(want, got)

    def shifted(self, piece: slice, row: int) -> Any:
        """Return the piece of the reference shifted by one row; row 0 gets the last row."""
        begin, end, count = piece.start - row, piece.stop - row, self.want.numel()
        if begin >= 0:
            return self.exact(slice(begin, end))
        wrapped = self.exact(slice(begin + count, min(end, 0) + count))
        return torch.cat((wrapped, self.exact(slice(0, end)))) if end > 0 else wrapped

    def _bound_of(self, piece: slice, exact: Any) -> Any:
        if self.bound is None:
            return None
        bound = self.bound[piece].to(torch.float64)
        if self.missing is not None:
            bound = torch.where(self.missing[piece], 0.0, bound)
        if self.nan:
            bound = torch.where(torch.isnan(exact), 0.0, bound)
        if not bool((bound >= 0).all()):
            raise ProblemError(f"error_bound {self.name!r} is negative or NaN somewhere")
        if bool((torch.isinf(bound) & torch.isfinite(exact)).any()):
            raise ProblemError(f"error_bound {self.name!r} is infinite where the reference is finite, so any output would pass")
        return bound


@dataclass(frozen=True)
class _Size:
    """Mean, mean absolute and largest absolute value of a reference's finite elements; 0 if there are none."""

    mean: float
    mean_abs: float
    largest: float

    @classmethod
    def of(cls, answer: _Answer) -> _Size:
        total = absolute = largest = 0.0
        count = 0
        for piece in pieces(answer.want.numel()):
            exact = answer.exact(piece)
            size = exact.abs()
            if not math.isfinite(float(size.sum())):
                exact = exact[torch.isfinite(exact)]
                size = exact.abs()
            total, absolute, count = total + float(exact.sum()), absolute + float(size.sum()), count + exact.numel()
            largest = max(largest, float(size.max())) if exact.numel() else largest
        return cls(_mean(total, count), _mean(absolute, count), largest)


class _Tally:
    """Accumulates the errors of one output over its pieces. Non-finite errors are counted separately."""

    def __init__(self, bad_atol: float | None) -> None:
        self.bad_atol, self.bounded = bad_atol, False
        self.seen = self.nonfinite = self.bad = 0
        self._total, self._most, self._at, self._first = 0.0, -1.0, 0, 0
        self._over, self._over_at, self._over_error, self._over_bound = -1.0, 0, 0.0, 0.0

    def add(self, error: Any, bound: Any) -> None:
        """Add the absolute errors of the next piece; ``bound`` is per element, or None."""
        total, good = float(error.sum()), None
        if not math.isfinite(total):
            good = torch.isfinite(error)
            if not bool(good.all()):
                self._first = self._first if self.nonfinite else self.seen + int((~good).int().argmax())
                self.nonfinite += int((~good).sum())
            total = float(error[good].sum())
        if self.bad_atol is not None:
            self.bad += int(torch.count_nonzero(~(error <= self.bad_atol)))
        if error.numel() and (good is None or bool(good.any())):
            self._total += total
            finite = error if good is None else torch.where(good, error, -1.0)
            if float(finite.max()) > self._most:
                place = int(finite.argmax())
                self._most, self._at = float(finite[place]), self.seen + place
            if bound is not None:
                self._add_ratio(error, good, bound)
        self.seen += error.numel()

    def _add_ratio(self, error: Any, good: Any, bound: Any) -> None:
        """Update the largest error/bound ratio. An error with bound 0 counts as the largest float."""
        ratio = error / bound
        if good is not None or not math.isfinite(float(ratio.max())):
            ratio = torch.where(error == 0, 0.0, ratio).nan_to_num(posinf=sys.float_info.max)
            ratio = ratio if good is None else torch.where(good, ratio, -1.0)
        if float(ratio.max()) > self._over:
            place = int(ratio.argmax())
            self.bounded, self._over, self._over_at = True, float(ratio[place]), self.seen + place
            self._over_error, self._over_bound = float(error[place]), min(float(bound[place]), sys.float_info.max)

    @property
    def worst(self) -> int:
        """Return the flat index of the first non-finite error, or of the largest error."""
        return self._first if self.nonfinite else self._at

    def summary(self) -> dict[str, float | None]:
        """Return maximum and mean of the finite errors, and the percentage of elements above ``bad_atol``; non-finite errors count."""
        good = self.seen - self.nonfinite
        bad = None if self.bad_atol is None else 100.0 * self.bad / self.seen if self.seen else 0.0
        return {"max_abs_err": self._most if good else None, "mean_abs_err": _mean(self._total, good) if good else None, "bad_pct": bad}

    def over_bound(self, shape: Any) -> dict[str, Any]:
        """Return the largest error/bound ratio and its index, error and bound."""
        if not self.bounded:
            return {"max_err_over_bound": None, "bound_index": [], "bound_error": None, "bound_at": None}
        return {
            "max_err_over_bound": self._over,
            "bound_index": _unravel(self._over_at, shape),
            "bound_error": self._over_error,
            "bound_at": self._over_bound,
        }

    def null(self, kind: str) -> dict[str, Any]:
        """Return the error figures of a trivial output. Its ratio is None if an error is not finite."""
        over = None if self.nonfinite else self.over_bound(())["max_err_over_bound"]
        return {"kind": kind, **self.summary(), "max_err_over_bound": over}


def _mean(total: float, count: int) -> float:
    """The mean of ``count`` numbers; a sum beyond the range of a float counts as the largest float."""
    return max(-sys.float_info.max, min(total, sys.float_info.max)) / max(1, count) if not math.isnan(total) else 0.0


def _like(what: str, values: Any, want: Any) -> Any:
    """``values`` for each element of ``want``."""
    try:
        return torch.broadcast_to(values, want.shape)
    except RuntimeError:
        raise ProblemError(f"{what} has shape {tuple(values.shape)}, the reference {tuple(want.shape)}") from None


def _rounded(values: Any, dtype: Any) -> Any:
    """``values`` in the format of an output with ``dtype``, as float64."""
    return values.to(dtype if dtype.is_floating_point else torch.float64).to(torch.float64)


def in_format(want: Any, got: Any) -> Any:
    """Return the float64 ``want`` with what a kernel may write where it is beyond the range of ``got``'s format.

    That is infinity. A format without infinity has NaN or the largest number, whichever ``got`` has.
    """
    if not got.dtype.is_floating_point:
        return want
    largest = torch.finfo(got.dtype).max
    if bool((want.abs() <= largest).all()):
        return want
    rounded, given = want.to(got.dtype).to(torch.float64), got.to(torch.float64)
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
    if not math.isfinite(float(error.sum())):
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


def _unravel(index: int, shape: Any) -> list[int]:
    place: list[int] = []
    for size in reversed(shape):
        place.insert(0, index % size if size else 0)
        index //= size or 1
    return place


def _number(tensor: Any) -> float | str | None:
    """Return the tensor's only element (text if not finite), or None if it is empty."""
    if not tensor.numel():
        return None
    value = float(tensor[0])
    return value if math.isfinite(value) else str(value)
