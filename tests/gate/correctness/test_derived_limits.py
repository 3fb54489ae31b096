"""The judge on limits that come from the problem's honest error."""

from __future__ import annotations

import dataclasses

from gates.core.records import GateResult, Status
from gates.gate.correctness.evidence import SCHEMA_VERSION, Case, CorrectnessEvidence, NullErrors, OutputErrors
from gates.gate.correctness.judge import judge, worth

LIMITS = {"max_abs_err": 1e-4, "mean_abs_err": 1e-5, "bad_pct": 0.0, "bad_atol": 1e-4, "max_err_over_bound": 1.0}
ZEROS = NullErrors("zeros", 9.5, 2.1, 100.0, 5e6)
RIGHT = OutputErrors("out", "float32", 1000, 0, 2.4e-7, 3e-8, 0.0, (7,), 1.0, 1.0, 9.5, 2.1, 6e-8, (ZEROS,), 0.1, (7,), 2.4e-7, 2.4e-6)
DERIVED = dataclasses.replace(RIGHT, honest_err=1.2e-7, max_err_over_rule=2e-3, rule_over_bound=86000.0)


def judged(output: OutputErrors, *, same: bool = False) -> GateResult:
    cases = tuple(
        Case("given", seed, "headline", "ok", "", inputs_sha256=f"in{0 if same else seed}", reference_sha256=f"{seed}", outputs=(output,))
        for seed in (0, 1)
    )
    return judge(CorrectnessEvidence(SCHEMA_VERSION, "cpu", "imported", 2, (), 1e-4, None, cases, None, (), (), ()), LIMITS)


def test_what_a_limit_is_worth_is_said() -> None:
    assert "the limit is 20 times the honest error, and the format's own rule 86,000 times as wide" in judged(DERIVED).sentence
    assert (
        worth(0.125).endswith(", or what the format's own rule allows if that is less")
        and worth(None) == "the limit is 20 times the honest error"
    )
    assert "honest" not in judged(RIGHT).sentence


def test_an_error_that_only_the_formats_rule_allows_is_refused_and_told() -> None:
    found = judged(dataclasses.replace(DERIVED, max_abs_err=2.4e-5, max_err_over_bound=10.0, bound_error=2.4e-5))
    check = next(check for check in found.checks if check.name == "max_err_over_bound")
    assert found.status is Status.FAIL and "20 times the honest error there is 2.4e-06" in check.hint
    assert "the format's own rule would let all of it pass" in check.hint


def test_a_problem_that_can_not_tell_is_no_fault_of_the_kernel() -> None:
    weak = NullErrors("mean", 2e-7, 1e-8, 0.0, 0.1)
    assert judged(dataclasses.replace(DERIVED, nulls=(weak,))).status is Status.INCONCLUSIVE
    assert judged(dataclasses.replace(RIGHT, nulls=(weak,))).status is Status.FAIL, "whoever wrote these limits can tighten them"
    assert judged(DERIVED, same=True).status is Status.INCONCLUSIVE and judged(RIGHT, same=True).status is Status.FAIL
