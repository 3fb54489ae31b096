"""The registry of gates: each row resolves, and says nothing that the gate's own files do not know."""

from __future__ import annotations

import dataclasses
import inspect
import re

import jsonschema
import pytest
from places import ROOT

from gates.core.schema import schema_path
from gates.evaluation.record import STAGES, gates_in
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
    assert {*row.names, *row.unsaid, *row.minima, *row.no_terms, *row.against_baseline} <= set(limits["properties"])


@pytest.mark.parametrize("gate", [gate for gate in GATES if ROWS[gate].limits()["properties"]])
def test_the_limits_of_a_gate_are_explained(gate: str) -> None:
    lines = (ROOT / "docs" / "guide" / "writing-a-task.md").read_text(encoding="utf-8").splitlines()
    section = [line for line in lines if line.startswith(f"| `gates.{gate}` |")]
    assert section, f"docs/guide/writing-a-task.md: add a row `gates.{gate}` with its keys to the table of keys"
    left_out = next(line for line in lines if "may be left out" in line)
    assert gate in ("ptxas", ALWAYS) or f"`gates.{gate}`" in left_out, f"docs/guide/writing-a-task.md: name `gates.{gate}` in: {left_out}"
    said = section[0] + (PAGES / f"{gate}.md").read_text(encoding="utf-8")
    assert [key for key in ROWS[gate].limits()["properties"] if key not in said] == [], f"add the keys to the row `gates.{gate}`"


@pytest.mark.parametrize("gate", GATES)
def test_a_gate_is_judged_by_one_stage_of_an_evaluation_or_by_none(gate: str) -> None:
    stages = [stage for stage in STAGES if gate in gates_in(stage, {gate: {}})]
    assert stages == [stage for stage in [ROWS[gate].evaluated] if stage], (
        f"gates/gate/registry.py: {gate}: `evaluated` is none of {STAGES}"
    )


def test_the_schema_of_a_task_has_every_gate() -> None:
    properties = task_schema()["properties"]
    assert tuple(properties["gates"]["properties"]) == GATES and properties["gates"]["required"] == [ALWAYS]
    ((pattern, _),) = properties["not_applicable"]["patternProperties"].items()
    assert [gate for gate in (*GATES, "no_gate") if not re.search(pattern, gate)] == [ALWAYS, "no_gate"]
    jsonschema.Draft202012Validator.check_schema(task_schema())


def test_an_optional_gate_is_only_that_of_a_task_that_names_it() -> None:
    optional = [row.name for row in ROWS.values() if row.optional]
    assert gates_of(["correctness"]) == FIRST_GATES and gates_of(optional) == GATES
    assert all(set(gates_of([one])) == {*FIRST_GATES, one} for one in optional)
    assert cpu_gates("cuda", FIRST_GATES) == ("ptxas", "sass", "correctness", "sanitizer")


def test_every_gate_is_one_that_a_run_has_and_the_first_ones_stay() -> None:
    assert set(FIRST_GATES) <= set(GATES) and FIRST_GATES == ("ptxas", "sass", "correctness", "sanitizer", "performance", "ncu")
    assert {*FIRST_GATES} - {*cpu_gates("cuda", GATES)} == {"performance", "ncu"} and "size" in cpu_gates("cuda", GATES)
    assert {*cpu_gates("python", GATES)} & {*FIRST_GATES} == {"correctness"}
    assert "tensor" in known_names()["sass", "require"] and "dram_bytes_pct" in known_names()["ncu", "steady"]
