"""Frozen records that the gates share, and their strict conversion to and from plain JSON data."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar, Union

from gates.errors import GatesError

T = TypeVar("T")
_SCALARS = (int, float, str, bool)


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
    limit = "" if check.limit is None else f", limit {shown(check.limit)}{unit}"
    return ("not observed" if check.observed is None else f"{shown(check.observed)}{unit}") + limit


def shown(value: float | int | str | None, digits: int = 4) -> str:
    """A figure for people: four significant digits, whole numbers whole, ``-`` where there is none."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.0f}" if 10**digits <= abs(value) < 1e15 else f"{value:.{digits}g}"
    return str(value)


def to_json(value: Any) -> Any:
    """Plain JSON data of a record: dataclasses become objects, enums their values, tuples arrays."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    return value


def from_json(cls: type[T], data: Any, where: str) -> T:
    """The record of type ``cls`` that ``data`` describes; ``where`` names the file in errors.

    Raises GatesError, naming the key, for a missing or unknown key and for a value of another type.
    """
    return _build(cls, data, where)


def _build(kind: Any, data: Any, where: str) -> Any:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        if data is None and type(None) in args:
            return None
        options = [arg for arg in args if arg is not type(None)]
        if type(data) in options:  # a whole number stays one where float comes first
            return data
        for option in options[:-1]:
            try:
                return _build(option, data, where)
            except GatesError:
                continue
        return _build(options[-1], data, where)
    if kind is Any:
        return data
    if dataclasses.is_dataclass(kind):
        return _build_record(kind, data, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(data)
        except ValueError:
            allowed = ", ".join(str(member.value) for member in kind)
            raise GatesError(f"{where}: {data!r} is not one of {allowed}") from None
    if origin is tuple:
        if not isinstance(data, list):
            raise GatesError(f"{where}: expected a list, got {type(data).__name__}")
        if len(args) == 2 and args[1] is Ellipsis:
            if args[0] in _SCALARS and all(type(item) is args[0] for item in data):
                return tuple(data)  # samples come by the thousand
            return tuple(_build(args[0], item, f"{where}[{i}]") for i, item in enumerate(data))
        if len(args) != len(data):
            raise GatesError(f"{where}: expected {len(args)} items, got {len(data)}")
        return tuple(_build(arg, item, f"{where}[{i}]") for i, (arg, item) in enumerate(zip(args, data, strict=True)))
    if origin in (dict, Mapping, typing.get_origin(Mapping[str, int])):
        if not isinstance(data, dict):
            raise GatesError(f"{where}: expected an object, got {type(data).__name__}")
        return {key: _build(args[1], item, f"{where}.{key}") for key, item in data.items()}
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if kind in _SCALARS and type(data) is kind:
        return data
    raise GatesError(f"{where}: expected {getattr(kind, '__name__', kind)}, got {type(data).__name__} {data!r:.40}")


@functools.cache
def _kinds(cls: type) -> dict[str, Any]:
    """The types of a record's fields; they are evaluated from text, which takes longer than all the rest."""
    return typing.get_type_hints(cls)


def _build_record(cls: type, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise GatesError(f"{where}: expected an object, got {type(data).__name__}")
    kinds = _kinds(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for key in data:
        if key not in fields:
            raise GatesError(f"{where}: unknown key {key!r}")
    values = {}
    for name, field in fields.items():
        if name in data:
            values[name] = _build(kinds[name], data[name], f"{where}.{name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise GatesError(f"{where}: missing key {name!r}")
    try:
        return cls(**values)
    except ValueError as error:
        raise GatesError(f"{where}: {error}") from None
