"""The merge decision and the exit code over verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gates.core.records import Check, Decision, GateResult, Status
from gates.gate.decision import EXIT_CODES, decide, exit_code
from gates.gate.registry import FIRST_GATES


def verdicts(**statuses: Status) -> list[GateResult]:
    """A verdict of each gate that every run has: those named with their status, the others passed."""
    names = dict.fromkeys((*FIRST_GATES, *statuses))
    found = {name: statuses.get(name, Status.PASS) for name in names}
    passed = Check("count", Status.PASS, 0, 0, "")
    return [GateResult(name, status, f"{name}.{status.value}", "", (passed,) * (status is Status.PASS)) for name, status in found.items()]


@pytest.mark.parametrize(
    ("results", "options", "decision", "reason"),
    [
        (verdicts(), {}, Decision.MERGE, "every gate passed or is declared not applicable"),
        (verdicts(ncu=Status.NOT_APPLICABLE), {}, Decision.MERGE, "every gate passed or is declared not applicable"),
        (verdicts(ncu=Status.NOT_RUN), {}, Decision.HOLD, "no verdict from ncu (not_run: ncu.not_run)"),
        (verdicts(ncu=Status.INCONCLUSIVE), {}, Decision.HOLD, "no verdict from ncu (inconclusive: ncu.inconclusive)"),
        (verdicts()[:-1], {}, Decision.HOLD, f"no verdict from {FIRST_GATES[-1]} (missing)"),
        (verdicts(), {"gates": ("size",)}, Decision.HOLD, "no verdict from size (missing)"),
        (verdicts(size=Status.PASS), {"gates": ("size",)}, Decision.MERGE, "every gate passed or is declared not applicable"),
        (verdicts(sass=Status.FAIL, ncu=Status.NOT_RUN), {"debug": True}, Decision.REJECT, "failed: sass (sass.fail)"),
        (verdicts(size=Status.FAIL), {}, Decision.REJECT, "failed: size (size.fail)"),
        (verdicts(), {"debug": True}, Decision.HOLD, "debug build (nvcc -G): neither resources nor speed were judged"),
        (verdicts(), {"looser": ("a", "b")}, Decision.HOLD, "judged by looser terms than its baseline: a; b"),
    ],
)
def test_the_decision(results: list[GateResult], options: Mapping[str, Any], decision: Decision, reason: str) -> None:
    assert decide(results, {}, **options) == (decision, reason)


def test_each_reason_to_hold_is_told() -> None:
    found = decide(verdicts(ncu=Status.NOT_RUN), {"seed": 2, "TILE": 4}, ["x"])
    assert found == (
        Decision.HOLD,
        "no verdict from ncu (not_run: ncu.not_run); overridden from outside: TILE=4, seed=2; judged by looser terms than its baseline: x",
    )


def test_exit_codes() -> None:
    assert [EXIT_CODES[one] for one in (Decision.MERGE, Decision.REJECT, Decision.HOLD)] == [0, 1, 3]
    assert exit_code(verdicts(), FIRST_GATES) == exit_code(verdicts(ncu=Status.NOT_RUN), ["sass"]) == 0
    assert exit_code(verdicts(ncu=Status.NOT_APPLICABLE), FIRST_GATES) == 0
    assert exit_code(verdicts(ncu=Status.NOT_RUN), ["ncu"]) == exit_code(verdicts(), ["size"]) == 3
    assert exit_code(verdicts(sass=Status.FAIL, ncu=Status.NOT_RUN), ["ncu"]) == 1
