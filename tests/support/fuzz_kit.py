"""Every place in the JSON files of a recorded run, and changes of it: what the fuzzed tests draw from."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from places import RECORDED

from gates.evidence.run_directory import list_runs

RUN = list_runs(RECORDED / "h100" / "stage2_wmma_pv")[-1]
NAMES = sorted(path.relative_to(RUN).as_posix() for path in RUN.rglob("*.json") if path.name != "manifest.json")
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.just([]),
    st.just({}),
    st.sampled_from(["pass", "fail", "ok", "sm_90", "../../etc/passwd", "\x00", "1e999", "nan"]),
    st.lists(st.integers(-1, 3), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value, long arrays of alike values by their first and last entries only."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from places(entry, (*path, key))
    elif isinstance(value, list):
        for index in sorted({*range(min(2, len(value))), *range(max(0, len(value) - 1), len(value))}):
            yield from places(value[index], (*path, index))


def put(data: Any, path: tuple[Any, ...], value: Any, how: str) -> Any:
    """``data`` with the entry at ``path`` replaced, removed, or doubled."""
    data = copy.deepcopy(data)
    node = data
    for key in path[:-1]:
        node = node[key]
    if how == "remove":
        del node[path[-1]]
    elif how == "double" and isinstance(node, list):
        node.append(copy.deepcopy(node[path[-1]]))
    elif how == "rename" and isinstance(node, dict):
        node[str(value)] = node.pop(path[-1])
    else:
        node[path[-1]] = value
    return data


DATA = {name: json.loads((RUN / name).read_text(encoding="utf-8")) for name in NAMES}
PLACES = {name: list(places(data)) for name, data in DATA.items()}
