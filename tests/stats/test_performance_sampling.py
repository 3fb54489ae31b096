"""The sampling procedure: order, looks, redone pairs, budget."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from gates.stats.samples import Block, Series, State
from gates.stats.sampling import INVALID_LIMIT_PCT, MAX_WARM_UP_S, block_samples, differences, fixed_pairs, measure, orders
from gates.stats.simulated_device import SimulatedDevice
from gates.stats.stopping_rule import LOOKS, interval, noise_floor_pct, rule


class Card:
    """A card on which every block takes 0.1 s of its own clock and nothing else happens."""

    def __init__(self, us: dict[str, float], throttle=lambda block: 0.0, reason: str = "thermal") -> None:
        self.us, self.throttle, self.reason = us, throttle, reason
        self.now, self.blocks, self.ns = 0.0, [], 0
        self.refreshed: list[int] = []

    def side(self, name: str):
        def block(samples: int) -> list[float]:
            self.ns += int(self.throttle(len(self.blocks)) * 1e8)
            self.blocks.append(name)
            self.now += 0.1
            return [self.us[name]] * samples

        return block

    def measure(self, **options):
        sides = [self.side(name) if name in self.us else None for name in ("candidate", "baseline", "control")]
        return measure(
            *sides,
            **{
                "bar_pct": 15,
                "seed": 5,
                "clock": lambda: self.now,
                "refresh": self.refreshed.append,
                "read_state": lambda: State(sm_mhz=1980.0, throttle_ns={self.reason: self.ns}),
                **options,
            },
        )


FAST = {"candidate": 10.0, "baseline": 13.0, "control": 13.0}


@pytest.mark.parametrize("seed", range(5))
def test_order_is_balanced_in_every_look_and_comes_from_the_seed(seed) -> None:
    order = orders(48, random.Random(seed))
    assert order == orders(48, random.Random(seed))
    for look in LOOKS:
        assert sum(order[:look]) == look // 2
    quads = [tuple(order[i : i + 2]) for i in range(0, 12, 2)]
    assert quads.count((True, False)) == quads.count((False, True)) == 3


def test_a_clear_case_stops_at_the_first_look() -> None:
    card = Card(FAST)
    taken = card.measure()
    assert taken.stopped == "clear" and len(taken.blocks) == len(taken.control) == 24
    assert card.refreshed == list(range(12))
    assert taken.warm_up.stable and taken.warm_up.blocks == 5


def test_a_case_at_the_bar_takes_all_pairs() -> None:
    device = SimulatedDevice({"candidate": 10.0, "baseline": 11.5, "control": 11.5}, seed=3, dips_per_s=0.0)
    taken = measure(
        device.side("candidate"),
        device.side("baseline"),
        device.side("control"),
        bar_pct=15,
        seed=3,
        read_state=device.read_state,
        clock=device.clock,
    )
    assert taken.stopped == "pairs" and len(taken.blocks) == 96


def test_the_budget_ends_it() -> None:
    taken = Card({**FAST, "baseline": 11.5, "control": 11.5}).measure(budget_s=2.0)
    assert taken.stopped == "budget" and len(taken.blocks) < 24


def test_an_unfit_control_ends_it() -> None:
    taken = Card({**FAST, "control": 13.5}).measure()
    assert taken.stopped == "control" and len(taken.control) == 24


class TwoSpeeds(Card):
    """The baseline's blocks take one of two times, as which multiprocessors a launch lands on decides."""

    def __init__(self, slower: float, seed: int) -> None:
        super().__init__({"candidate": 16.1, "baseline": 0.0, "control": 0.0})
        self.slower, self.random = slower, random.Random(seed)

    def side(self, name: str):
        block = super().side(name)
        if name == "candidate":
            return block
        return lambda samples: [20.9 * self.random.choice((1.0, self.slower)) for _ in block(samples)[:1]] * samples


def test_a_kernel_of_two_speeds_gets_more_control_pairs() -> None:
    """Recorded on H200s: a WMMA kernel at 20.9 or 21.7 us."""
    every = [TwoSpeeds(1.04, seed).measure() for seed in range(20)]
    assert [taken.stopped for taken in every].count("clear") >= 19
    assert sum(len(taken.control) > 24 for taken in every) >= 5, "at the first look it was open whether the machine is fit"


def test_a_control_that_stays_open_is_unfit() -> None:
    taken = TwoSpeeds(1.5, 1).measure()
    assert taken.stopped == "control" and len(taken.control) == len(taken.blocks) == 96


def test_a_throttled_pair_is_taken_again_and_kept() -> None:
    card = Card(FAST, throttle=lambda block: 0.5 if block == 12 else 0.0)
    taken = card.measure()
    every = taken.blocks + taken.control
    assert taken.stopped == "clear"
    assert sum(not block.valid for block in every) == 2
    assert sum(block.throttle == ("thermal",) for block in every) == 1


def test_constant_throttling_is_given_up() -> None:
    taken = Card(FAST, throttle=lambda block: 0.5).measure()
    assert taken.stopped == "invalid"


def test_a_card_that_is_always_power_capped_is_measured_and_labelled() -> None:
    taken = Card(FAST, throttle=lambda block: 0.9, reason="power").measure()
    assert taken.stopped == "clear" and taken.warm_up.power_limited
    assert all(block.valid and block.throttle == ("power",) for block in taken.blocks)


@pytest.mark.parametrize(("reason", "stopped"), [("power", "clear"), ("thermal", "invalid")])
def test_a_power_cap_that_sets_in_after_the_warm_up_is_warmed_up_again(reason: str, stopped: str) -> None:
    whole = Card(FAST).measure()
    taken = Card(FAST, throttle=lambda block: 0.9 if block > whole.warm_up.blocks else 0.0, reason=reason).measure()
    assert taken.stopped == stopped and taken.warm_up.power_limited == (reason == "power")
    assert sum(not block.valid for block in taken.blocks) == (2 if reason == "power" else 8)


def test_two_disturbed_pairs_at_the_start_end_nothing_that_the_first_look_may_still_call_fit() -> None:
    whole = Card(FAST).measure().warm_up.blocks
    taken = Card(FAST, throttle=lambda block: 0.9 if whole < block <= whole + 3 else 0.0).measure()
    disturbed = [sum(not block.valid for block in blocks) for blocks in (taken.blocks, taken.control)]
    assert taken.stopped == "clear" and max(disturbed) == 4, disturbed
    assert INVALID_LIMIT_PCT / 100.0 * (2 * LOOKS[0] + 4) >= 4


def test_a_first_rung_has_control_pairs_alone() -> None:
    card = Card({"candidate": 10.0, "control": 10.0})
    taken = card.measure()
    assert taken.blocks == () and {block.side for block in taken.control} == {"candidate", "control"}
    assert card.refreshed == list(range(12)) and taken.stopped == "pairs" and len(taken.control) == 24, (
        "the first look is enough where the control fits"
    )


def test_bad_samples_are_refused_and_counted() -> None:
    def broken(samples: int) -> list[float]:
        return [10.0, 0.0, -1.78, float("inf"), float("nan")]

    blocks, _ = fixed_pairs(broken, None, pairs=2, samples=5, seed=1)
    assert all(block.samples_us == (10.0,) and block.refused == 4 for block in blocks)


def test_a_side_without_one_good_sample_ends_it() -> None:
    ticks = itertools.count()
    taken = measure(lambda n: [0.0] * n, lambda n: [0.0] * n, lambda n: [0.0] * n, bar_pct=15, seed=1, clock=lambda: next(ticks) * 0.01)
    assert taken.stopped == "invalid" and not taken.warm_up.stable
    assert taken.warm_up.seconds < MAX_WARM_UP_S + 1


def test_slow_kernels_have_fewer_samples_a_block() -> None:
    assert block_samples(500.0) == 20 and block_samples(40_000.0) == 10 and block_samples(1e6) == 5


@pytest.mark.parametrize("sample", [0.0, -1.0, float("nan"), float("inf"), 1e308])
def test_a_block_can_not_hold_what_is_no_time(sample) -> None:
    with pytest.raises(ValueError, match="no time"):
        Block("candidate", 0, (10.0, sample))


def test_a_gain_within_the_shares_of_the_event_pairs_is_not_clear() -> None:
    def stopped(gain: float, empty_pair_us: float) -> str:
        def timer(us: float):
            return lambda samples: [us * (1 + 1e-5 * number) for number in range(samples)]

        return measure(
            timer(10.0),
            timer(10.0 * gain),
            timer(10.0 * gain),
            bar_pct=0.0,
            seed=1,
            launches={"candidate": 50, "baseline": 50},
            empty_pair_us=empty_pair_us,
        ).stopped

    assert stopped(1.002, 0.0) == "clear"
    assert stopped(1.002, 1.5) == "pairs"
    assert stopped(1.005, 1.5) == "pairs"  # 0.3 % of either side's sample is its event pair
    assert stopped(1.007, 1.5) == "clear"


@pytest.mark.parametrize(
    ("gain", "empty_pair_us", "stopped", "pairs"),
    [
        (1.0, 1.5, "equal", 12),
        (1.002, 1.5, "equal", 12),  # two loads of one binary may differ as much
        (1.0 / 1.002, 1.5, "clear", 12),  # a loss needs no room for noise
        (1.007, 1.5, "clear", 12),
        (1.002, 0.0, "clear", 12),
    ],
)
def test_a_difference_that_can_not_be_told_ends_the_pairs_where_that_is_asked(gain, empty_pair_us, stopped, pairs) -> None:
    def timer(us: float):
        return lambda samples: [us * (1 + 1e-5 * number) for number in range(samples)]

    sides, how = [timer(10.0), *[timer(10.0 * gain)] * 2], {"launches": {"candidate": 50, "baseline": 50}, "empty_pair_us": empty_pair_us}
    taken = measure(*sides, bar_pct=0.0, seed=1, equal_ends=True, **how)
    assert (taken.stopped, len(taken.blocks)) == (stopped, 2 * pairs)
    whole = measure(*sides, bar_pct=0.0, seed=1, **how)
    assert whole.stopped == ("pairs" if stopped == "equal" else stopped)


@pytest.mark.parametrize("gain", [1.0, 1.02], ids=["equal", "faster"])
def test_ending_early_claims_no_gain_and_misses_none(gain: float) -> None:
    """Each pair of the noise's own: what ends as equal is open, and what gains 2 % is told."""

    def found(seed: int):
        chance = random.Random(seed)

        def timer(us: float):
            return lambda samples: [us * math.exp(chance.gauss(0.0, 0.002))] * samples

        taken = measure(timer(10.0), timer(10.0 * gain), timer(10.0 * gain), bar_pct=0.0, seed=seed, equal_ends=True)
        least_pct = noise_floor_pct(interval(differences(Series("", {}, taken.control, ""), "baseline", "control")))
        return taken, rule(differences(Series("", {}, taken.blocks, "")), 0.0, least_pct, seed).outcome

    outcomes = [found(seed) for seed in range(40)]
    assert all(outcome == "open" for taken, outcome in outcomes if taken.stopped == "equal")
    if gain > 1:
        assert {outcome for _, outcome in outcomes} == {"above"}
    else:
        assert sum(taken.stopped == "equal" for taken, _ in outcomes) > 5 and sum(outcome == "above" for _, outcome in outcomes) <= 1
