"""Reason codes: each is written once, in its gate's codes.py, explained and used; all other places name its constant."""

from __future__ import annotations

import ast
import copy
import json
import pickle
import re
from collections.abc import Iterator

import pytest
from places import ROOT

from gates.core.reason_code import Code
from gates.diagnostics.explain import all_codes
from gates.gate import faults, reasons
from gates.gate.faults import FAULTS
from gates.gate.reasons import REASONS
from gates.gate.registry import GATES, ROWS

PLACES = ("gates", "studies", "scripts", "examples")
GATE = ROOT / "gates" / "gate"
FILES = [path for place in PLACES for path in sorted((ROOT / place).rglob("*.py")) if path.name != "codes.py"]


def literals(text: str, *, of_a_gate: bool = True) -> Iterator[str]:
    """The codes that ``text`` writes as a literal; in a module ``of_a_gate`` also those that it puts together from the gate's name."""
    known = all_codes()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in known:
            gate = node.value.partition(".")[0]
            yield from [node.value] if gate in GATES else []
        if of_a_gate and isinstance(node, ast.JoinedStr) and isinstance(first := node.values[0], ast.Constant) and len(node.values) == 2:
            yield from [f"{first.value}…"] if first.value.rstrip(".") in GATES and first.value.endswith(".") else []


def test_codes_are_named_by_their_constants() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): list(literals(path.read_text(encoding="utf-8"), of_a_gate=GATE in path.parents))
        for path in FILES
    }
    assert len(found) > 300 and {name: codes for name, codes in found.items() if codes} == {}


def test_a_literal_is_found() -> None:
    assert list(literals('code = "ptxas.spills"\nfile = "ptxas.json"')) == ["ptxas.spills"]
    assert list(literals('code = f"correctness.{status}"\nfile = f"correctness.{role}.json"')) == ["correctness.…"]


@pytest.mark.parametrize("gate", GATES)
def test_codes_are_explained_and_named_alike(gate: str) -> None:
    constants = vars(__import__(f"{ROWS[gate].package}.codes", fromlist=["CODES"]))
    assert f"{gate}.pass" in ROWS[gate].codes()
    for code in ROWS[gate].codes().values():
        if code.reason in FAULTS and f"{gate}.{code.reason}" == code and code.meaning == FAULTS[code.reason].meaning:
            continue  # one constant for both gates that see it, below
        assert code.startswith(f"{gate}.") and constants[code.reason.upper()] is code and len(code.meaning) > 12, code


def test_faults_are_named_alike() -> None:
    for name, fault in FAULTS.items():
        assert getattr(faults, name.upper()) is fault and len(fault.meaning) > 12


@pytest.mark.parametrize("gate", GATES)
def test_no_code_is_dead(gate: str) -> None:
    """A code that has the name of a shared reason only explains it; correctness finds those of figures and statuses by their names."""
    text = "".join(path.read_text(encoding="utf-8") for path in FILES)
    used = set(re.findall(r"codes\.([A-Z0-9_]+)", text))
    named = set(re.findall(r'"([a-z_]+)"', text)) if gate == "correctness" else set()
    for code in ROWS[gate].codes().values():
        assert code.reason in {**REASONS, **FAULTS} or code.reason.upper() in used or code.reason in named, code


def test_shared_reasons_are_named_alike() -> None:
    for reason, code in REASONS.items():
        assert getattr(reasons, reason.upper()) is code and len(code.meaning) > 12


def test_a_code_is_its_text() -> None:
    code = Code("ptxas.spills", "Registers were spilled.", causes="Usual cause: a cap.", next_step="Raise it.")
    assert code == "ptxas.spills" and {code: 1}["ptxas.spills"] == 1 and json.dumps([code]) == '["ptxas.spills"]'
    assert code.reason == "spills" and code.explanation == "Registers were spilled. Usual cause: a cap. Raise it."
    for one in (copy.deepcopy(code), pickle.loads(pickle.dumps(code))):
        assert (one, one.explanation) == (code, code.explanation)


def test_a_shared_reason_has_the_gate_that_gives_it() -> None:
    code = reasons.NO_TOOL.of("ncu")
    assert code == "ncu.no_tool" and code.of("sass") == "sass.no_tool" and code.next_step == reasons.NO_TOOL.next_step
