"""What a reason code or a gate means: read from the gates themselves."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

from gates.core.errors import GatesError
from gates.core.reason_code import Code
from gates.gate import decision
from gates.gate.reasons import REASONS, WORDS
from gates.gate.registry import GATES, ROWS
from gates.task.load import nearest

MODULES = (*GATES, "decision")


def explain(code: str) -> str:
    """Return the explanation of a code (``ptxas.spills``) with its gate's, of a whole gate (``ptxas``) with its codes, or of a verdict's
    word (``weak``).
    """
    gate, word = code.split(".")[0], code.lower().replace("_", " ")
    if word in WORDS:
        return f"{word}\n{WORDS[word]}"
    if f"decision.{code}" in codes_of("decision"):
        return explain(f"decision.{code}")
    if gate not in MODULES:
        raise GatesError(
            f"no gate, reason code or verdict {code!r}",
            hint=f"{nearest(code, (*MODULES, *WORDS))}; `gates explain GATE` lists a gate's codes",
        )
    codes = codes_of(gate)
    if code == gate:
        listed = "\n".join(f"  {name}" for name in sorted(codes))
        return f"{_docstring(gate)}\n\nreason codes:\n{listed}"
    if code not in codes:
        raise GatesError(f"no reason code {code!r}", hint=nearest(code, codes))
    return f"{code}\n{codes[code].explanation}\n\n{gate}: {_docstring(gate)}"


def codes_of(gate: str) -> dict[str, Code]:
    """The reason codes of one gate; those that gates share come first."""
    if gate == "decision":
        return decision.CODES
    return {**{code: code for code in (reason.of(gate) for reason in REASONS.values())}, **ROWS[gate].codes()}


def all_codes() -> dict[str, Code]:
    """Every reason code of every gate."""
    return {code: known for gate in MODULES for code, known in codes_of(gate).items()}


def _docstring(gate: str) -> str:
    """Return the docstring of the gate's module, read from its source because Python may run without docstrings (-OO)."""
    source = importlib.util.find_spec(decision.__name__ if gate == "decision" else f"{ROWS[gate].package}.judge")
    text = Path(source.origin).read_text(encoding="utf-8") if source and source.origin else ""
    return ast.get_docstring(ast.parse(text)) or ""
