"""COMPARE.md's line on speed: all that a reviewer needs, and the verdict that stands."""

from __future__ import annotations

import dataclasses

import pytest
from runs_kit import RUN

from gates.comparison.record import Comparison
from gates.comparison.within import compare_within
from gates.core.records import GateResult, Status
from gates.evidence.run_directory import RunInfo, Verdict, read_record


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare_within(RUN, read_record(RunInfo, RUN, "run.json"), read_record(Verdict, RUN, "verdict.json"))


def line_of(comparison: Comparison) -> str:
    return next(line for line in comparison.markdown().splitlines() if line.startswith("**Speed-up"))


def test_the_line(comparison: Comparison) -> None:
    assert line_of(comparison) == (
        "**Speed-up +69.94 % (1.699x)**, 98.3 % interval 1.696 to 1.702, threshold 1.150 (15 %), noise floor 0.15 %, "
        "12 interleaved pairs, mission, cold L2: **pass**."
    )


def test_a_verdict_that_is_no_pass_stands_in_the_line_with_its_code(comparison: Comparison) -> None:
    failed = GateResult("performance", Status.FAIL, "performance.wrong_output", "wrong")
    gates = tuple(failed if result.gate == "performance" else result for result in comparison.gates)
    assert line_of(dataclasses.replace(comparison, gates=gates)).endswith("cold L2: **fail (performance.wrong_output)**.")


@pytest.mark.parametrize(
    ("other", "disagree", "expected"),
    [
        (5.7, True, "; the modes disagree: with warm L2 it is 1.057x, below the threshold."),
        (106.3, False, "**pass**."),
    ],
)
def test_modes_that_disagree_about_the_bar(comparison: Comparison, other: float, disagree: bool, expected: str) -> None:
    assert comparison.speed.other_mode == "warm" and not comparison.speed.modes_disagree
    assert comparison.speed.other_speedup_pct == pytest.approx(106.3, abs=0.1)
    speed = dataclasses.replace(comparison.speed, other_speedup_pct=other, modes_disagree=disagree)
    assert line_of(dataclasses.replace(comparison, speed=speed)).endswith(expected)
