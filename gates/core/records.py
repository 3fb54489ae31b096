"""Frozen records that the gates share, and their strict conversion to and from plain JSON data."""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, TypeVar, Union

from gates.core.errors import GatesError

T = TypeVar("T")
_SCALARS = (int, float, str, bool)


class Decision(str, Enum):
    """What may be done with the stage."""

    MERGE = "merge"
    REJECT = "reject"
    HOLD = "hold"


class Status(str, Enum):
    """What a gate, or one check of it, came to."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"
    NOT_RUN = "not_run"
    NOT_APPLICABLE = "not_applicable"


@dataclasses.dataclass(frozen=True)
class Check:
    """One comparison of a gate: what was seen, what was allowed, and in which unit.

    ``name`` is the quantity (``registers``, ``max_abs_err``), ``where`` the thing it was seen on
    (``row_sum sm_89``, ``mission seed 2``). ``observed`` is None where nothing could be
    observed; such a check never passes. A check that does not pass carries a stable ``code`` that
    ``gates explain`` knows, and a ``hint``: the usual cause and what to look at next. ``reproduce`` is
    the command that shows the same failure again, where there is one, and ``notes`` are lines that describe the failure.
    """

    name: str
    status: Status
    observed: float | int | str | None
    limit: float | int | str | None
    unit: str
    where: str = ""
    code: str = ""
    hint: str = ""
    reproduce: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.status is Status.PASS and self.observed is None:
            raise ValueError(f"check {self.name}: nothing was observed, so it can't pass")
        if self.status in (Status.FAIL, Status.INCONCLUSIVE) and not self.code:
            raise ValueError(f"check {self.name}: {self.status.value} without a reason code")


@dataclasses.dataclass(frozen=True)
class GateResult:
    """A gate's verdict: status, stable reason code, one sentence, and the checks it rests on."""

    gate: str
    status: Status
    code: str
    sentence: str
    checks: tuple[Check, ...] = ()

    def __post_init__(self) -> None:
        worst = worst_status(check.status for check in self.checks)
        if self.status is Status.PASS and worst is not Status.PASS:
            raise ValueError(f"gate {self.gate}: a pass needs checks, all of them passed")
        if self.status is not Status.FAIL and worst is Status.FAIL:
            raise ValueError(f"gate {self.gate}: {self.status.value} with a failed check")


def worst_status(statuses: typing.Iterable[Status]) -> Status:
    """The status of a set of checks: any fail, else any inconclusive, else any pass, else not_run."""
    seen = set(statuses)
    for status in (Status.FAIL, Status.INCONCLUSIVE, Status.NOT_RUN, Status.PASS):
        if status in seen:
            return status
    return Status.NOT_RUN


def conclude(gate: str, checks: typing.Iterable[Check], *, passed: str) -> GateResult:
    """The verdict over ``checks``: ``passed`` is the sentence for a pass, the first worst check's otherwise."""
    checks = tuple(checks)
    status = worst_status(check.status for check in checks)
    if status is Status.PASS:
        return GateResult(gate, status, f"{gate}.pass", passed, checks)
    if not checks:
        return GateResult(gate, Status.NOT_RUN, f"{gate}.nothing_checked", "nothing was checked")
    worst = [check for check in checks if check.status is status]
    first = worst[0]
    more = f"; {len(worst) - 1} more" if len(worst) > 1 else ""
    return GateResult(gate, status, first.code or f"{gate}.{status.value}", f"{told(first)}{more}", checks)


def told(check: Check) -> str:
    """A check in words: ``max_abs_err (mission seed 2): 1.248, limit 0.002``."""
    return f"{check.name} ({check.where}): {seen(check)}" if check.where else f"{check.name}: {seen(check)}"


def seen(check: Check) -> str:
    """What a check saw and what was allowed: ``168 registers/thread, limit 128 registers/thread``."""
    unit = f" {check.unit}" if check.unit else ""
    observed, limit = shown_apart(check.observed, check.limit)
    return ("not observed" if check.observed is None else f"{observed}{unit}") + ("" if check.limit is None else f", limit {limit}{unit}")


def shown_apart(observed: float | int | str | None, limit: float | int | str | None) -> tuple[str, str]:
    """Both as ``shown`` has them, with as many digits as show that they differ: 14.999 and 15, not 15 and 15."""
    both = shown(observed), shown(limit)
    for digits in range(5, 18):
        if observed == limit or both[0] != both[1]:
            break
        both = shown(observed, digits), shown(limit, digits)
    return both


def shown(value: float | int | str | None, digits: int = 4) -> str:
    """A figure for people: four significant digits, whole numbers whole, ``-`` where there is none."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.0f}" if 10**digits <= abs(value) < 1e15 else f"{value:.{digits}g}"
    return str(value)


def to_json(value: Any) -> Any:
    """Plain JSON data of a record: dataclasses become objects, enums their values, tuples arrays."""
    kind: Any = type(value)
    return _writer(kind)(value)


@functools.cache
def _writer(kind: type) -> Callable[[Any], Any]:
    """What turns a value of this type into JSON data; found once, since values come by the hundred thousand."""
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        return lambda value: {name: to_json(getattr(value, name)) for name in names}
    if issubclass(kind, Enum):
        return lambda value: value.value
    if issubclass(kind, Mapping):
        return lambda value: {str(key): to_json(item) for key, item in value.items()}
    if issubclass(kind, (list, tuple)):
        return lambda value: [to_json(item) for item in value]
    return lambda value: value


def from_json(cls: type[T], data: Any, where: str) -> T:
    """The record of type ``cls`` that ``data`` describes; ``where`` names the file in errors.

    Raises GatesError, naming the key, for a missing or unknown key and for a value of another type.
    """
    kind: Any = cls
    return _builder(kind)(data, (where,))


# The place of a value: the file's name, then the parts that lead to it, as a chain (the place around it, this part).
# It is put into words for an error alone, since values come by the hundred thousand.
_Place = tuple[Any, ...]
_Builder = Callable[[Any, _Place], Any]


def _fault(place: _Place, text: str) -> GatesError:
    parts = []
    while len(place) == 2:
        place, part = place
        parts.append(f".{part}" if isinstance(part, str) else f"[{part}]")
    return GatesError("".join([place[0], *reversed(parts)]) + f": {text}")


@functools.cache
def _builder(kind: Any) -> _Builder:
    """What makes a value of type ``kind`` of JSON data."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return _union(args)
    if kind is Any:
        return lambda data, place: data
    if dataclasses.is_dataclass(kind):
        return _record(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(kind)
    if origin is tuple:
        return _list(args[0]) if len(args) == 2 and args[1] is Ellipsis else _items(args)
    if origin in (dict, Mapping, typing.get_origin(Mapping[str, int])):
        return _object(args[1])
    return _scalar(kind)


def _union(args: tuple[Any, ...]) -> _Builder:
    options = [arg for arg in args if arg is not type(None)]
    tried = [_builder(option) for option in options]

    def build(data: Any, place: _Place) -> Any:
        if data is None and type(None) in args:
            return None
        if type(data) in options:  # a whole number stays one where float comes first
            return data
        for option in tried[:-1]:
            try:
                return option(data, place)
            except GatesError:
                continue
        return tried[-1](data, place)

    return build


def _member(kind: type[Enum]) -> _Builder:
    def build(data: Any, place: _Place) -> Any:
        try:
            return kind(data)
        except ValueError:
            allowed = ", ".join(str(member.value) for member in kind)
            raise _fault(place, f"{data!r} is not one of {allowed}") from None

    return build


def _list(kind: Any) -> _Builder:
    item, scalar = _builder(kind), kind in _SCALARS

    def build(data: Any, place: _Place) -> Any:
        _expect(list, data, place)
        if scalar and all(type(value) is kind for value in data):
            return tuple(data)  # samples come by the thousand
        return tuple([item(value, (place, i)) for i, value in enumerate(data)])

    return build


def _items(kinds: tuple[Any, ...]) -> _Builder:
    items = [_builder(kind) for kind in kinds]

    def build(data: Any, place: _Place) -> Any:
        _expect(list, data, place)
        if len(items) != len(data):
            raise _fault(place, f"expected {len(items)} items, got {len(data)}")
        return tuple([item(value, (place, i)) for i, (item, value) in enumerate(zip(items, data, strict=True))])

    return build


def _object(kind: Any) -> _Builder:
    item = _builder(kind)

    def build(data: Any, place: _Place) -> Any:
        _expect(dict, data, place)
        return {key: item(value, (place, key)) for key, value in data.items()}

    return build


def _scalar(kind: Any) -> _Builder:
    known = kind in _SCALARS

    def build(data: Any, place: _Place) -> Any:
        if known and type(data) is kind:
            return data
        if kind is float and isinstance(data, int) and not isinstance(data, bool):
            return float(data)
        raise _fault(place, f"expected {getattr(kind, '__name__', kind)}, got {type(data).__name__} {data!r:.40}")

    return build


def _expect(kind: type, data: Any, place: _Place) -> None:
    if not isinstance(data, kind):
        raise _fault(place, f"expected {'a list' if kind is list else 'an object'}, got {type(data).__name__}")


def _record(cls: Any) -> _Builder:
    fields: dict[str, tuple[_Builder, bool]] = {}  # by name: what builds it, and whether it must be there

    def build(data: Any, place: _Place) -> Any:
        if not fields:  # not before it is asked for: a record may hold its own kind
            kinds, found = typing.get_type_hints(cls), {}
            for field in dataclasses.fields(cls):
                needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
                found[field.name] = (_builder(kinds[field.name]), needed)
            fields.update(found)  # at once: another thread may be reading
        _expect(dict, data, place)
        for key in data:
            if key not in fields:
                raise _fault(place, f"unknown key {key!r}")
        values = {}
        for name, (part, needed) in fields.items():
            if name in data:
                values[name] = part(data[name], (place, name))
            elif needed:
                raise _fault(place, f"missing key {name!r}")
        try:
            return cls(**values)
        except ValueError as error:
            raise _fault(place, str(error)) from None

    return build


def same_figure(one: float | str | None, other: float | str | None) -> bool:
    """Whether two recorded figures are equal, numbers up to the rounding of their last digits."""
    return (
        one == other
        if not isinstance(one, (int, float)) or not isinstance(other, (int, float))
        else math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    )
