"""Make structured values: inputs that break kernels which are right for random ones.

Each kind but "small" (see ``small_inputs``) changes one tensor of make_inputs; types, shapes and the other inputs stay the same. Floats get
the named values in their own format. Whole numbers only get values that the tensor already has, so indices stay in range. Tensors with all
different (a permutation) or ascending values (offsets) are not changed.

A case's inputs are named by the kind (``zero_rows``: of the largest input) or the kind and the input (``one_hot:weight``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import torch

from gates.core.errors import GatesError
from gates.task import small_inputs, value_contract
from gates.task.problem import DEFAULT_INPUTS, NON_FINITE, VALUES

SMALL = "small"
_SIXTEEN = (torch.float16, torch.bfloat16)

Make = Callable[[torch.Tensor, torch.Generator], "torch.Tensor | None"]


def inputs_of(problem: Any, family: str, shape: Mapping[str, int], seed: int, device: str) -> dict[str, Any]:
    """Return the inputs named ``family``: those of make_inputs for "default", of the problem's INPUT_FAMILIES, or structured ones.

    Raises GatesError for a family whose kernel arguments differ from make_inputs' in type or shape, and for structured values
    that these inputs can't take.
    """
    ordinary = problem.make_inputs(shape, seed, device)
    if family == DEFAULT_INPUTS:
        return ordinary
    if is_structured(problem, family):
        kind, _, name = family.partition(":")
        name = name or _main(problem, ordinary)
        value = ordinary.get(name)
        if kind == SMALL and (found := small_inputs.find(problem, shape, seed)) is not None:
            return dict(found.inputs)
        changed = _changed(kind, name, ordinary, seed) if isinstance(value, torch.Tensor) else None
        if changed is None:
            raise GatesError(
                f"inputs {family!r}: {name or 'no input'} can't take such values",
                hint=f"those it can take: {', '.join(kinds(problem, shape, seed))}",
            )
        return {**ordinary, name: changed}
    made = problem.INPUT_FAMILIES[family](shape, seed, device)
    for name, value in ordinary.items():
        ours, usual = ((getattr(one, "dtype", type(one)), tuple(getattr(one, "shape", ()))) for one in (made.get(name), value))
        if name in problem.ARGUMENTS and ours != usual:
            raise GatesError(f"inputs {family!r}: {name} is {ours[0]} {list(ours[1])}, make_inputs gives {usual[0]} {list(usual[1])}")
    return made


def is_structured(problem: Any, family: str) -> bool:
    """Return whether ``family`` names structured values, not inputs of the problem."""
    return family.partition(":")[0] in (*VALUES, *NON_FINITE) and family not in getattr(problem, "INPUT_FAMILIES", {})


def kinds(problem: Any, shape: Mapping[str, int], seed: int) -> list[str]:
    """Return the structured inputs of a run: each allowed kind on the largest input, and one drawn kind on each other input, and
    ``small``.
    """
    inputs = problem.make_inputs(shape, seed, "cpu")
    wanted = [kind for kind in VALUES if kind not in getattr(problem, "OUT_OF_CONTRACT", ())] + list(getattr(problem, "NON_FINITE", ()))
    wanted = [kind for kind in wanted if kind not in getattr(problem, "INPUT_FAMILIES", {})]
    main, generator = _main(problem, inputs), random.Random(seed)
    fitting = {
        name: [kind for kind in wanted if _changed(kind, name, inputs, seed) is not None]
        for name, value in inputs.items()
        if name in problem.ARGUMENTS and isinstance(value, torch.Tensor)
    }
    others = [f"{generator.choice(found)}:{name}" for name, found in fitting.items() if name != main and found]
    scaled = SMALL in wanted and small_inputs.find(problem, shape, seed) is not None
    return [*fitting.get(main, []), *others, *([SMALL] if scaled else [])]


def drawn(problem: Any, shape: Mapping[str, int], seed: int) -> list[str]:
    """Return ``kinds`` in the order in which a run tries them:

    ``small``, which alone narrows limits, and those that the problem names; then by ``seed``.
    """
    found = kinds(problem, shape, seed)
    random.Random(seed).shuffle(found)
    return sorted(found, key=lambda kind: kind.partition(":")[0] not in (SMALL, *NON_FINITE))


def _main(problem: Any, inputs: Mapping[str, Any]) -> str:
    """The kernel's largest input tensor, the first of several."""
    sizes = {name: inputs[name].numel() for name in problem.ARGUMENTS if isinstance(inputs.get(name), torch.Tensor)}
    return max(sizes, key=sizes.__getitem__, default="")


def _changed(kind: str, name: str, inputs: Mapping[str, Any], seed: int) -> torch.Tensor | None:
    """The input ``name`` with values of ``kind``; None if its type or its contract has none, or if it holds too little to change."""
    value = inputs[name]
    if value.numel() < 2 or value.dtype.is_complex:
        return None
    generator = torch.Generator().manual_seed(seed + 2)
    if not value.dtype.is_floating_point:
        if value_contract.falls_or_rises(value) or value_contract.is_distinct(value) or value_contract.ordered_beside(name, inputs):
            return None
        changed = _whole_numbers(kind, value, generator)
        return None if changed is None else value_contract.restored(changed, value)
    if kind not in _FLOATS:
        return None
    changed = _FLOATS[kind](value.to(torch.float64), generator, value.dtype)
    if changed is None:
        return None
    rounded = value_contract.restored(changed.to(value.dtype), value)
    spoilt = kind not in NON_FINITE and not bool(torch.isfinite(rounded.to(torch.float64)).all())
    return None if spoilt else rounded


def _whole_numbers(kind: str, value: torch.Tensor, generator: torch.Generator) -> torch.Tensor | None:
    flat = value.reshape(-1).to(torch.int64)
    if bool((flat.diff() >= 0).all()):
        return None
    low, high = flat.min(), flat.max()
    made: dict[str, Callable[[], torch.Tensor]] = {
        "all_equal": lambda: torch.full_like(flat, int(flat[_place(flat, generator)])),
        "one_hot": lambda: torch.where(torch.arange(flat.numel()) == _place(flat, generator), high, low),
        "ascending": lambda: flat.sort().values,
        "descending": lambda: flat.sort(descending=True).values,
        "alternating": lambda: torch.where(torch.arange(flat.numel()) % 2 == 0, low, high),
    }
    if kind == "zero_rows" and bool((flat == 0).any()):
        made[kind] = lambda: torch.where(_every_second_row(value), 0, value.to(torch.int64)).reshape(-1)
    return made[kind]().to(value.dtype).view(value.shape) if kind in made else None


def _place(flat: torch.Tensor, generator: torch.Generator) -> int:
    return int(torch.randint(flat.numel(), (1,), generator=generator))


def _every_second_row(value: torch.Tensor) -> torch.Tensor:
    """True in rows 1, 3, 5, …; in the only row, or the second half of a tensor with one axis."""
    if value.dim() < 2:
        return torch.arange(value.numel()).view(value.shape) >= value.numel() // 2
    rows = value.numel() // value.shape[-1]
    picked = torch.arange(rows) % 2 == 1 if rows > 1 else torch.ones(1, dtype=torch.bool)
    return picked[:, None].expand(rows, value.shape[-1]).reshape(value.shape)


def _spread(value: torch.Tensor) -> float:
    return float(value.std()) or float(value.abs().max()) or 1.0


def _offset(dtype: torch.dtype) -> float | None:
    """How many spreads far is far: large for single precision, within the squares of half; None where a code has few values."""
    return None if dtype.itemsize == 1 else 32.0 if dtype in _SIXTEEN else 4096.0


def _all_equal(value: torch.Tensor, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    return torch.full_like(value, float(value.reshape(-1)[_place(value.reshape(-1), generator)]))


def _one_hot(value: torch.Tensor, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    """One element of each row as large as the largest, the rest zero."""
    places = torch.randint(value.shape[-1], (*value.shape[:-1], 1), generator=generator)
    return torch.zeros_like(value).scatter_(-1, places, float(value.abs().max()) or 1.0)


def _huge_offset(value: torch.Tensor, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor | None:
    """The same spread around a mean that is far from zero."""
    far = _offset(dtype)
    return None if far is None else value + far * _spread(value)


def _denormal(value: torch.Tensor, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor | None:
    """Every second element is a subnormal number of its format."""
    if dtype.itemsize == 1:
        return None
    small = value / (float(value.abs().max()) or 1.0) * torch.finfo(dtype).tiny / 2
    return torch.where(torch.arange(value.numel()).view(value.shape) % 2 == 1, small, value)


def _zero_rows(value: torch.Tensor, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    return torch.where(_every_second_row(value), 0.0, value)


def _alternating(value: torch.Tensor, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor | None:
    """Large values of alternating sign, whose sums cancel down to the ordinary ones."""
    far = _offset(dtype)
    if far is None:
        return None
    signs = 1.0 - 2.0 * (torch.arange(value.numel()).view(value.shape) % 2)
    return value + signs * far * _spread(value)


def _some(value: torch.Tensor, generator: torch.Generator, put: torch.Tensor) -> torch.Tensor:
    """About 1 in 64 elements, and one at least, from ``put``."""
    places = torch.randperm(value.numel(), generator=generator)[: max(1, value.numel() // 64)]
    return value.reshape(-1).index_copy(0, places, put[torch.arange(places.numel()) % put.numel()]).view(value.shape)


_FLOATS: dict[str, Callable[[torch.Tensor, torch.Generator, torch.dtype], torch.Tensor | None]] = {
    "all_equal": _all_equal,
    "one_hot": _one_hot,
    "huge_offset": _huge_offset,
    "denormal": _denormal,
    "ascending": lambda value, generator, dtype: value.sort(dim=-1).values,
    "descending": lambda value, generator, dtype: value.sort(dim=-1, descending=True).values,
    "zero_rows": _zero_rows,
    "alternating": _alternating,
    "nan": lambda value, generator, dtype: _some(value, generator, torch.tensor([torch.nan], dtype=torch.float64)),
    "infinity": lambda value, generator, dtype: _some(value, generator, torch.tensor([torch.inf, -torch.inf], dtype=torch.float64)),
}
