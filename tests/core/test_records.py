"""Records: a verdict that its checks do not support can't be built, and JSON is converted strictly."""

from __future__ import annotations

import pytest

from gates.core.errors import GatesError
from gates.core.records import Check, GateResult, Status, conclude, from_json, to_json

GOOD = Check("registers", Status.PASS, 64, 128, "registers", "k sm_89")
BAD = Check("registers", Status.FAIL, 200, 128, "registers", "k sm_89", "ptxas.registers", "cap them")
UNSURE = Check("smem", Status.INCONCLUSIVE, None, 65536, "bytes", "k sm_89", "ptxas.smem_unknown", "run the launcher")


def test_the_worst_check_decides() -> None:
    assert conclude("ptxas", [GOOD], passed="fine").status is Status.PASS
    assert conclude("ptxas", [GOOD, UNSURE], passed="fine").code == "ptxas.smem_unknown"
    result = conclude("ptxas", [UNSURE, BAD, GOOD], passed="fine")
    assert (result.status, result.code) == (Status.FAIL, "ptxas.registers")
    assert result.sentence == "registers (k sm_89): 200 registers, limit 128 registers"


def test_nothing_checked_is_not_a_pass() -> None:
    assert conclude("ptxas", [], passed="fine").status is Status.NOT_RUN


@pytest.mark.parametrize("checks", [(), (BAD,), (GOOD, UNSURE)])
def test_a_pass_without_support_cannot_be_built(checks: tuple[Check, ...]) -> None:
    with pytest.raises(ValueError, match="a pass needs checks"):
        GateResult("ptxas", Status.PASS, "ptxas.pass", "fine", checks)


def test_a_check_that_saw_nothing_cannot_pass() -> None:
    with pytest.raises(ValueError, match="nothing was observed"):
        Check("registers", Status.PASS, None, 128, "registers")


def test_a_whole_number_stays_one() -> None:
    check = from_json(Check, to_json(GOOD), "verdict.json")
    assert (check.observed, type(check.observed)) == (64, int)


def test_round_trip_and_strictness() -> None:
    result = conclude("ptxas", [GOOD, BAD], passed="fine")
    data = to_json(result)
    assert from_json(GateResult, data, "verdict.json") == result
    with pytest.raises(GatesError, match=r"verdict.json: unknown key 'extra'"):
        from_json(GateResult, {**data, "extra": 1}, "verdict.json")
    with pytest.raises(GatesError, match=r"verdict.json.status: 'passed' is not one of pass, fail"):
        from_json(GateResult, {**data, "status": "passed"}, "verdict.json")
    with pytest.raises(GatesError, match="a pass needs checks"):
        from_json(GateResult, {**data, "status": "pass"}, "verdict.json")
