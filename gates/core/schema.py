"""Data against its JSON Schema: what does not fit, in words.

jsonschema says what is wrong. It takes seconds for the runs of one report, and its import takes long. So data is first held against a
checker made once from the schema; it knows the keywords that our schemas use, errs on the strict side, and
only what it does not let through is looked at again.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "schemas"
_GATES = Path(__file__).parents[1] / "gate"  # each gate has the schema of its evidence in its own folder
_OWN = "evidence.schema.json"
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}
_IN_WORDS = {  # of YAML
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "empty",
    "array": "a list",
    "object": "keys with values",
}
_BOUNDS: dict[str, Callable[[Any, Any], bool]] = {
    "minimum": lambda value, bound: value >= bound,
    "maximum": lambda value, bound: value <= bound,
    "exclusiveMinimum": lambda value, bound: value > bound,
    "exclusiveMaximum": lambda value, bound: value < bound,
}
_OF_OBJECTS = {"properties", "required", "additionalProperties", "patternProperties"}
_WORDS = {"$schema", "$comment", "title", "description", "$defs", "then", *_OF_OBJECTS}
Fits = Callable[[Any], bool]


def kinds() -> list[str]:
    """The kinds of evidence that have a schema."""
    shared = [path.name.partition(".")[0] for path in FOLDER.glob("*.json")]
    return sorted({*shared, *(path.parent.name for path in _GATES.glob(f"*/{_OWN}"))} - {"task"})  # that one is of task.yaml


def schema_path(kind: str) -> Path:
    """The file of the schema of ``<kind>.json``, which need not exist."""
    return _GATES / kind / _OWN if (_GATES / kind).is_dir() else FOLDER / f"{kind}.schema.json"


@functools.cache
def schema_of(kind: str) -> Mapping[str, Any] | None:
    """The schema of ``<kind>.json``; None where there is no such evidence."""
    path = schema_path(kind)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def schema_errors(kind: str, data: Any) -> list[str]:
    """What of ``data`` does not fit the schema of ``<kind>.json``, each with its place."""
    schema = schema_of(kind)
    if schema is None:
        return ["no such kind of evidence"]
    return [] if _checker_of(kind)(data) else errors_by(schema, data)


def errors_by(schema: Mapping[str, Any], data: Any, within: tuple[str, ...] = ()) -> list[str]:
    """What of ``data`` does not fit ``schema``, each with its place; ``within`` is the place of ``data`` itself."""
    import jsonschema

    return [
        f"{'.'.join(map(str, (*within, *error.absolute_path))) or 'top'}: {error.message[:200]}"
        for error in jsonschema.Draft202012Validator(schema).iter_errors(data)
    ]


def in_words(error: Any) -> str:
    """Return in plain words what a ``jsonschema.ValidationError`` says of a value in a YAML file. The place is left out."""
    if error.validator == "type":
        kinds = [error.validator_value] if isinstance(error.validator_value, str) else error.validator_value
        return f"must be {' or '.join(_IN_WORDS[kind] for kind in kinds)}, not {_shown(error.instance)}"
    return error.schema.get("$comment", error.message) if error.validator == "not" else error.message  # of what must not be there


def _shown(value: Any) -> str:
    if value is None:
        return "an empty value"
    if isinstance(value, bool):
        return str(value).lower()
    return next((_IN_WORDS[kind] for kind in ("array", "object") if isinstance(value, _TYPES[kind])), None) or repr(value)


@functools.cache
def _checker_of(kind: str) -> Fits:
    schema = schema_of(kind)
    assert schema is not None
    return checker(schema)


def checker(schema: Mapping[str, Any]) -> Fits:
    """A function that is True only of data that fits ``schema``; raises KeyError for a keyword it does not know."""
    return _made(schema, schema, {})


def _made(schema: Mapping[str, Any], top: Mapping[str, Any], known: dict[str, Fits]) -> Fits:
    checks: list[Fits] = []
    for word, value in schema.items():
        if word in _WORDS:
            continue
        checks.append(_MAKERS[word](value, lambda part: _made(part, top, known), top, known, schema))
    if schema.keys() & _OF_OBJECTS:
        checks.append(_object(schema, lambda part: _made(part, top, known)))
    return functools.reduce(_both, checks) if checks else lambda data: True


def _both(first: Fits, second: Fits) -> Fits:
    return lambda data: first(data) and second(data)


def _types(names: str | list[str]) -> frozenset[type]:
    return frozenset(kind for name in ([names] if isinstance(names, str) else names) for kind in _TYPES[name])


def _type(names: Any, *_: Any) -> Fits:
    types = _types(names)
    return lambda data: type(data) in types


def _reference(place: str, _: Any, top: Mapping[str, Any], known: dict[str, Fits], *__: Any) -> Fits:
    def check(data: Any) -> bool:  # made when first asked for: a definition may hold itself
        if place not in known:
            known[place] = _made(functools.reduce(lambda node, part: node[part], place.split("/")[1:], top), top, known)
        return known[place](data)

    return check


def _items(part: Any, make: Callable[[Any], Fits], *_: Any) -> Fits:
    if part.keys() - _BOUNDS.keys() == {"type"} and (types := _types(part["type"])) <= {int, float}:  # samples come by the thousand
        within = make({word: bound for word, bound in part.items() if word != "type"})  # all are if the least and the greatest are
        return lambda data: (
            type(data) is not list or not data or (types.issuperset(map(type, data)) and within(min(data)) and within(max(data)))
        )
    check = make(part)
    return lambda data: type(data) is not list or all(map(check, data))


def _any_of(parts: Any, make: Callable[[Any], Fits], *_: Any) -> Fits:
    options = [make(part) for part in parts]
    return lambda data: any(option(data) for option in options)


def _if(part: Any, make: Callable[[Any], Fits], _: Any, __: Any, within: Mapping[str, Any]) -> Fits:
    condition, then = make(part), make(within["then"])
    return lambda data: not condition(data) or then(data)


def _all_of(parts: Any, make: Callable[[Any], Fits], *_: Any) -> Fits:
    wanted = [make(part) for part in parts]
    return lambda data: all(one(data) for one in wanted)


def _not(part: Any, make: Callable[[Any], Fits], *_: Any) -> Fits:
    fits = make(part)
    return lambda data: not fits(data)


def _pattern(text: str, *_: Any) -> Fits:
    search = re.compile(text).search
    return lambda data: type(data) is not str or search(data) is not None


def _one_of_values(values: Any, *_: Any) -> Fits:
    allowed = {(type(value), value) for value in values}
    return lambda data: type(data) not in (dict, list) and (type(data), data) in allowed


def _names(part: Any, make: Callable[[Any], Fits], *_: Any) -> Fits:
    check = make(part)
    return lambda data: type(data) is not dict or all(map(check, data))


def _unique(wanted: bool, *_: Any) -> Fits:
    def check(data: Any) -> bool:
        return type(data) is not list or not wanted or len({json.dumps(item, sort_keys=True) for item in data}) == len(data)

    return check


def _bound(holds: Callable[[Any, Any], bool]) -> Callable[..., Fits]:
    return lambda bound, *_: lambda data: type(data) not in (int, float) or holds(data, bound)


def _object(schema: Mapping[str, Any], make: Callable[[Any], Fits]) -> Fits:
    properties = {name: make(part) for name, part in schema.get("properties", {}).items()}
    required = set(schema.get("required", ()))
    patterns = [(re.compile(text).search, make(part)) for text, part in schema.get("patternProperties", {}).items()]
    other = schema.get("additionalProperties", True)
    rest: Fits = make(other) if isinstance(other, dict) else lambda _: other

    def check(data: Any) -> bool:
        if type(data) is not dict:
            return True
        if not required <= data.keys():
            return False
        for name, value in data.items():
            own = properties.get(name)
            matched = [part for search, part in patterns if search(name)] if patterns else []
            if own is None and not matched:
                if not rest(value):
                    return False
            elif not (own is None or own(value)) or (matched and not all(part(value) for part in matched)):
                return False
        return True

    return check


_MAKERS: dict[str, Callable[..., Fits]] = {
    "type": _type,
    "$ref": _reference,
    "items": _items,
    "allOf": _all_of,
    "anyOf": _any_of,
    "not": _not,
    "if": _if,
    "pattern": _pattern,
    "enum": _one_of_values,
    "const": lambda value, *_: _one_of_values([value]),
    "propertyNames": _names,
    "uniqueItems": _unique,
    "minItems": lambda least, *_: lambda data: type(data) is not list or len(data) >= least,
    "minProperties": lambda least, *_: lambda data: type(data) is not dict or len(data) >= least,
    "minLength": lambda least, *_: lambda data: type(data) is not str or len(data) >= least,
    **{word: _bound(holds) for word, holds in _BOUNDS.items()},
}
