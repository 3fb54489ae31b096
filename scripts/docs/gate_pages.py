"""The generated part of a gate's page in docs/gates/: the gate's own docstring and its reason codes.

`gates explain` prints the same texts. A reason that all gates share is listed once, in docs/gates/README.md.
"""

from __future__ import annotations

import re

from gates.core.reason_code import Code
from gates.diagnostics.explain import codes_of, explain
from gates.gate.faults import FAULTS
from gates.gate.reasons import REASONS
from gates.gate.registry import GATES, ROWS

NAMES = tuple(GATES)
HEADINGS = "What|Why|Example|Limits"


def gate_part(gate: str) -> str:
    """What the gate judges, why, an example, its limits, and its own reason codes."""
    text = explain(gate).partition("\n\nreason codes:")[0].replace("``", "`")
    text = re.sub(rf"(^|(?<=\. )|(?<=\n))({HEADINGS})(?=[:, ])", r"**\2**", text)
    text = re.sub(r"(?<=[^\n])\n(?=    )", "\n\n", text)  # an indented example is a block of its own
    text = re.sub(r"(?<=[^\n])\n(?=\*\*)", "\n\n", text)
    text = re.sub(
        rf" docs/gates/{gate}\.md [^.]*\.", "", text.replace(f"\ndocs/gates/{gate}.md", f" docs/gates/{gate}.md")
    )  # this very page
    faults = {fault.meaning for fault in FAULTS.values()}
    own = {code: known for code, known in codes_of(gate).items() if known.reason not in REASONS and known.meaning not in faults}
    return f"{text}\n\n{_listed(own)}"


def list_part() -> str:
    """The gates in their order, with links to their pages."""
    return "".join(f"- [{gate}]({gate}.md){', if task.yaml names it' * ROWS[gate].optional}\n" for gate in NAMES)


def shared_part() -> str:
    """The reasons that every gate can give, and those of a decision."""
    return f"{_listed({f'GATE.{reason}': code for reason, code in REASONS.items()})}\n{_listed(codes_of('decision'))}"


def faults_part() -> str:
    """The faults that the sanitizer gate names, and the correctness gate on the emulator."""
    return _listed({f"sanitizer.{name}": code for name, code in FAULTS.items()})


def _listed(codes: dict[str, Code]) -> str:
    return "".join(f"- `{code}`: {_claim(known.meaning)}\n" for code, known in codes.items())


def _claim(text: str) -> str:
    """The first claim of a meaning, without consequences, causes and remedies."""
    sentence = re.split(r"(?<=[.]) (?=[A-Z`])", text)[0].rstrip(".")
    claim = re.split(": |; |, so ", sentence)[0]
    return claim if len(claim.split()) > 4 else sentence
