"""The registry of gates: each row resolves, and says nothing that the gate's own files do not know."""

from __future__ import annotations

import dataclasses
import inspect

import jsonschema
import pytest
from places import ROOT

from gates.core.schema import schema_path
from gates.gate.registry import ALWAYS, FIRST_GATES, GATES, ROWS, cpu_gates, gates_of, known_names, task_schema
from gates.task.load import WITHOUT_DEVICE

PAGES = ROOT / "docs" / "gates"


@pytest.mark.parametrize("gate", GATES)
def test_a_row_resolves(gate: str) -> None:
    row = ROWS[gate]
    assert list(inspect.signature(row.judging()).parameters)[:3] == ["evidence", "limits", "baseline"]
    assert dataclasses.is_dataclass(row.evidence()) and schema_path(gate).is_file()
    assert list(inspect.signature(row.collecting()).parameters) == ["session"]
    assert set(row.kinds) <= set(WITHOUT_DEVICE) and (PAGES / f"{gate}.md").is_file()


@pytest.mark.parametrize("gate", GATES)
def test_a_row_speaks_of_keys_that_its_limits_have(gate: str) -> None:
    row, limits = ROWS[gate], ROWS[gate].limits()
    jsonschema.Draft202012Validator.check_schema(limits)
    assert {*row.names, *row.unsaid, *row.minima, *row.no_terms} <= set(limits["properties"])


def test_the_schema_of_a_task_has_every_gate() -> None:
    properties = task_schema()["properties"]
    assert tuple(properties["gates"]["properties"]) == GATES and properties["gates"]["required"] == [ALWAYS]
    ((pattern, _),) = properties["not_applicable"]["patternProperties"].items()
    assert pattern == "^(ptxas|sass|size|sanitizer|performance|ncu)$"
    jsonschema.Draft202012Validator.check_schema(task_schema())


def test_an_optional_gate_is_only_that_of_a_task_that_names_it() -> None:
    assert gates_of(["correctness"]) == FIRST_GATES and gates_of(["size"]) == GATES
    assert cpu_gates("cuda", FIRST_GATES) == ("ptxas", "sass", "correctness", "sanitizer")


def test_every_gate_is_one_that_a_run_has_and_the_first_ones_stay() -> None:
    assert set(FIRST_GATES) <= set(GATES) and FIRST_GATES == ("ptxas", "sass", "correctness", "sanitizer", "performance", "ncu")
    assert cpu_gates("cuda", GATES) == ("ptxas", "sass", "size", "correctness", "sanitizer") and cpu_gates("python", GATES) == (
        "correctness",
    )
    assert "tensor" in known_names()["sass", "require"] and "dram_bytes_pct" in known_names()["ncu", "steady"]
