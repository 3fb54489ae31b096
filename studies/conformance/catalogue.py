"""What a conformance item is, how two sets of its values are compared, and how values are stored.

An item is one launcher of a ``.cu`` file beside this one, with an input made by a frozen random
generator, so that every machine makes the same.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Values = np.ndarray


@dataclass(frozen=True)
class Within:
    """CUDA bounds the error: ``tolerance`` of the float64 results ``exact``; both get the input. ``source`` says where."""

    exact: Callable[[Values], Values]
    tolerance: Callable[[Values, Values], Values]
    source: str


@dataclass(frozen=True)
class Item:
    """``columns`` names the values of an input element, or of a part of the output.

    ``within`` is None where CUDA defines every bit; then ``expected``, where there is one, computes the
    same bits another way. ``any_nan``: a NaN may have any sign and payload. ``refused``: the code that
    the launcher must return; 0 for a launch that must succeed. ``as_numbers`` reads the values as
    float64 where they are bit patterns.
    """

    name: str
    source: str
    make_input: Callable[[], Values]
    dtype: str
    length: int
    columns: tuple[str, ...] = ("value",)
    launcher: str = ""
    count: int | None = None
    within: Within | None = None
    expected: Callable[[Values], Values] | None = None
    any_nan: bool = False
    refused: int = 0
    as_numbers: Callable[[Values], Values] | None = None

    @property
    def entry(self) -> str:
        """The launcher's name."""
        return self.launcher or self.name

    def given(self) -> Values:
        """The input."""
        with np.errstate(all="ignore"):
            return self.make_input()

    def wanted(self) -> Values | None:
        """What the output must be, bit for bit, computed another way; None where nothing says so."""
        if self.expected is None:
            return None
        with np.errstate(all="ignore"):
            return np.ascontiguousarray(np.asarray(self.expected(self.given())).reshape(-1)).astype(self.dtype, copy=False)

    def output_bytes(self) -> int:
        """The size of the output buffer."""
        return self.length * np.dtype(self.dtype).itemsize


def agree(item: Item, got: Values, want: Values) -> Values:
    """Element by element: the same bits, or two NaNs where the item allows any."""
    size = got.dtype.itemsize
    same = got.view(f"u{size}") == want.view(f"u{size}")
    return same | (np.isnan(numbers(item, got)) & np.isnan(numbers(item, want))) if item.any_nan else same


def difference(item: Item, got: Values, want: Values, names: tuple[str, str]) -> str:
    """The first place where two sets of values differ in bits; empty where they agree."""
    wrong = np.flatnonzero(~agree(item, got, want))
    return "" if not wrong.size else _told(item, wrong, got, f"{names[1]} has {_shown(want, int(wrong[0]))}", names[0])


def outside(item: Item, got: Values, name: str) -> str:
    """The first value that is further from the exact one than the bound allows; empty where none is."""
    values, exact, allowed = _against_exact(item, got)
    with np.errstate(all="ignore"):
        fine = np.where(np.isnan(exact), np.isnan(values), (values == exact) | (np.abs(values - exact) <= allowed))
    wrong = np.flatnonzero(~fine)
    if not wrong.size:
        return ""
    at = int(wrong[0])
    return _told(item, wrong, got, f"{exact[at]!r} is exact, {allowed[at]:.3g} is allowed ({item.within.source})", name)


def largest_error(item: Item, got: Values) -> float:
    """The largest error over its bound; 1 is just allowed."""
    values, exact, allowed = _against_exact(item, got)
    with np.errstate(all="ignore"):
        ratio = np.abs(values - exact) / allowed
    return float(np.max(ratio[np.isfinite(ratio)], initial=0.0))


def _against_exact(item: Item, got: Values) -> tuple[Values, Values, Values]:
    """Values, exact results and allowed errors, float64."""
    assert item.within is not None
    given, shape = item.given(), (-1, len(item.columns))
    values = numbers(item, got)
    with np.errstate(all="ignore"):
        exact = np.broadcast_to(item.within.exact(given), values.reshape(shape).shape)
        allowed = np.broadcast_to(item.within.tolerance(given, exact), exact.shape)
    return values, exact.reshape(-1), allowed.reshape(-1)


def numbers(item: Item, values: Values) -> Values:
    """The values in float64."""
    return item.as_numbers(values) if item.as_numbers else values.astype(np.float64)


def _told(item: Item, wrong: Values, got: Values, against: str, name: str) -> str:
    at = int(wrong[0])
    place, column = divmod(at, len(item.columns))
    return (
        f"{item.name}, {item.columns[column]}: {wrong.size} of {got.size} values differ, the first at element {place}: "
        f"{name} has {_shown(got, at)}, {against}"
    )


def _shown(values: Values, at: int) -> str:
    bits = int(values.view(f"u{values.dtype.itemsize}")[at])
    return f"{values[at]!r} (0x{bits:0{2 * values.dtype.itemsize}x})"


def encode(item: Item, values: Values) -> str:
    """What differs from the expected bits, column by column, each word less the one before, compressed."""
    words = _bits(item, values)
    steps = np.diff(words, prepend=words.dtype.type(0))
    return base64.b64encode(zlib.compress(steps.tobytes(), 9)).decode("ascii")


def decode(item: Item, text: str) -> Values:
    """The values that ``encode`` stored; raises ValueError for anything else."""
    kind, size = f"u{np.dtype(item.dtype).itemsize}", item.output_bytes()
    raw = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), size + 1)
    if len(raw) != size:
        raise ValueError(f"{item.name}: {len(raw)} bytes stored, {size} expected")
    words = np.cumsum(np.frombuffer(raw, kind), dtype=kind)
    if item.length % len(item.columns) == 0:
        words = words.reshape(len(item.columns), -1).T
    wanted = item.wanted()
    words = np.ascontiguousarray(words.reshape(-1))
    return (words if wanted is None else words ^ wanted.view(kind)).view(item.dtype)


def _bits(item: Item, values: Values) -> Values:
    kind = f"u{np.dtype(item.dtype).itemsize}"
    wanted = item.wanted()
    words = values.view(kind) if wanted is None else values.view(kind) ^ wanted.view(kind)
    return words.reshape(-1, len(item.columns)).T.reshape(-1) if item.length % len(item.columns) == 0 else words


def digest(data: Any) -> str:
    """sha256 of bytes or of an array's bytes."""
    return hashlib.sha256(data.tobytes() if isinstance(data, np.ndarray) else data).hexdigest()
