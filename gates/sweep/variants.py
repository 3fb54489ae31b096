"""From ``--param NAME=V1,V2`` to variants: every combination of the values, and the task as it stands."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from gates.core.errors import GatesError
from gates.task.load import Task, load_task, nearest, parse_toggle

MOST = 4096
_EXAMPLE = "e.g. --param TILE_M=32,64,128"


def parse_params(pairs: Sequence[str], task: Task) -> dict[str, tuple[int, ...]]:
    """Toggle -> the values to try, in the order given.

    Raises GatesError for a toggle that the task does not have, one named twice, a value that is none or stands
    twice, for no parameter at all, and for more than 4096 variants.
    """
    params: dict[str, tuple[int, ...]] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise GatesError(f"--param {pair!r} is not NAME=VALUE,VALUE", hint=_EXAMPLE)
        if name not in task.toggles:
            raise GatesError(f"--param {name}: {task.folder / 'task.yaml'} has no such toggle", hint=nearest(name, task.toggles))
        if name in params:
            raise GatesError(f"--param {name} is given twice", hint=f"give all its values at once, {_EXAMPLE}")
        values = tuple(parse_toggle(name, value, "--param") for value in text.split(",") if value.strip())
        if not values:
            raise GatesError(f"--param {name} has no values, so there is no variant to try", hint=_EXAMPLE)
        if len(set(values)) != len(values):
            raise GatesError(f"--param {pair}: a value appears twice", hint="each once")
        params[name] = values
    if not params:
        raise GatesError(
            "no --param, so there is no variant to try", hint=f"{_EXAMPLE}; the toggles are {', '.join(task.toggles) or 'none'}"
        )
    if (count := math.prod(map(len, params.values()))) > MOST:
        raise GatesError(f"{count} variants are more than {MOST}", hint="sweep fewer values at a time, then continue from the winner")
    return params


def combinations(params: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """Every combination of the values, the last parameter changing fastest."""
    return [dict(zip(params, values, strict=True)) for values in itertools.product(*params.values())]


def grid(params: Mapping[str, Sequence[int]], toggles: Mapping[str, int]) -> list[tuple[str, dict[str, int]]]:
    """(name, toggles) of every variant of a task with ``toggles``: the task as it stands first, then every other combination."""
    incumbent = {name: toggles[name] for name in params}
    values = [incumbent, *(one for one in combinations(params) if one != incumbent)]
    return [(variant_name(one), {**toggles, **one}) for one in values]


def variant_name(values: Mapping[str, int]) -> str:
    """``TILE_M=64,STAGES=2``: also the name of the variant's folder."""
    return ",".join(f"{name}={value}" for name, value in values.items())


def with_toggles(folder: Path, toggles: Mapping[str, int]) -> Task:
    """The task in ``folder`` with these values of its toggles, whatever the environment says."""
    return load_task(folder, {name: str(value) for name, value in toggles.items()}, environ={})
