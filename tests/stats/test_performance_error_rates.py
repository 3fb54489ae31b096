"""How often the protocol is wrong, on simulated devices whose truth is known: 200 gates a cell, fixed seeds."""

from __future__ import annotations

from collections import Counter

import pytest
from performance_gates import simulated_gate

from gates.core.records import Status

GATES = 200


def outcomes(truth: float, bar_pct: float = 15.0, gates: int = GATES, **trouble) -> Counter:
    return Counter(simulated_gate(truth, seed, bar_pct, **trouble).status for seed in range(gates))


def test_1_13_never_passes_a_bar_of_15_percent() -> None:
    seen = outcomes(1.13)
    assert seen[Status.PASS] == 0
    assert seen[Status.FAIL] >= 0.85 * GATES


def test_1_17_never_fails_and_nearly_always_passes() -> None:
    seen = outcomes(1.17)
    assert seen[Status.FAIL] == 0
    assert seen[Status.PASS] >= 0.9 * GATES


def test_at_the_bar_itself_the_verdict_is_mostly_open() -> None:
    seen = outcomes(1.15)
    assert seen[Status.PASS] <= 0.05 * GATES and seen[Status.FAIL] <= 0.05 * GATES


def test_the_same_kernel_twice_is_never_faster() -> None:
    assert outcomes(1.0, bar_pct=0.0)[Status.PASS] == 0


@pytest.mark.parametrize(
    "trouble",
    [
        {"order_bias_pct": 3.0},
        {"dips_per_s": 5.0, "counted": True},
        {"dips_per_s": 3.0},
        {"drift_pct": 6.0, "warm_up_pct": 8.0},
        {"outlier_share": 0.2, "outlier_pct": 200.0},
    ],
    ids=["order bias", "counted dips", "uncounted dips", "drift", "outliers"],
)
def test_troubles_make_no_wrong_claim(trouble) -> None:
    slow, fast = outcomes(1.12, gates=20, **trouble), outcomes(1.18, gates=20, **trouble)
    assert slow[Status.PASS] == 0 and fast[Status.FAIL] == 0


def test_a_ratio_that_follows_the_clock_is_judged_at_the_clocks_of_the_run() -> None:
    # A candidate bound by memory gains up to 4.2 % of ratio where the clock is 5 % down: 1.10 stays below 1.15.
    memory_bound = {"clock_exponent": (("candidate", 0.2),)}
    assert outcomes(1.10, gates=20, **memory_bound)[Status.PASS] == 0
    assert outcomes(1.18, gates=20, **memory_bound)[Status.FAIL] == 0


def test_sides_at_different_clocks_decide_nothing() -> None:
    slowed_baseline = {"side_mhz": (("baseline", 1500.0), ("control", 1500.0))}
    results = [simulated_gate(1.0, seed, **slowed_baseline) for seed in range(20)]  # 1.32 in time, 1.00 in cycles
    assert {result.code for result in results} <= {"performance.clock_differed", "performance.control_off"}
    assert sum(result.code == "performance.clock_differed" for result in results) >= 15


def test_a_coarse_timer_is_refused_not_guessed() -> None:
    seen = [simulated_gate(1.17, seed, launches=1, step_us=8.0) for seed in range(10)]
    assert all(result.status is not Status.PASS for result in seen)
