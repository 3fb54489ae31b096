"""YAML of the 1.2 core schema with the line of every key, so that errors can name file, line and key.

PyYAML reads YAML 1.1, where ``1e-3`` is text, ``010`` is 8, ``1:30`` is 90, ``1_000`` is 1000 and ``no`` is false. Here they are
0.001, 10, and text.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from gates.core.errors import GatesError

Place = tuple[Any, ...]  # keys and indices from the top of the document


class _AliasFound(Exception):
    pass


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # none of YAML 1.1's

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise _AliasFound
        return super().compose_node(parent, index)


_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)
_MOST_DIGITS = 400  # far above any number that fits a field
for _tag, _pattern, _first in (  # the first that fits decides
    ("null", re.compile(r"(?:~|null|Null|NULL|)"), ["~", "n", "N", ""]),
    ("bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)"), list("tTfF")),
    ("int", _INT, list("-+0123456789")),
    ("float", _FLOAT, list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern.pattern})\\Z", re.ASCII), _first)


def _int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node)
    if not _INT.fullmatch(text) or len(text) > _MOST_DIGITS:
        raise ValueError(f"{text[:40]!r} is not a whole number")
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


_Loader.add_constructor("tag:yaml.org,2002:int", _int)


def value(text: str) -> Any:
    """Return the value of ``text`` as YAML, by the rules for files. Raises GatesError, which begins with the text, if it is not YAML."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except _AliasFound:
        raise GatesError(f"{text!r} is not a YAML value: it has an alias") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise GatesError(f"{text!r} is not a YAML value: {getattr(error, 'problem', None) or error}") from None


def load(path: Path) -> tuple[Any, dict[Place, int]]:
    """The data of a YAML file and the 1-based line of each key and item.

    Raises GatesError for an unreadable file, broken YAML, and a key that appears twice in one map.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise GatesError(f"can't read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise GatesError(f"{path}: not UTF-8 text") from None
    lines: dict[Place, int] = {}
    try:
        node = _parsed(text)
        data = None if node is None else _construct(_Loader(""), node, path, (), lines)
    except _AliasFound:
        raise GatesError(f"{path}: holds an alias (*name)", hint="write the value out") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        began = error.context_mark.line + 1 if error.problem and error.context_mark else None
        opened = f" ({error.context} that begins in line {began})" if began and not place.startswith(f":{began}:") else ""
        raise GatesError(f"{path}{place}: not valid YAML: {error.problem or error.context}{opened}") from None
    except RecursionError:
        raise GatesError(f"{path}: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise GatesError(f"{path}: not valid YAML: {error}") from None
    return data, lines


@lru_cache(maxsize=64)  # a command reads the same task.yaml again for each run of the task; nodes are never changed
def _parsed(text: str) -> yaml.Node | None:
    return _Loader(text).get_single_node()


def _construct(loader: yaml.SafeLoader, node: yaml.Node, path: Path, place: Place, lines: dict[Place, int]) -> Any:
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        result: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise GatesError(f"{path}:{key_node.start_mark.line + 1}: a key must be plain text")
            key = loader.construct_object(key_node)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise GatesError(
                    f"{path}:{line}: the key {key_node.value or '(empty)'} is not text", hint="write it in quotes, or another name"
                )
            if key in result:
                raise GatesError(
                    f"{path}:{line}: key {key!r} appears twice, first at line {lines[place + (key,)]}",
                    hint="keep one of the two",
                )
            lines[place + (key,)] = line
            result[key] = _construct(loader, value_node, path, (*place, key), lines)
        return result
    if isinstance(node, yaml.SequenceNode):
        return [_construct(loader, item, path, (*place, i), lines) for i, item in enumerate(node.value)]
    value = loader.construct_object(node)
    place_text = f"{path}:{node.start_mark.line + 1}"
    if isinstance(value, float) and not math.isfinite(value):
        raise GatesError(f"{place_text}: {node.value} is not a finite number", hint="write a number that is one: 0.001, 1e-5")
    if isinstance(value, str) and not value.encode("utf-8", "replace").decode("utf-8") == value:
        raise GatesError(f"{place_text}: text that is not Unicode")
    return value
