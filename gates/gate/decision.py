"""The merge decision: a pure function of the gates' verdicts.

Any failed gate rejects. Otherwise any gate that neither passed nor is declared not applicable
holds, and so does a run whose toggles, shapes or seeds were overridden, or that nvcc -G compiled: it
did not judge the stage as committed. So do terms looser than the baseline's (see ``gates.gate.policy``).
Only then is it a merge. Example: ptxas, sass, correctness and sanitizer passed and performance
was not run (no device) -> hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gates.core.errors import EXIT_FAIL, EXIT_HOLD, EXIT_OK
from gates.core.reason_code import Code, codes_in
from gates.core.records import Decision, GateResult, Status
from gates.gate.registry import FIRST_GATES

MERGE = Code("decision.merge", "every gate passed, or is declared not applicable in task.yaml with a reason.")
REJECT = Code(
    "decision.reject", "at least one gate failed.", next_step="The gate's own code says why; `gates explain CODE` says what to do."
)
HOLD = Code(
    "decision.hold",
    "no gate failed, but at least one did not come to a verdict (not run or inconclusive), or it was a debug build, or something was "
    "overridden from outside, or the task's limits, shapes, seeds or gates are looser than its baseline's.",
    next_step=(
        "Tighten them again, set the same ones in the baseline's task.yaml (NAME_eager, if `gates new` made the task), or let a reviewer "
        "accept them: gates decide RUN --accept-policy-change REASON. "
        "Run the missing gates, usually with --profile full on a machine with a CUDA device."
    ),
)
CODES = codes_in(globals())

EXIT_CODES = {Decision.MERGE: EXIT_OK, Decision.REJECT: EXIT_FAIL, Decision.HOLD: EXIT_HOLD}


def decide(
    results: Sequence[GateResult],
    overrides: Mapping[str, Any],
    looser: Sequence[str] = (),
    *,
    debug: bool = False,
    gates: Sequence[str] = (),
) -> tuple[Decision, str]:
    """Return the decision over the gates' verdicts and its reason in one sentence; ``looser``: terms that nobody accepted; ``debug``: a
    debug build; ``gates``: the run's, beside those that every run has.
    """
    by_gate = {result.gate: result for result in results}
    failed = [result for result in results if result.status is Status.FAIL]
    if failed:
        return Decision.REJECT, "failed: " + ", ".join(f"{result.gate} ({result.code})" for result in failed)
    if debug:
        return Decision.HOLD, "debug build (nvcc -G): neither resources nor speed were judged"
    settled = (Status.PASS, Status.NOT_APPLICABLE)
    open_gates = [
        f"{gate} ({by_gate[gate].status.value}: {by_gate[gate].code})" if gate in by_gate else f"{gate} (missing)"
        for gate in dict.fromkeys((*FIRST_GATES, *gates))
        if gate not in by_gate or by_gate[gate].status not in settled
    ]
    reasons = ["no verdict from " + ", ".join(open_gates)] if open_gates else []
    if overrides:
        reasons.append("overridden from outside: " + ", ".join(f"{name}={value}" for name, value in sorted(overrides.items())))
    if looser:
        reasons.append(f"judged by looser terms than its baseline: {'; '.join(looser)}")
    if reasons:
        return Decision.HOLD, "; ".join(reasons)
    return Decision.MERGE, "every gate passed or is declared not applicable"


def exit_code(results: Sequence[GateResult], asked: Sequence[str]) -> int:
    """A run's exit code: 1 if a gate failed, 3 if an asked-for gate came to no verdict, else 0."""
    by_gate = {result.gate: result for result in results}
    if any(result.status is Status.FAIL for result in results):
        return EXIT_FAIL
    settled = (Status.PASS, Status.NOT_APPLICABLE)
    if any(gate not in by_gate or by_gate[gate].status not in settled for gate in asked):
        return EXIT_HOLD
    return EXIT_OK
