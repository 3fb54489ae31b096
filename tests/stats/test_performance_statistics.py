"""Estimators against SciPy and against their own definitions."""

from __future__ import annotations

import itertools
import math
import random
import statistics

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gates.stats import calibration, stopping_rule
from gates.stats.estimators import (
    bootstrap_interval,
    figures,
    hodges_lehmann,
    quantile,
    signed_rank_interval,
    signed_rank_rank,
    spread,
    walsh_averages,
)

values = st.lists(st.floats(-1, 1, allow_nan=False).map(lambda x: round(x, 6)), min_size=1, max_size=30)


def enumerated_rank(count: int, confidence: float) -> int:
    """The definition itself: every one of the 2^count sign patterns."""
    sums = sorted(sum(r for r, s in zip(range(1, count + 1), signs, strict=True) if s) for signs in itertools.product((0, 1), repeat=count))
    k = 0
    while 2 * sum(total <= k for total in sums) <= (1 - confidence) * 2**count:
        k += 1
    return k


@pytest.mark.parametrize("count", [1, 5, 6, 7, 8, 10, 12])
@pytest.mark.parametrize("confidence", [0.95, 0.983])
def test_rank_is_what_enumeration_gives(count, confidence) -> None:
    assert signed_rank_rank(count, confidence) == enumerated_rank(count, confidence)


@given(st.integers(8, 30), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_interval_is_where_scipys_exact_test_turns(count, seed) -> None:
    from scipy.stats import wilcoxon  # seconds long: not each process that collects these tests runs them

    generator = random.Random(seed)
    sample = [generator.gauss(0.1, 1.0) for _ in range(count)]
    low, high = signed_rank_interval(sample, 0.983)
    gap = 1e-7

    def p_value(centre: float) -> float:
        return wilcoxon(numpy.array(sample) - centre, method="exact").pvalue

    assert p_value(low - gap) <= 0.017 < p_value(low + gap)
    assert p_value(high + gap) <= 0.017 < p_value(high - gap)


@given(values, st.floats(-2, 2))
@settings(deadline=None)
def test_centre_lies_within_and_shifts_with_the_data(sample, shift) -> None:
    centre = hodges_lehmann(sample)
    assert min(sample) <= centre <= max(sample)
    assert math.isclose(hodges_lehmann([one + shift for one in sample]), centre + shift, abs_tol=1e-9)
    assert math.isclose(hodges_lehmann([-one for one in sample]), -centre, abs_tol=1e-9)
    assert len(walsh_averages(sample)) == len(sample) * (len(sample) + 1) // 2


@given(values)
def test_quantiles_and_spread_are_numpys(sample) -> None:
    for share in (0.0, 0.25, 0.5, 0.9, 1.0):
        assert math.isclose(quantile(sorted(sample), share), numpy.quantile(sample, share), abs_tol=1e-12)
    if len(sample) > 1:
        assert math.isclose(spread(sample), numpy.std(sample, ddof=1), abs_tol=1e-9)


def test_bootstrap_agrees_with_the_exact_interval_on_a_plain_sample() -> None:
    sample = [random.Random(1).gauss(0.14, 0.01) for _ in range(48)]
    exact, resampled = signed_rank_interval(sample, 0.983), bootstrap_interval(sample, 0.983, 5)
    assert all(abs(one - other) < 0.003 for one, other in zip(exact, resampled, strict=True))
    assert bootstrap_interval(sample, 0.983, 5) == resampled
    assert bootstrap_interval([0.1] * 12, 0.983, 1) == (0.1, 0.1)


@pytest.mark.parametrize("count", [12, 24, 40])
def test_bootstrap_is_scipys(count: int) -> None:
    from scipy.stats import bootstrap

    sample = [random.Random(count).gauss(0.14, 0.01) for _ in range(count)]

    def centre(resampled: numpy.ndarray, axis: int) -> numpy.ndarray:
        return numpy.apply_along_axis(hodges_lehmann, axis, resampled)

    theirs = bootstrap(
        (sample,),
        centre,
        n_resamples=1000,
        batch=250,
        confidence_level=0.983,
        method="percentile",
        random_state=numpy.random.default_rng(7),
    ).confidence_interval
    assert bootstrap_interval(sample, 0.983, 7) == pytest.approx((theirs.low, theirs.high), rel=1e-12)


def test_too_few_pairs_have_no_interval() -> None:
    assert signed_rank_interval([0.1] * 6, 0.983) is None and stopping_rule.interval([0.1]) is None


def test_coverage_of_the_exact_interval() -> None:
    generator = random.Random(7)
    covered = 0
    for _ in range(2000):
        low, high = signed_rank_interval([generator.gauss(0, 1) for _ in range(12)], 0.983)
        covered += low <= 0 <= high
    assert 0.975 <= covered / 2000 <= 0.992


@pytest.mark.parametrize("bar", [0, 5, 10, 12.5, 15, 20, 50, 100])
@pytest.mark.parametrize("candidate", [100.0, 0.1, 3.3, 1042.69, 7.7])
def test_a_bar_met_exactly_is_met_and_one_missed_is_not(bar, candidate) -> None:
    met = math.log(candidate * (100 + bar) / 100 / candidate)
    assert stopping_rule.interval([met] * 12).outcome(bar) == stopping_rule.ABOVE
    assert stopping_rule.interval([met - 1e-6] * 12).outcome(bar) == stopping_rule.BELOW


def test_one_stall_is_shown_not_deleted() -> None:
    found = figures([10.0] * 59 + [200.0])
    assert found.p50_us == 10.0 and found.mean_us > 13 and found.stalled_pct == pytest.approx(100 / 60)


def test_one_sample_has_no_spread_and_none_no_figures() -> None:
    assert figures([40000.0]).std_us is None and figures([]) is None


@given(st.lists(st.integers(20, 60), min_size=200, max_size=400))
def test_timer_step_is_found_among_float_noise(ticks) -> None:
    elapsed = [tick * 0.032 + (tick % 3) * 1e-6 for tick in ticks]
    step, empty = calibration.timer(elapsed)
    assert step >= 0.031 and empty == statistics.median(elapsed)


@given(st.floats(0.05, 1e6), st.floats(0.001, 2.0), st.floats(0.0, 20.0))
def test_launches_make_a_sample_long_enough_or_reach_their_cap(kernel_us, step, empty) -> None:
    count = calibration.launches(kernel_us, step, empty)
    assert 1 <= count <= calibration.MAX_LAUNCHES
    if count < calibration.MAX_LAUNCHES:
        assert count * kernel_us >= max(200 * step, 20 * empty, 500.0) * (1 - 1e-12)
        assert not calibration.Calibration(step, empty, None).too_coarse(count * kernel_us * (1 + 1e-9))


def test_a_timer_that_never_moves_is_coarse() -> None:
    assert calibration.timer([0.0] * 100) == (1.0, 0.0)
    assert calibration.Calibration(1.0, 0.0, None).too_coarse(100.0)
    assert calibration.Calibration(0.032, 1.5, None).too_coarse(math.nan)
