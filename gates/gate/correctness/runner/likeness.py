"""What a wrong output looks like instead: scaled, shifted, taken from elsewhere, or a known wrong answer.

Every test is a comparison of numbers; a likeness is reported only where it leaves at most
``RESIDUAL`` of the output's own size (root mean square) unexplained.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

RESIDUAL = 0.03
_MOST = 6
_FACTOR = 0.001  # a factor nearer to 1 than this may be a rounding that always goes one way
_SURE = 0.003  # a known wrong answer that is as near as this ends the search
_OTHERS_S = 3.0  # time for the known wrong answers; those left are not compared
_SAMPLES = 1024  # positions beside an axis on which slices are compared
_PROBES = 32  # indices of an axis that are looked for elsewhere
_MOST_SLICES = 4096
_SHIFTS = 64  # of a tensor with one axis

Found = dict[str, Any]


def likenesses(
    got: torch.Tensor,
    want: torch.Tensor,
    bad: torch.Tensor,
    chosen: Sequence[torch.Tensor],
    names: Sequence[str],
    others: Mapping[str, Callable[[], torch.Tensor]],
) -> list[Found]:
    """All that the wrong part of ``got`` is like, the most telling first.

    ``got``, ``want``: float64, one shape. ``bad``: the wrong elements. ``chosen``: for each axis the indices that
    hold them. ``others``: name -> maker of a wrong answer of the same shape.
    """
    some_got, some_want = got[bad], want[bad]
    usable = torch.isfinite(some_got) & torch.isfinite(some_want)
    if int(usable.sum()) < 4 or int(usable.sum()) < bad.sum() / 2:
        return []
    part_got, part_want = sub(got, chosen), sub(want, chosen)
    mask = torch.isfinite(part_got) & torch.isfinite(part_want)
    if float(sub(bad, chosen).double().mean()) < 0.5:  # too thin for the product of indices to mean much
        mask &= sub(bad, chosen)
    found = list(_plain(some_got[usable], some_want[usable]))
    if not any(one["kind"] in ("zero", "constant") for one in found):
        found = [*_others(got, want, bad, others), *found]
        found += _scaled(part_got, part_want, mask, names)
        found += _moved(got, want, chosen, names)
        found += _uniform(part_got, part_want, names)
        found += _reordered(got, want, bad, names)
    return found[:_MOST]


def _others(got: torch.Tensor, want: torch.Tensor, bad: torch.Tensor, others: Mapping[str, Callable[[], torch.Tensor]]) -> Iterator[Found]:
    """The known wrong answers that ``got`` equals where it is wrong, the nearest first; NaN in them is not compared."""
    started = time.monotonic()
    near: list[Found] = []
    usable = bad & torch.isfinite(got)
    for name, make in others.items():
        if time.monotonic() - started > _OTHERS_S:
            break
        try:
            answer = make().to(torch.float64)
        except (RuntimeError, ValueError, IndexError, KeyError, TypeError):
            continue  # a mistake that this shape can't hold
        if answer.shape == got.shape:
            both = usable & torch.isfinite(answer)
            left, before = (_relative(got[both] - other[both], got[both]) for other in (answer, want))
            if int(both.sum()) >= 8 and left <= RESIDUAL and left < before / 4:
                near.append({"kind": "equals", "residual": left, "text": name})
                if left <= _SURE:
                    break
    yield from sorted(near, key=lambda one: one["residual"])[:1]


def _plain(got: torch.Tensor, want: torch.Tensor) -> Iterator[Found]:
    """Zeros, one constant, a constant offset: of the wrong elements alone."""
    size, spread = float(want.norm() / want.numel() ** 0.5), float(got.max() - got.min())
    if float(got.abs().max()) <= 1e-6 * size:
        yield {"kind": "zero", "residual": 0.0}
    elif spread <= 1e-6 * float(got.abs().max()) and float(want.max() - want.min()) > 10 * spread and got.numel() > 4:
        yield {"kind": "constant", "residual": 0.0, "value": float(got[0])}
    else:
        error = got - want
        middle = float(error.mean())
        left = _relative(error - middle, error)
        if left <= RESIDUAL and float(want.std()) > 0.01 * abs(middle):
            yield {"kind": "offset", "residual": left, "value": middle}


def _scaled(got: torch.Tensor, want: torch.Tensor, mask: torch.Tensor, names: Sequence[str]) -> Iterator[Found]:
    """A factor of the reference: one for all, else one for each index of the leading axes."""
    got, want = torch.where(mask, got, 0.0), torch.where(mask, want, 0.0)
    total = float(got.norm())
    for depth in range(got.dim()):
        inner = tuple(range(depth, got.dim()))
        if (depth and got.shape[depth - 1] == 1) or int(torch.tensor(got.shape[depth:]).prod()) < 4 or total == 0:
            continue
        power = (want * want).sum(dim=inner, keepdim=True)
        factors = (got * want).sum(dim=inner, keepdim=True) / torch.where(power > 0, power, 1.0)
        left = float((got - factors * want).norm()) / total
        known = factors[power > 0]
        if left > RESIDUAL or not known.numel() or float((known - 1).abs().max()) <= max(_FACTOR, 3 * left):
            continue
        found = {"kind": "scaled", "residual": left, "value": float(known.median())}
        if depth:
            found |= {"axis": names[depth - 1], "low": float(known.min()), "high": float(known.max())}
        yield found
        return


def _moved(got: torch.Tensor, want: torch.Tensor, chosen: Sequence[torch.Tensor], names: Sequence[str]) -> Iterator[Found]:
    """Slices of the output that are other slices of the reference, along one axis or two leading ones as one."""
    if got.dim() == 1:
        yield from _shifted_line(got, want, chosen[0], names[0])
        return
    for axis in range(got.dim()):
        if got.shape[axis] > 1:
            pairs, left = _origins(got, want, chosen, axis)
            if pairs:
                yield _move(pairs, left, names[axis], got.shape[axis])
    if got.dim() >= 3 and got.shape[0] > 1 and got.shape[1] > 1:
        whole = [i * got.shape[1] + j for i in chosen[0].tolist() for j in chosen[1].tolist()]
        joined = [torch.tensor(whole), *chosen[2:]]
        pairs, left = _origins(got.flatten(0, 1), want.flatten(0, 1), joined, 0)
        split = {_pair(i, got.shape[1]): _pair(j, got.shape[1]) for i, j in pairs.items()}
        if pairs and all(i[0] != j[0] and i[1] != j[1] for i, j in split.items()):  # else one axis told it
            yield {"kind": "taken", "residual": left, "axis": f"{names[0]}, {names[1]}", "text": _listed(split)}


def _origins(got: torch.Tensor, want: torch.Tensor, chosen: Sequence[torch.Tensor], axis: int) -> tuple[dict[int, int], float]:
    """Wrong index -> index of the reference that stands there, and the largest residual; empty where one has none."""
    for other, index in enumerate(chosen):
        if other != axis:
            got, want = got.index_select(other, index), want.index_select(other, index)
    picked = chosen[axis][torch.linspace(0, len(chosen[axis]) - 1, min(_PROBES, len(chosen[axis]))).long()]
    mine, theirs = (x.movedim(axis, 0).reshape(x.shape[axis], -1) for x in (got.index_select(axis, picked), want))
    if mine.shape[1] < 4 or theirs.shape[0] > _MOST_SLICES:
        return {}, 0.0
    places = torch.linspace(0, mine.shape[1] - 1, min(_SAMPLES, mine.shape[1])).long()
    mine, theirs = mine[:, places], theirs[:, places]
    if not bool(torch.isfinite(mine).all()):
        return {}, 0.0
    distance = (theirs * theirs).sum(dim=1) - 2 * mine @ theirs.T  # but for a term of the row alone
    nearest = distance.argmin(dim=1)
    left = (mine - theirs[nearest]).norm(dim=1) / mine.norm(dim=1).clamp(min=1e-300)
    if float(left.max()) > RESIDUAL or bool((nearest == picked).any()):
        return {}, 0.0
    return dict(zip(picked.tolist(), nearest.tolist(), strict=True)), float(left.max())


def _move(pairs: dict[int, int], left: float, name: str, size: int) -> Found:
    half = (size - 1) // 2
    steps = {(j - i + half) % size - half for i, j in pairs.items()}  # around the end too
    if len(pairs) > 1 and len(steps) == 1:
        return {"kind": "shifted", "residual": left, "axis": name, "value": float(steps.pop())}
    return {"kind": "taken", "residual": left, "axis": name, "text": _listed(pairs)}


def _shifted_line(got: torch.Tensor, want: torch.Tensor, chosen: torch.Tensor, name: str) -> Iterator[Found]:
    for step in sorted(range(-_SHIFTS, _SHIFTS + 1), key=abs):
        inside = chosen[(chosen + step >= 0) & (chosen + step < got.numel())]
        if step and len(inside) >= max(8, len(chosen) // 2):
            left = _relative(got[inside] - want[inside + step], got[inside])
            if left <= RESIDUAL:
                yield {"kind": "shifted", "residual": left, "axis": name, "value": float(step)}
                return


def _uniform(got: torch.Tensor, want: torch.Tensor, names: Sequence[str]) -> Iterator[Found]:
    """The same values for every index of an axis, where the reference has others."""
    for axis in range(got.dim()):
        if got.shape[axis] > 1 and bool(torch.isfinite(got).all()):
            left, natural = (_relative(x - x.mean(dim=axis, keepdim=True), x) for x in (got, want))
            if left <= RESIDUAL and natural > 4 * max(left, RESIDUAL / 4):
                yield {"kind": "uniform", "residual": left, "axis": names[axis]}


def _reordered(got: torch.Tensor, want: torch.Tensor, bad: torch.Tensor, names: Sequence[str]) -> Iterator[Found]:
    """The reference written in another order of axes."""
    if not 2 <= got.dim() <= 5 or float(bad.double().mean()) < 0.3:
        return
    places = torch.linspace(0, got.numel() - 1, min(4096, got.numel())).long()
    mine = got.reshape(-1)[places]
    for order in itertools.permutations(range(got.dim())):
        left = _relative(mine - want.permute(order).reshape(-1)[places], mine)
        if list(order) != sorted(order) and left <= RESIDUAL:
            yield {"kind": "reordered", "residual": left, "text": ", ".join(names[axis] for axis in order)}
            return


def sub(tensor: torch.Tensor, chosen: Sequence[torch.Tensor]) -> torch.Tensor:
    """The part of ``tensor`` at the ``chosen`` indices of each axis."""
    for axis, index in enumerate(chosen):
        tensor = tensor.index_select(axis, index)
    return tensor


def _relative(error: torch.Tensor, size: torch.Tensor) -> float:
    """Root mean square of ``error`` over that of ``size``; infinite where it can't be told."""
    norm = float(size.norm())
    value = float(error.norm()) / norm if norm > 0 else float("inf")
    return value if value == value else float("inf")


def _pair(index: int, size: int) -> tuple[int, int]:
    return index // size, index % size


def _listed(pairs: Mapping[Any, Any], most: int = 4) -> str:
    shown = ", ".join(f"{i} <- {j}" for i, j in itertools.islice(pairs.items(), most))
    return shown + (f" and {len(pairs) - most} more" if len(pairs) > most else "")
