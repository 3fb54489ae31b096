"""Draw fresh shapes per run, so that a kernel can't be right only for its author's sizes.

They come from the problem's DIMS. Without DIMS they are inferred from SHAPES: sizes between the smallest and the largest, in
steps of their greatest common divisor. Sizes that are proportional in all SHAPES stay proportional. If all declared values of a
size are powers of two, so are the drawn ones. The problem does not promise inferred shapes, so a kernel may refuse them.

Drawn shapes are cheap: none costs more than a few of the first of SHAPES, than the largest of ODD_SHAPES, or than a given share
of the run, and none has inputs that take long to draw and to compare. They favour sizes at which kernels break: 1, primes, and
sizes next to a multiple of 8 to 128.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from gates.core.errors import GatesError
from gates.task.needs import draws_within
from gates.task.problem import FRESH, fresh_name, outputs_of

COUNT = 8
CHEAP = 1e6  # cost of a launch that nobody notices
_OUTPUT = 400.0  # cost of an output's element: several comparisons in double precision, beside one operation's or byte's
_MOST_INPUT = 2**20  # elements of an input: a tenth of a second to draw, hand over and compare
_MOST_OF_ANY = 2**31
_TRIES = 40
_TILES = (8, 16, 32, 64, 128)
_KINDS = ("wide", "tail", "middle", "prime", "ones")  # of each dimension in turn

Sizes = dict[str, int]


def draw(problem: Any, seed: int, affordable: float = 0.0) -> dict[str, Sizes]:
    """Return up to COUNT new shapes by name, the same ones for the same ``seed``; none costs more than a few of the problem's small ones,
    or ``affordable``.

    Fewer if the ranges have fewer cheap shapes. Raises GatesError if a DIMS function returns no shape.
    """
    generator, price = random.Random(seed), partial(cost, problem)
    dims = problem.DIMS if declared(problem) else _inferred(problem)
    small = max(price(problem.SHAPES[name]) for name in (next(iter(problem.SHAPES)), *getattr(problem, "ODD_SHAPES", ())))
    budget = max(affordable, small, min(4 * small, CHEAP))

    most, first = _MOST_INPUT, next(iter(problem.SHAPES.values()))
    while most < _MOST_OF_ANY and not _fits(problem, first, most):
        most *= 2  # an input may be as large as one of the first shape, such as a table of a fixed size

    def dear(sizes: Sizes) -> bool:
        return price(sizes) > budget or not _fits(problem, sizes, most)

    known = [dict(sizes) for sizes in problem.SHAPES.values()]
    found: dict[str, Sizes] = {}
    for number in range(_TRIES):
        if len(found) == COUNT or not dims:
            break
        sizes = _asked(problem, dims, generator) if callable(dims) else _drawn(dims, number, generator)
        if not callable(dims):
            sizes = _affordable(dear, sizes, dims, generator)
        if sizes not in known and not dear(sizes):
            found.setdefault(fresh_name(sizes), sizes)
    return found


def declared(problem: Any) -> bool:
    """Return whether the problem declares its sizes by DIMS."""
    return hasattr(problem, "DIMS")


def is_inferred(problem: Any, shape: str) -> bool:
    """Return whether nobody promised ``shape``: it is drawn and not declared by the problem, or one that the problem only offers."""
    return (shape.startswith(FRESH) and not declared(problem)) or shape in getattr(problem, "OFFERED", ())


def _asked(problem: Any, make: Callable[[random.Random], Mapping[str, int]], generator: random.Random) -> Sizes:
    """One shape from a DIMS that is a function."""
    try:
        sizes = make(generator)
    except Exception as error:  # the user's function: whatever it raises is told
        raise GatesError(
            f"problem {problem.__name__}: DIMS raises {type(error).__name__}: {error}",
            hint="DIMS takes a random.Random and returns the sizes of one shape",
        ) from error
    first = next(iter(problem.SHAPES.values()))
    if not isinstance(sizes, Mapping) or set(sizes) != set(first) or not all(type(size) is int for size in sizes.values()):
        raise GatesError(
            f"problem {problem.__name__}: DIMS gives {sizes!r}, not a whole number for each of {', '.join(first)}",
            hint="a function DIMS takes a random.Random and returns the sizes of one shape",
        )
    return {name: sizes[name] for name in first}


def _drawn(dims: Mapping[str, Any], number: int, generator: random.Random) -> Sizes:
    """A size for each dimension: of one kind for one of them, both in turn by ``number``; the others are small, or one of a tail."""
    ranges = sorted(
        (name for name, values in dims.items() if isinstance(values, range) and len(values) > 1), key=lambda name: -len(dims[name])
    )
    chosen, kind = (ranges[number % len(ranges)], _KINDS[number // len(ranges) % len(_KINDS)]) if ranges else (None, "")
    sizes: Sizes = {}
    for name, values in dims.items():
        if isinstance(values, range):
            sizes[name] = _size(values, kind if name == chosen else generator.choice(("low", "tail", "prime")), generator)
        elif isinstance(values, int):
            sizes[name] = values
        else:
            sizes[name] = generator.choice(list(values))
    return _tied(sizes, dims)


def _size(values: range, kind: str, generator: random.Random) -> int:
    low, high = values[0], values[-1]
    if kind == "ones":
        return low
    if kind == "wide":  # the upper half of what is allowed: sizes beyond one block's threads
        return generator.choice(values[len(values) // 2 :])
    if kind == "middle":
        return generator.choice(values[len(values) // 8 : len(values) // 2 + 1])
    wanted = round(math.exp(generator.uniform(math.log(max(low, 1)), math.log(max(high, 1)))))
    if kind == "low":
        wanted = min(wanted, low + 8 * values.step)
    elif kind == "tail":
        tile = generator.choice([tile for tile in _TILES if tile <= high] or [1])
        wanted = max(1, round(wanted / tile)) * tile + generator.choice((-1, 1))
    elif kind == "prime":
        wanted = next((size for size in range(wanted, low, -1) if _is_prime(size)), wanted)
    return (
        min(values, key=lambda size: abs(size - wanted))
        if len(values) <= 64
        else values[min(max((wanted - low) // values.step, 0), len(values) - 1)]
    )


def _fits(problem: Any, sizes: Mapping[str, Any], most: int) -> bool:
    """Return whether no input of the shape has more than ``most`` elements. Where their product is small, none is drawn."""
    product = math.prod(max(1, size) for size in sizes.values() if isinstance(size, int))
    return product <= _MOST_INPUT or draws_within(problem, sizes, most)


def _affordable(dear: Callable[[Sizes], bool], sizes: Sizes, dims: Mapping[str, Any], generator: random.Random) -> Sizes:
    """``sizes`` with ranges drawn lower until the shape is not ``dear``; the largest room goes to one dimension."""
    sizes = dict(sizes)
    ranges = {name: values for name, values in dims.items() if isinstance(values, range)}
    kept = max(ranges, key=lambda name: sizes[name], default=None)
    for _ in range(64):
        if not dear(sizes):
            break
        high = {name: values for name, values in ranges.items() if sizes[name] > values[0]}
        others = [name for name in high if name != kept]
        if not high:
            break
        name = generator.choice(others) if others else next(iter(high))
        below = range(high[name][0], max(sizes[name] * 3 // 4, high[name][0]) + 1, high[name].step)
        sizes[name] = generator.choice(below[len(below) // 2 :])
        sizes = _tied(sizes, dims)
    return sizes


class _Tied(dict[str, Any]):
    """Inferred ranges, with the sizes that follow from others: name -> (other name, numerator, denominator)."""

    def __init__(self) -> None:
        super().__init__()
        self.ties: dict[str, tuple[str, int, int]] = {}


def _tied(sizes: Sizes, dims: Mapping[str, Any]) -> Sizes:
    if isinstance(dims, _Tied):
        sizes = {**sizes, **{name: sizes[other] * up // down for name, (other, up, down) in dims.ties.items()}}
    return sizes


def _inferred(problem: Any) -> _Tied | None:
    """What the problem's SHAPES leave open; None where that is nothing, or where they are not of one kind."""
    shapes: Sequence[Mapping[str, Any]] = list(problem.SHAPES.values())
    names = list(shapes[0])
    if any(list(shape) != names or not all(type(size) is int and size > 0 for size in shape.values()) for shape in shapes):
        return None
    found = _Tied()
    for name in names:
        column = [shape[name] for shape in shapes]
        values = sorted(set(column))
        leader = next((other for other in found if len(values) > 1 and _proportional(column, [shape[other] for shape in shapes])), None)
        step = math.gcd(*values)
        if leader is not None:
            down = math.gcd(column[0], shapes[0][leader])
            found.ties[name] = (leader, column[0] // down, shapes[0][leader] // down)
        elif len(values) == 1 or all(size & (size - 1) == 0 for size in values):
            found[name] = values
        else:
            found[name] = range(values[0], values[-1] + 1, step)
    return found if any(len(values) > 1 for values in found.values()) else None


def _proportional(one: Sequence[int], other: Sequence[int]) -> bool:
    return len(set(other)) > 1 and all(a * other[0] == b * one[0] for a, b in zip(one, other, strict=True))


def cost(problem: Any, sizes: Mapping[str, int]) -> float:
    """Return what a launch of a shape and its check cost on the emulator, roughly in nanoseconds: its least work, or the product of its
    sizes, and its outputs.
    """
    whole = tuple(size for size in sizes.values() if isinstance(size, int))
    try:
        least = problem.work(sizes)
        work = float(least.get("flops") or 0.0) + float(least.get("bytes") or 0.0)
    except Exception:  # no work(), or one that does not fit
        work = float(math.prod(whole))
    try:
        outputs = [tuple(value.shape) for value in outputs_of(problem, sizes).values()]
    except Exception:  # no such outputs, or no memory for them
        outputs = [whole]
    return work + _OUTPUT * sum(map(math.prod, outputs))


def _is_prime(size: int) -> bool:
    return size > 1 and all(size % factor for factor in range(2, math.isqrt(size) + 1))
