"""Where an output is wrong and what it looks like instead, as the runner measured it.

Small by design: counts and index ranges, never the tensors. All indices start at 0; ranges hold their
first and last index.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_RANGES = 8
MOST_ELEMENTS = 5
MOST_LIKENESSES = 6
KINDS = ("equals", "zero", "constant", "uniform", "scaled", "offset", "shifted", "taken", "reordered")


@dataclass(frozen=True)
class AxisSpan:
    """The indices of one axis that hold wrong elements, whatever the other indices are.

    ``stripe`` (period, first, last): the wrong indices are just those with first <= index mod period <= last.
    """

    name: str
    size: int
    indices: int  # how many hold wrong elements
    ranges: tuple[tuple[int, int], ...]  # the first MOST_RANGES of them
    stripe: tuple[int, int, int] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.indices <= self.size:
            raise ValueError(f"axis {self.name}: {self.indices} of {self.size} indices")
        if any(not 0 <= first <= last < self.size for first, last in self.ranges):
            raise ValueError(f"axis {self.name}: a range lies outside of its {self.size} indices")

    @property
    def whole(self) -> bool:
        """Whether every index holds wrong elements."""
        return self.indices == self.size


@dataclass(frozen=True)
class WrongElement:
    """One wrong element; numbers that are not finite are words."""

    index: tuple[int, ...]
    expected: float | str
    got: float | str


@dataclass(frozen=True)
class Likeness:
    """Something simple that explains the wrong elements but for ``residual`` (relative, root mean square).

    ``equals``     the answer named by ``text``, one that the problem offers for comparison
    ``zero``, ``constant``  zeros; the one number ``value``
    ``uniform``    the same along ``axis``, where the reference changes
    ``scaled``     ``value`` times the reference; with ``axis``, a factor for each index up to that axis, from ``low`` to ``high``
    ``offset``     the reference plus ``value``
    ``shifted``    the reference ``value`` indices further along ``axis``: got[i] = want[i + value]
    ``taken``      other indices of ``axis``; ``text`` lists "index <- index of the reference"
    ``reordered``  the reference in the layout of axes that ``text`` names
    """

    kind: str
    residual: float
    axis: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    text: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"likeness {self.kind!r} is not one of {', '.join(KINDS)}")


@dataclass(frozen=True)
class ErrorMap:
    """The wrong elements of one output.

    ``axes`` leave out indices that hold only stray elements (``outside`` counts those). ``joined``: all axes before
    the last two counted as one, where that says more than each by itself (the first head of the first batch).
    ``filled`` is the share of wrong elements in the product of the indices, 1 where all of it is wrong.
    ``relative``: root mean square of the error over that of the reference, on the finite wrong elements.
    """

    limit: str  # beyond which an element counts as wrong, in words
    elements: int
    bad: int
    nonfinite: int
    infinite: int  # of the nonfinite ones
    outside: int
    filled: float
    rows: int  # lines along the last axis that hold wrong elements
    rows_of: int
    relative: float | None
    largest_roundoffs: float | None  # the largest error over (unit roundoff x largest reference)
    axes: tuple[AxisSpan, ...]
    first: tuple[WrongElement, ...]
    joined: AxisSpan | None = None
    likenesses: tuple[Likeness, ...] = ()

    def __post_init__(self) -> None:
        if not self.axes or any(len(one.index) != len(self.axes) for one in self.first):
            raise ValueError("an error map needs its axes, and as many indices for each element")
        if not 0 < self.bad <= self.elements or not 0 <= self.infinite <= self.nonfinite <= self.bad:
            raise ValueError("an error map's counts contradict each other")
