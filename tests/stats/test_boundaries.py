"""The constants and boundaries of sampling and statistics, one exact case each; nothing is simulated."""

from __future__ import annotations

import dataclasses
import math
import random
import statistics

import pytest

from gates.stats import calibration, outside, sampling, stopping_rule
from gates.stats.estimators import Figures, bootstrap_interval, figures, no_p90, quantile, signed_rank_interval, signed_rank_rank, spread
from gates.stats.outside import OutsideBlock
from gates.stats.samples import BASELINE, CANDIDATE, CONTROL, Block, Series, State, split_samples, usable
from gates.stats.stopping_rule import ABOVE, BELOW, OPEN, Interval

SAMPLE = [random.Random(number).gauss(0.03, 0.01) for number in range(24)]


def test_figures_of_ten_samples() -> None:
    found = figures([5.0, 1.0, 2.0, 3.0, 4.0, 6.0, 7.0, 8.0, 9.0, 100.0])
    assert found is not None and (found.samples, found.p50_us, found.mean_us, found.iqr_us) == (10, 5.5, 14.5, 4.5)
    assert found.p90_us == pytest.approx(18.1) and found.p90_reason == "" and found.stalled_pct == 10.0
    assert found.std_us == pytest.approx(statistics.stdev([1, 2, 3, 4, 5, 6, 7, 8, 9, 100]))


def test_nine_samples_have_no_p90() -> None:
    found = figures([1.0] * 9)
    assert found is not None and found.p90_us is None and found.p90_reason == "a p90 needs 10 samples, and there are 9" and no_p90(10) == ""


def test_a_stall_is_beyond_ten_mad_or_twice_the_median_of_equal_samples() -> None:
    mad_of_one = [9.0, 9.0, 10.0, 10.0, 10.0, 11.0, 11.0]  # the median of the distances is 1
    assert [figures([*mad_of_one, 10.0, last]).stalled_pct for last in (20.0, 20.5)] == [0.0, pytest.approx(100 / 9)]
    assert [figures([10.0] * 9 + [last]).stalled_pct for last in (20.0, 20.5)] == [0.0, 10.0]


@pytest.mark.parametrize("changes", [{"p50_us": 0.0}, {"p90_us": None}, {"mean_us": 1e12}, {"mean_us": math.nan}, {"p50_us": None}])
def test_figures_that_are_no_time_can_t_be_built(changes: dict[str, float | None]) -> None:
    good = Figures(12, 1.0, 2.0, 1.5, 0.1, 0.2, 0.0)
    with pytest.raises(ValueError, match="which is no time"):
        dataclasses.replace(good, **changes)
    assert dataclasses.replace(good, p90_us=None, p90_reason="few", mean_us=0.5).mean_us == 0.5


def test_quantiles_are_linear_and_a_spread_needs_two() -> None:
    assert [quantile([1.0, 2.0, 4.0, 8.0], share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)] == [1.0, 1.75, 3.0, 5.0, 8.0]
    assert spread([1.0]) is None and spread([1.0, 3.0]) == pytest.approx(math.sqrt(2.0))


def test_the_rank_of_the_interval_by_hand() -> None:
    assert [signed_rank_rank(count, 0.95) for count in (5, 6, 7, 12)] == [0, 1, 3, 14]  # Hollander and Wolfe, table A.4
    assert [signed_rank_rank(count, 0.983) for count in (6, 7, 8, 12, 24)] == [0, 1, 2, 10, 68]
    assert signed_rank_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.95) == (1.0, 6.0)
    assert signed_rank_interval([1.0, 2.0, 3.0, 4.0, 5.0], 0.95) is None


def test_the_bootstrap_s_confidence_is_that_which_was_asked_for() -> None:
    ends = [bootstrap_interval(SAMPLE, confidence, 3) for confidence in (0.0, 0.5, 0.9, 0.983, 1.0)]
    assert ends[0][0] == ends[0][1], "at no confidence both ends are the median"
    assert all(wide[0] < narrow[0] and narrow[1] < wide[1] for narrow, wide in zip(ends, ends[1:], strict=False))
    assert bootstrap_interval(SAMPLE, 0.9, 4) != ends[2]
    ruling = stopping_rule.rule(SAMPLE, 0.0, 0.0, 3)
    assert ruling is not None and ruling.bootstrap is not None
    assert (ruling.bootstrap.low, ruling.bootstrap.high) == pytest.approx(
        tuple(math.exp(end) for end in bootstrap_interval(SAMPLE[:12], 0.983, 3)), abs=0
    )


def test_an_interval_is_that_of_the_logarithms() -> None:
    found = stopping_rule.interval(SAMPLE[:12])
    low, high = signed_rank_interval(SAMPLE[:12], 0.983)
    assert found is not None and (found.pairs, found.low, found.high) == (12, math.exp(low), math.exp(high))
    assert Interval(12, 1.1, 1.0, 1.2).half_width_pct == pytest.approx(10.0)


def test_outcomes_at_the_threshold() -> None:
    assert [Interval(12, 1.2, low, 1.3).outcome(10.0) for low in (1.1, 1.0999999)] == [ABOVE, OPEN]
    assert [Interval(12, 1.0, 0.9, high).outcome(10.0) for high in (1.1, 1.0999999)] == [OPEN, BELOW]


@pytest.mark.parametrize(("low", "high", "floor", "fits", "may"), [(0.99, 1.02, 2.0, True, True), (0.98, 1.0, 2.0, True, True)])
def test_a_control_that_fits(low: float, high: float, floor: float, fits: bool, may: bool) -> None:
    control = Interval(12, 1.0, low, high)
    assert stopping_rule.noise_floor_pct(control) == pytest.approx(floor)
    wider = (Interval(12, 1.0, low - 0.002, high), Interval(12, 1.0, low, high + 0.03))
    assert stopping_rule.control_fits(Interval(12, 1.0, low + 1e-6, high - 1e-6)) is fits
    assert stopping_rule.control_may_fit(control) is may and not stopping_rule.control_fits(wider[1])
    assert not stopping_rule.control_fits(None) and not stopping_rule.control_may_fit(None)


def test_a_control_off_by_more_than_two_percent_can_t_come_to_fit() -> None:
    assert [stopping_rule.control_may_fit(Interval(12, 1.1, low, 1.2)) for low in (1.019, 1.021)] == [True, False]
    assert [stopping_rule.control_may_fit(Interval(12, 0.9, 0.8, high)) for high in (0.981, 0.979)] == [True, False]


def test_a_gain_no_larger_than_the_floor_is_open() -> None:
    gain = [math.log(1.05) + 0.00001 * (number % 3 - 1) for number in range(48)]
    for floor, outcome, noise in ((4.9, ABOVE, False), (5.1, OPEN, True)):
        ruling = stopping_rule.rule(gain, 1.0, floor, 1)
        assert ruling is not None and (ruling.outcome, ruling.within_noise) == (outcome, noise)
    loss = [-value for value in gain]
    for bar, floor, outcome, noise in ((1.0, 5.1, BELOW, False), (0.0, 5.1, OPEN, True), (0.0, 4.7, BELOW, False), (-2.0, 5.1, OPEN, True)):
        ruling = stopping_rule.rule(loss, bar, floor, 1, stopping_rule.family_confidence(2))
        assert ruling is not None and (ruling.outcome, ruling.within_noise) == (outcome, noise)
        alone = stopping_rule.rule(loss, bar, floor, 1)
        assert alone is not None and (alone.outcome, alone.within_noise) == (BELOW, False)


def test_rulings_are_of_planned_looks() -> None:
    gain = [0.1 + 0.001 * (number % 5) for number in range(48)]
    assert stopping_rule.rule(gain[:11], 5.0, 0.0, 1) is None
    for taken, pairs in ((12, 12), (23, 12), (48, 12)):
        assert stopping_rule.rule(gain[:taken], 5.0, 0.0, 1).interval.pairs == pairs
    mixed = [random.Random(number).gauss(math.log(1.05), 0.1) for number in range(48)]
    for taken, pairs in ((12, 12), (23, 12), (24, 24), (47, 24), (48, 48)):
        ruling = stopping_rule.rule(mixed[:taken], 5.0, 0.0, 1)
        assert (ruling.interval.pairs, ruling.outcome, ruling.bootstrap) == (pairs, OPEN, None)


def test_the_timer_s_step_and_the_launches_of_a_sample() -> None:
    assert calibration.timer([3.0, 1.0, 1.5, 1.0]) == (0.5, 1.25)
    assert calibration.timer([2.0, 2.0]) == (2.0, 2.0) and calibration.timer([0.0, 0.00005]) == (pytest.approx(0.000025), 0.000025)
    assert calibration.timer([-2.0, -2.0]) == (1.0, 0.0)
    assert [calibration.launches(kernel_us, 0.5, 1.0) for kernel_us in (1000.0, 500.0, 499.0, 1.0, 0.5, 0.4)] == [1, 1, 2, 500, 1000, 1000]
    assert calibration.launches(10.0, 5.0, 1.0) == 100 and calibration.launches(10.0, 0.5, 50.0) == 100


def test_a_sample_is_long_enough_at_200_steps_and_at_5_percent() -> None:
    timer = calibration.Calibration(1.0, 10.0, None)
    assert timer.overhead_pct(200.0) == 5.0 and [timer.too_coarse(length) for length in (200.0, 199.0)] == [False, True]
    assert [calibration.Calibration(1.0, 0.0, None).too_coarse(length) for length in (200.0, 199.9)] == [False, True]


@pytest.mark.parametrize(
    ("sample", "good"), [(1e-9, True), (0.0, False), (-1.0, False), (999_999_999_999.5, True), (1e12, False), (math.inf, False)]
)
def test_a_sample_is_a_time(sample: float, good: bool) -> None:
    assert usable(sample) is good and split_samples([sample, 1]) == (((sample, 1.0), 0) if good else ((1.0,), 1))


def block(side: str, pair: int, *samples: float, **changes: object) -> Block:
    return dataclasses.replace(Block(side, pair, samples), **changes)


def test_shares_of_a_series() -> None:
    blocks = (block(CANDIDATE, 1, 2.0, 4.0), block(BASELINE, 1, 6.0, 6.0, refused=2), block(CANDIDATE, 0, 9.0, valid=False))
    series = Series("cold", {CANDIDATE: 10, BASELINE: 5, CONTROL: 1}, (*blocks, block(BASELINE, 0, 1.0)), "clear")
    assert series.pairs() == [(blocks[0], blocks[1])] and series.pairs(BASELINE, CANDIDATE) == [(blocks[1], blocks[0])]
    assert series.samples(CANDIDATE) == [2.0, 4.0] and series.invalid_pct() == 25.0 and series.refused_pct() == 25.0
    assert Series("", {}, (), "").invalid_pct() == Series("", {}, (), "").refused_pct() == 0.0
    assert sampling.differences(series) == [pytest.approx(math.log(6.0 / 3.0))] and blocks[0].median_us == 3.0
    assert sampling.clockwork_pct(series, 0.3) == pytest.approx(100 * 0.3 / 30.0 + 100 * 0.3 / 30.0)
    two = Series("", {}, (block(CANDIDATE, 2, 1.0), block(BASELINE, 2, 1.0), block(CANDIDATE, 1, 2.0), block(BASELINE, 1, 1.0)), "")
    assert sampling.differences(two) == [pytest.approx(-math.log(2.0)), 0.0]
    with pytest.raises(ValueError, match="without samples"):
        block(CANDIDATE, 0)
    with pytest.raises(ValueError, match="no time"):
        block(CANDIDATE, 0, 0.0, valid=False)


def test_differences_of_other_metrics_and_in_cycles() -> None:
    one, two = tuple(map(float, range(1, 11))), tuple(map(float, range(2, 21, 2)))
    series = Series("", {}, (block(CANDIDATE, 0, *one, sm_mhz=1000.0), block(BASELINE, 0, *two, sm_mhz=500.0)), "")
    for metric in ("p50", "p90", "mean"):
        assert sampling.differences(series, metric=metric) == [pytest.approx(math.log(2.0))]
    assert sampling.METRICS["p90"](one) == pytest.approx(9.1)
    assert sampling.cycle_differences(series) == [pytest.approx(0.0)]
    for unknown in (None, 0.0):
        assert (
            sampling.cycle_differences(dataclasses.replace(series, blocks=(series.blocks[0], block(BASELINE, 0, 1.0, sm_mhz=unknown))))
            is None
        )
    assert sampling.cycle_differences(Series("", {}, (), "")) is None


class Card:
    """A clock and the throttle counters of a card of which each block takes 0.1 s."""

    def __init__(self, moved_ns: dict[str, int], samples: tuple[float, ...] = (1.0, 2.0)) -> None:
        self.now, self.counters, self.moved_ns, self.samples = 0.0, dict.fromkeys(moved_ns, 7), moved_ns, samples

    def take(self, count: int) -> tuple[float, ...]:
        self.now += 0.1
        self.counters = {reason: value + self.moved_ns[reason] for reason, value in self.counters.items()}
        return self.samples

    def block(self, power_limited: bool = False) -> Block:
        state = lambda: State(sm_mhz=1980.0 - self.now, throttle_ns=dict(self.counters))  # noqa: E731
        taker = sampling.Sampler({CANDIDATE: self.take}, read_state=state, clock=lambda: self.now, power_limited=power_limited)
        return taker.block(CANDIDATE, 3)


def test_the_percentage_of_throttled_time() -> None:
    found = Card({"thermal": 5_000_000, "power": 1_000_000}).block()
    assert found.throttled_pct == pytest.approx(5.0) and found.throttle == ("thermal",) and not found.valid
    assert found.wall_us == pytest.approx(1e5) and found.sm_mhz == pytest.approx(1979.9) and (found.side, found.pair) == (CANDIDATE, 3)
    least = Card({"thermal": 999_999}).block()
    assert least.throttled_pct == pytest.approx(1.0, abs=1e-4) and least.throttle == () and least.valid
    assert not Card({"thermal": 1_000_100}).block().valid
    capped = Card({"power": 90_000_000})
    assert capped.block(power_limited=True).valid and capped.block().throttle == ("power",) and not capped.block().valid
    assert Card({}).block().throttled_pct is None and Card({}).block().valid
    assert not Card({}, samples=(0.0,)).block().valid and Card({}, samples=(0.0, 1.0)).block().refused == 1


def test_a_block_that_took_no_time_has_a_nanosecond() -> None:
    card = Card({"thermal": 1})
    card.take = lambda count: (setattr(card, "counters", {"thermal": 8}), (1.0,))[1]  # type: ignore[method-assign]
    found = card.block()
    assert found.throttled_pct == 100.0 and found.wall_us == 0.001


def test_fixed_pairs_are_taken_in_balanced_order() -> None:
    def timers(side: str, us: float):
        def take(count: int) -> list[float]:
            asked.append(side)
            return [us] * count

        return take

    asked = list[str]()
    options = {"pairs": 6, "samples": 3, "seed": 1}
    blocks, ended = sampling.fixed_pairs(timers(CANDIDATE, 1.0), timers(BASELINE, 2.0), **options)
    assert ended == "pairs" and len(blocks) == 12 and asked == [one.side for one in blocks]
    assert [one.pair for one in blocks] == [number for number in range(6) for _ in range(2)]
    leads = [asked[at] == CANDIDATE for at in range(0, 12, 2)]
    assert leads == sampling.orders(6, random.Random(1)) and {one.samples_us for one in blocks} == {(1.0,) * 3, (2.0,) * 3}
    alone, ended = sampling.fixed_pairs(timers(CANDIDATE, 1.0), None, **options)
    assert ended == "pairs" and [(one.side, one.pair) for one in alone] == [(CANDIDATE, number) for number in range(6)]
    broken, ended = sampling.fixed_pairs(timers(CANDIDATE, 0.0), timers(BASELINE, 2.0), **options)
    assert ended == "invalid" and not any(one.valid for one in broken)


def test_orders_are_balanced_in_each_twelve() -> None:
    found = sampling.orders(24, random.Random(1))
    assert len(found) == 24 and len(sampling.orders(5, random.Random(1))) == 5
    assert all(sum(found[start : start + 12]) == 6 for start in (0, 12)) and all(found[at] != found[at + 1] for at in range(0, 24, 2))


def test_what_a_measurement_takes_unless_told_otherwise() -> None:
    defaults = sampling.measure.__kwdefaults__ or {}
    assert (defaults["samples"], defaults["budget_s"], defaults["empty_pair_us"]) == (20, 60.0, 0.0)


def test_slow_samples_are_few() -> None:
    assert [sampling.block_samples(us) for us in (1.0, 20_000.0, 20_001.0, 50_000.0, 80_000.0, 1e6)] == [20, 20, 19, 8, 5, 5]


def outside_block(claimed_us: float, wall_us: float) -> OutsideBlock:
    return OutsideBlock(CANDIDATE, 10, 5, claimed_us, wall_us)


def test_a_claim_beside_the_outside_clock() -> None:
    assert outside_block(1000.0, 2000.0).launch_us == 20.0
    assert outside_block(100_000.0, 107_000.0).excess_pct == pytest.approx(5.0)
    assert [outside_block(100_000.0, wall).agrees for wall in (106_990.0, 107_010.0)] == [True, False]
    assert [outside_block(claimed, 100_000.0).too_long for claimed in (100_499.0, 100_501.0)] == [False, True]
    assert not outside_block(100_510.0, 100_000.0).agrees


@pytest.mark.parametrize(
    "changes", [{"replays": 0}, {"launches": 0}, {"claimed_us": 0.0}, {"claimed_us": 1e12}, {"wall_us": 0.0}, {"wall_us": 1e12}]
)
def test_an_outside_block_that_is_no_time_can_t_be_built(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="launches"):
        dataclasses.replace(outside_block(1.0, 1.0), **changes)
    assert dataclasses.replace(outside_block(0.5, 0.5), replays=1, launches=1).replays == 1


def test_one_factor_at_all_lengths_is_steady() -> None:
    def excess(pct: float) -> OutsideBlock:
        return outside_block(100_000.0, 102_000.0 + 1000.0 * pct)

    assert [outside.steady([excess(40.0), excess(low)]) for low in (30.1, 29.9)] == [True, False]


class Chance:
    """Chance that keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked = list[tuple[int, int]]()

    def shuffle(self, sides: list[str]) -> None:
        sides.sort()

    def randint(self, least: int, most: int) -> int:
        self.asked.append((least, most))
        return least


def test_the_lengths_of_outside_blocks() -> None:
    now, chance = iter(range(1000)), Chance()
    timers = {CANDIDATE: lambda replays: [1000.0] * replays}
    outside.measure(timers, {CANDIDATE: 1}, {CANDIDATE: 1000.0}, chance, lambda: float(next(now)))  # type: ignore[arg-type]
    assert chance.asked == [(least, 2 * least) for least in (50, 50, 100, 200, 200, 200)]
    outside.measure(timers, {CANDIDATE: 1}, {CANDIDATE: 1.0}, chance, lambda: float(next(now)))  # type: ignore[arg-type]
    assert set(chance.asked[6:]) == {(2000, 4000)}
    outside.measure(timers, {CANDIDATE: 1}, {CANDIDATE: 999.9975}, chance, lambda: float(next(now)))  # type: ignore[arg-type]
    assert [least for least, _ in chance.asked[12:]] == [51, 51, 101, 201, 201, 201]


def test_outside_blocks_are_two_per_side_and_longer_if_they_disagree() -> None:
    now, asked = [0.0], {CANDIDATE: list[int](), BASELINE: list[int]()}

    def timer(side: str, factor: float, sample_us: float = 100.0):
        def take(replays: int) -> list[float]:
            asked[side].append(replays)
            now[0] += 1e-6 * (factor * replays * sample_us + 500.0)
            return [sample_us / 4] * replays

        return take

    launches, sample_us = {CANDIDATE: 4, BASELINE: 4}, {CANDIDATE: 100.0, BASELINE: 100.0}
    timers = {CANDIDATE: timer(CANDIDATE, 1.0), BASELINE: timer(BASELINE, 2.0)}
    taken = outside.measure(timers, launches, sample_us, random.Random(1), lambda: now[0])
    assert [len(asked[side]) for side in (CANDIDATE, BASELINE)] == [2, 6] and len(taken) == 8
    for replays, least in zip(asked[BASELINE], (500, 500, 1000, 2000, 2000, 2000), strict=True):
        assert least <= replays <= 2 * least
    first = next(one for one in taken if one.side == CANDIDATE)
    assert first.agrees and first.claimed_us == pytest.approx(100.0 * first.replays) and first.launches == 4
    assert first.wall_us == pytest.approx(100.0 * first.replays + 500.0)
    nothing = outside.measure({CANDIDATE: lambda replays: [0.0]}, launches, sample_us, random.Random(1), lambda: now[0])
    assert nothing == []
