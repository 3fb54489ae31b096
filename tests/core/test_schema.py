"""The quick checker lets nothing through that jsonschema refuses, and jsonschema says what is wrong."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from fuzz_kit import DATA, PLACES, VALUES, put
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT, TASKS

from gates.core import yamlio
from gates.core.schema import checker, errors_by, kinds, schema_errors, schema_of
from gates.gate.registry import task_schema

KINDS = kinds()
STAGES = ROOT / "tasks"


@pytest.mark.parametrize("kind", KINDS)
def test_every_keyword_of_every_schema_is_known(kind: str) -> None:
    checker(schema_of(kind))


@pytest.mark.parametrize("name", [name for name in DATA if "/" not in name])
def test_recorded_evidence_takes_the_quick_way(name: str) -> None:
    assert checker(schema_of(Path(name).stem))(DATA[name])


@pytest.mark.parametrize("path", [*STAGES.glob("*/task.yaml"), *TASKS.glob("*/task.yaml")], ids=lambda path: path.parent.name)
def test_task_yaml_takes_the_quick_way(path: Path) -> None:
    assert checker(task_schema())(yamlio.load(path)[0])


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_what_jsonschema_refuses_is_never_let_through(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([name for name in DATA if "/" not in name and "performance" not in name]))
    how = data.draw(st.sampled_from(["replace", "remove", "double", "rename"]))
    changed = put(DATA[name], data.draw(st.sampled_from(PLACES[name])), data.draw(VALUES), how)
    schema = schema_of(Path(name).stem)
    if checker(schema)(changed):
        assert errors_by(schema, changed) == []


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": ["integer", "null"]}, [1, None], [True, 1.5, "1"]),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 2}, [1, 2], [0, 2.5, False]),
        ({"const": 1}, [1], [True, 2, "1", [1]]),
        ({"enum": ["a", "b"]}, ["a"], ["c", 1]),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "uniqueItems": True}, [[1, 2]], [[], [1, 1], ["a"]]),
        ({"anyOf": [{"type": "null"}, {"type": "string", "minLength": 2, "pattern": "^a"}]}, [None, "ab"], ["a", "bb", 1]),
        (
            {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "additionalProperties": {"type": "integer"}},
            [{}, {"a": 1}],
            [{"A": 1}, {"a": "1"}],
        ),
        (
            {
                "properties": {"a": {"type": "integer"}},
                "patternProperties": {"^b": {"type": "string"}},
                "required": ["a"],
                "additionalProperties": False,
            },
            [{"a": 1, "b2": "x"}],
            [{}, {"a": "1"}, {"a": 1, "b": 1}, {"a": 1, "c": 1}],
        ),
        ({"type": "object", "minProperties": 1}, [{"a": 1}], [{}]),
        (
            {"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}},
            [{"a": 2}, {"a": 1, "b": 1}, {"b": 1}],
            [{"a": 1}, {}],
        ),
        (
            {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}},
            [[], [[[]]]],
            [1, [1], [[[1]]]],
        ),
    ],
)
def test_each_keyword(schema: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    assert all(checker(schema)(data) and not errors_by(schema, data) for data in good)
    assert not any(checker(schema)(data) for data in bad) and all(errors_by(schema, data) for data in bad)


def test_a_fault_is_told_with_its_place() -> None:
    changed = copy.deepcopy(DATA["ptxas.json"])
    changed["kernels"][0]["registers"] = -5
    (problem,) = schema_errors("ptxas", changed)
    assert problem.startswith("kernels.0.registers: ") and "-5" in problem
    assert schema_errors("nothing", {}) == ["no such kind of evidence"]
