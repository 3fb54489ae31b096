"""From an error map to what a person needs to know: where an output is wrong, and the likely causes.

A pattern of wrong elements has few usual causes: the last rows of a shape that is no multiple of a
tile, sixteen of every sixty-four rows (one warp's stripe), one index of a batch axis, a factor. The
causes are likely ones, in the order of how much the numbers say for them; they decide nothing.

Example: of 65536 elements wrong in rows 32 to 63 and columns 16 to 31 of each head, the map is
"S 32-63 and D 16-31 of every H: 4096 of 65536 elements", and the first cause a fragment or a warp's part of a tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from gates.gate.correctness.error_map import AxisSpan, ErrorMap, Likeness
from gates.task.problem import COMPLEX_PART

MOST_CAUSES = 3
KNOWN_ANSWER = "the values are those of: "  # begins a cause that is certain: nothing else is told
_TILES = (128, 64, 32, 16, 8)
_FRAGMENT = 16  # the edge of a tensor-core fragment, the unit in which warps share out a tile
_DENSE = 0.5  # of a product of indices; a race or a rounding leaves it thinner
_FEW = 4
_FULL = 0.8  # so full that it may be called whole: errors below the limit are left out by chance
_SMALL = 0.02  # relative error that a lower precision can make
_TELLING = 10.0  # relative error beyond which its size says nothing: the values are near zero
_UNKNOWN = "no known pattern; a shape of a single tile, and inputs that are all equal, narrow it down"


def map_line(found: ErrorMap) -> str:
    """Where the wrong elements lie, in one line: ``S 64 of every B, H, D: 384 of 24960 elements``."""
    axes = [axis for axis in _told_axes(found) if axis.size > 1]
    parts = [f"{axis.name} {_indices(axis)}" for axis in axes if not axis.whole]
    whole = [axis.name for axis in axes if axis.whole]
    place = " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))
    if whole and parts:
        place += f" of every {', '.join(whole)}"
    counts = f"{found.bad} of {found.elements} elements"
    if not parts:
        place = "everywhere" if found.filled >= _FULL else "spread everywhere"
    elif _DENSE <= found.filled < _FULL:
        place = f"parts of {place}"
    if found.filled < _DENSE:
        thin = "scattered single elements" if not _whole_rows(found) else f"{found.rows} of {found.rows_of} rows, scattered"
        place = f"{thin} over {place}" if parts else thin
    extra = []
    if found.nonfinite:
        extra.append("all NaN or infinite" if found.nonfinite == found.bad else f"{found.nonfinite} NaN or infinite")
    if found.outside:
        extra.append(f"{found.outside} stray ones elsewhere")
    return f"{place}: {counts}" + (f" ({', '.join(extra)})" if extra else "")


def elements_line(found: ErrorMap) -> str:
    """The first wrong elements: ``[0, 0, 64, 0] 0.118 instead of 0.0312; …``."""
    return "; ".join(f"[{', '.join(map(str, one.index))}] {_both(one.got, one.expected)}" for one in found.first)


def causes(found: ErrorMap, unwritten: int = 0, *, half: bool = True, differs: bool = False) -> tuple[str, ...]:
    """At most MOST_CAUSES likely causes of the pattern, the best supported first; never empty.

    ``unwritten``: how many elements of the output show the poison of every call, which no arithmetic gives.
    ``half``: the output is fp16. ``differs``: equal calls gave other values, and not for the poison alone.
    """
    told = list(dict.fromkeys(_all(found, unwritten, half, differs)))[:MOST_CAUSES]
    certain = next((place for place, text in enumerate(told) if text.startswith(KNOWN_ANSWER)), MOST_CAUSES)
    return tuple(told[: certain + 1]) or (_UNKNOWN,)


def _told_axes(found: ErrorMap) -> tuple[AxisSpan, ...]:
    """The axes to speak of: those before the last two as one, where that says more."""
    return found.axes if found.joined is None else (found.joined, *found.axes[-2:])


def _all(found: ErrorMap, unwritten: int, half: bool, differs: bool) -> Iterator[str]:
    if differs:
        yield "a race, or memory read before it is written: equal calls give different values"
    if unwritten:
        yield (
            f"never written: {unwritten} of {found.elements} elements still hold the poison of every call: a store left out, "
            "a bounds check that leaves out too much, a grid too small"
        )
    known = [one for one in found.likenesses if one.kind == "equals"]
    for one in known or found.likenesses:
        yield from _like(one, found)
    if found.nonfinite * 2 > found.bad and found.nonfinite > unwritten:  # the poison is NaN itself
        yield from _not_finite(found, half)
    if found.bad <= _FEW < found.elements:
        yield "very few elements: one thread's store or index, or a race for these places"
    axes = _told_axes(found)
    for place, axis in [*enumerate(axes)][-2:] + [*enumerate(axes)][:-2]:  # rows and columns tell most
        yield from _of_axis(axis, last=place == len(axes) - 1, rows=place == len(axes) - 2, dense=found.filled >= _DENSE)
    if not found.likenesses and not found.nonfinite and not differs:
        yield from _spread(found)


def _like(one: Likeness, found: ErrorMap) -> Iterator[str]:
    sure = f"(but for {one.residual:.1%})" if one.residual >= 5e-4 else ""
    if one.kind == "equals":
        yield f"{KNOWN_ANSWER}{one.text} {sure}".rstrip()
    elif one.kind == "zero":
        yield "zeros where values belong: never accumulated, multiplied by a zero factor, or not stored"
    elif one.kind == "constant":
        yield f"one constant, {_number(one.value)}: initialised and never computed, or one element broadcast"
    elif one.kind == "uniform":
        yield f"the same for every {one.axis}: the index along {one.axis} does not reach the computation, or weights are all equal"
    elif one.kind == "offset":
        yield f"off by the constant {_number(one.value)}: a term added twice or left out, an accumulator that does not start at zero"
    elif one.kind == "scaled" and not one.axis:
        yield (
            f"scaled by {_factor(one.value, found)} {sure}".rstrip() + ": a scale factor or the final division is missing, doubled or wrong"
        )
    elif one.kind == "scaled":
        span = f"a factor for each {one.axis}, {_number(one.low)} to {_number(one.high)} {sure}".rstrip()
        if one.axis == found.axes[-2 if len(found.axes) > 1 else -1].name:
            yield f"{span}: each row's own factor is wrong, such as the final division by its sum or the rescaling of its accumulator"
        else:
            yield f"{span}: the scale of another {one.axis} is used, or a scale of each {one.axis} is missing"
    elif one.axis == COMPLEX_PART and one.kind in ("shifted", "taken"):
        yield "the real and the imaginary part are exchanged"
    elif one.kind == "shifted":
        step = int(one.value or 0)
        yield (
            f"shifted by {step} along {one.axis} (got[i] = expected[i {'+' if step > 0 else '-'} {abs(step)}]): a start index or a "
            f"pointer off by {abs(step)}"
        )
    elif one.kind == "taken":
        yield f"values of another {one.axis} ({one.text}): a wrong index or offset along {one.axis}"
    elif one.kind == "reordered":
        yield f"the right values in the layout {one.text}: strides of the store, or of the loads, in the wrong order"


def _not_finite(found: ErrorMap, half: bool) -> Iterator[str]:
    if found.infinite == found.nonfinite and not half:
        yield "infinity: a variable or memory that is read before it is set, a division by zero, or overflow"
    elif found.infinite == found.nonfinite:
        yield "infinity: overflow of fp16 (beyond 65504) in a stored intermediate, or a division by zero"
    else:
        yield (
            "NaN: memory read before it was written (missing barrier or wait, a row never loaded, a read past a buffer: see the "
            "sanitizer gate), infinity - infinity, or 0/0 (a row with nothing unmasked)"
        )


def _of_axis(axis: AxisSpan, *, last: bool, rows: bool, dense: bool) -> Iterator[str]:
    """Causes for which the wrong indices of one axis speak."""
    if axis.whole or axis.size == 1 or not axis.ranges:
        return
    if axis.name == COMPLEX_PART:
        yield f"only the {('real', 'imaginary')[axis.ranges[0][0]]} part is wrong: a sign (a conjugate), or a part left out"
        return
    if axis.stripe is not None:
        period, low, high = axis.stripe
        if low == high:
            yield (
                f"{axis.name} {low} of every {period} is one lane's or one element's part: a wrong lane index, or one left out of an "
                f"exchange"
            )
            return
        yield (
            f"{axis.name} {low}-{high} of every {period} is one warp's stripe or one fragment's: a missing __syncwarp or "
            "__syncthreads between its store and the read, or a wrong warp offset"
        )
        return
    if len(axis.ranges) > 1:
        return
    low, high = axis.ranges[0]
    if high == axis.size - 1 and low and (tiles := [tile for tile in _TILES if axis.size % tile and axis.size // tile * tile == low]):
        yield (
            f"{axis.name} {_range(low, high)} is the partial last tile ({axis.size} = {low} + {axis.size - low}, tiles of "
            f"{' or '.join(map(str, reversed(tiles)))}): unmasked padding, or a bounds check of the load or the store"
        )
    elif (last or rows or axis.size > _FRAGMENT) and low % _FRAGMENT == 0 and (high + 1) % _FRAGMENT == 0:
        what = (
            "one fragment's or one warp's part of a tile"
            if high - low < _FRAGMENT
            else f"a whole tile or warp's part ({high - low + 1} wide)"
        )
        yield f"{axis.name} {_range(low, high)} is {what}: its offset, its copy or the barrier before it"
    elif not last and low == 1 and high == axis.size - 1 and (not rows or axis.size > 2):
        yield f"right for {axis.name} 0 only: the offset or stride of {axis.name} is left out or computed from the wrong sizes"
    elif axis.indices == 1 and not last:
        yield f"only {axis.name} {low}: a wrong index, offset or scale for that {axis.name}"
    elif dense and high == axis.size - 1 and axis.indices < _FRAGMENT:
        yield f"the last {axis.indices} of {axis.name}: a bounds check, or a loop that ends too early"
    elif dense and low == 0 and axis.indices < _FRAGMENT:
        yield f"the first {axis.indices} of {axis.name}: a start index, or state that is not initialised before its first use"


def _spread(found: ErrorMap) -> Iterator[str]:
    """Causes of errors that no index explains."""
    relative = found.relative if found.relative is not None else float("inf")
    if relative <= _SMALL:
        yield (
            f"small errors ({relative:.1%} of the values): a lower precision on the way, such as accumulation in fp16 or an "
            "operand rounded too early, or a biased rounding"
        )
    elif _whole_rows(found) and found.rows < 0.9 * math.prod(axis.indices for axis in _told_axes(found)[:-1]):
        yield (
            "whole rows with no pattern in their index, so it depends on the data: a running value of the row (maximum, sum, "
            "rescaling of the accumulator when the maximum rises) rather than an index"
        )
    elif found.filled < _DENSE:
        yield "scattered single elements: a race between threads, or rounding in few steps too coarse for these values"
    elif all(axis.whole for axis in found.axes) and found.joined is None:
        how_far = f" (by {relative:.0%} of the values)" if relative <= _TELLING else ""
        yield (
            f"everything is off{how_far} and no simple factor: an operand transposed or from the wrong "
            "index, a tile skipped or counted twice, a running sum not rescaled"
        )


def _whole_rows(found: ErrorMap) -> bool:
    """Whether a row that holds wrong elements holds mostly wrong ones."""
    columns = found.axes[-1]
    return len(found.axes) > 1 and found.rows * columns.indices > 0 and found.bad >= 0.7 * found.rows * columns.indices


def _indices(axis: AxisSpan) -> str:
    if axis.stripe is not None:
        return f"{_range(axis.stripe[1], axis.stripe[2])} of every {axis.stripe[0]}"
    shown = [_range(low, high) for low, high in axis.ranges[:4]]
    counted = sum(high - low + 1 for low, high in axis.ranges[:4])
    more = f" and others ({axis.indices} of {axis.size})" if counted < axis.indices else ""
    return ", ".join(shown) + more


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def _factor(value: float | None, found: ErrorMap) -> str:
    """A factor, and what number or axis size it looks like."""
    if value is None:
        return "an unknown factor"
    sizes = {axis.size: f" = size of {axis.name}" for axis in found.axes if axis.size > 2}
    for form, inverse in ((value, False), (1 / value if value else 0.0, True)):
        near = round(form)
        if near > 1 and abs(form - near) <= 2e-3 * near:
            return f"{_number(value)} (1/{near}{sizes.get(near, '')})" if inverse else f"{_number(value)}{sizes.get(near, '')}"
    return _number(value)


def _both(got: float | str | None, expected: float | str | None) -> str:
    """Both values with as many digits as tell them apart."""
    texts = [(_number(got, digits), _number(expected, digits)) for digits in (4, 7, 10, 17)]
    return " instead of ".join(next((pair for pair in texts if pair[0] != pair[1]), texts[0]))


def _number(value: float | str | None, digits: int = 4) -> str:
    return f"{value:.{digits}g}" if isinstance(value, (int, float)) else str(value)
