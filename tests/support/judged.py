"""What a judge says of evidence that was changed in one place at a time, as text: the base first, then what each change alters."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from places import DATA

from gates.core.errors import GatesError
from gates.core.records import Check, GateResult

KEPT = DATA / "judged"
WRITE = "GATES_WRITE_JUDGED"
Path = tuple[Any, ...]  # names of fields and keys, numbers of items


def said(judge: Callable[[Any, Any], GateResult], evidence: Any, limits: Any, *, left_out: Sequence[str] = ()) -> str:
    """Return one line for the base, and one for each change of the evidence or the limits that alters the verdict."""
    base = judge(evidence, limits)
    lines = [f"{base.status.value} {base.code}: {base.sentence}", *sorted(f"    {_check(check)}" for check in base.checks)]
    seen = sorted({float(check.observed) for check in base.checks if _is_number(check.observed)})
    changes = [(("evidence", *path), value) for path, value in _changes(evidence, left_out)]
    changes += [(("limits", *path), value) for path, value in _changes(limits, left_out)]
    changes += [  # each limit met exactly, and missed by a little
        (("limits", *path), limit)
        for path, value in _leaves(limits)
        if _is_number(value)
        for one in seen
        for limit in (one, one * (1.0 - 1e-6))
    ]
    told = dict[tuple[Path, tuple[str, ...]], list[str]]()  # place and consequence -> values
    for path, value in changes:
        side = _changed({"evidence": evidence, "limits": limits}, path, value)
        found = _difference(base, lambda side=side: judge(side["evidence"](), side["limits"]()))
        if found:
            told.setdefault((path, tuple(found)), []).append(_text(value))
    for (path, found), values in told.items():
        lines += [f"{'.'.join(map(str, path))} = {' | '.join(dict.fromkeys(values))}:{found[0]}", *found[1:]]
    return "\n".join(lines) + "\n"


def assert_kept(name: str, text: str) -> None:
    """Compare with tests/data/judged/NAME.txt."""
    file = KEPT / f"{name}.txt"
    if os.environ.get(WRITE):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    kept = file.read_text(encoding="utf-8")
    differ = [pair for pair in zip(kept.splitlines(), text.splitlines(), strict=False) if pair[0] != pair[1]]
    assert kept == text, f"{differ[:3]}: if the new text is right, set {WRITE}=1 once and look at the difference in {file.name}"


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    yield path, value
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _leaves(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _leaves(one, (*path, key))
    elif isinstance(value, tuple | list):
        for number, one in enumerate(value[:1]):
            yield from _leaves(one, (*path, number))


def _changes(root: Any, left_out: Sequence[str]) -> Iterator[tuple[Path, Any]]:
    for path, value in _leaves(root):
        if path and path[-1] not in left_out and not set(path) & set(left_out):
            yield from ((path, other) for other in _others(value))


def _others(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [None, 0, value + 1, value - 1]
    if isinstance(value, float):
        return [None, 0.0, math.nan, value * 0.99, value * 1.01, value / 3.0, value * 3.0]
    if isinstance(value, str):
        return ["", f"{value}x"]
    if isinstance(value, tuple):
        return [(), value[:1], value + value[-1:]] if value else []
    if isinstance(value, Mapping):
        return [{}]
    return []


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _changed(sides: dict[str, Any], path: Path, value: Any) -> dict[str, Callable[[], Any]]:
    """Return what makes each side, the named one with the value in its place."""
    name, *rest = path
    return {key: (lambda side=side, key=key: _put(side, rest, value) if key == name else side) for key, side in sides.items()}


def _put(record: Any, path: Sequence[Any], value: Any) -> Any:
    if not path:
        return value
    first, rest = path[0], path[1:]
    if dataclasses.is_dataclass(record):
        return dataclasses.replace(record, **{first: _put(getattr(record, first), rest, value)})  # type: ignore[type-var]
    if isinstance(record, Mapping):
        return {**record, first: _put(record[first], rest, value)}
    return type(record)(_put(one, rest, value) if number == first else one for number, one in enumerate(record))


def _difference(base: GateResult, judge: Callable[[], GateResult]) -> list[str]:
    """Return the new head, empty if it stays, and the checks that come; nothing if all stays."""
    try:
        found = judge()
    except (ValueError, GatesError) as error:
        return [f" {type(error).__name__}: {error}"[:200]]
    except (TypeError, AttributeError) as error:  # of no record that was read; their words are Python's
        return [f" {type(error).__name__}"]
    before, after = {_check(check) for check in base.checks}, {_check(check) for check in found.checks}
    same = (found.status, found.code, found.sentence) == (base.status, base.code, base.sentence)
    if before == after and same:
        return []
    gone = {check.name for check in base.checks} - {check.name for check in found.checks}
    head = "" if same else f" {found.status.value} {found.code}: {found.sentence[:200]}"
    return [head, *(f"    - {name}" for name in sorted(gone)), *(f"    + {line}" for line in sorted(after - before))]


def _check(check: Check) -> str:
    limit = "" if check.limit is None else f" of {_text(check.limit)}"
    seen = f"{check.status.value} {_text(check.observed)}{limit} {check.unit}"
    return f"{check.name} {seen} @ {check.where} {check.code} {check.hint[:80]}"[:280].rstrip()


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, tuple | Mapping):
        return f"{len(value)} items"
    return repr(value)[:60]
