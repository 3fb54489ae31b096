"""The sampling procedure: warm up, then balanced pairs with a control, until a planned look is clear.

It knows no device. Each side is a callable that takes a number of samples and returns as many times
in us a launch; ``read_state`` tells the card's clocks and throttle counters; ``refresh`` puts fresh
input values in place and is never timed.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gates.stats import stopping_rule
from gates.stats.samples import BASELINE, CANDIDATE, CONTROL, Block, Series, State, split_samples

BlockTimer = Callable[[int], Sequence[float]]

SAMPLES = 20  # samples a block
MIN_SAMPLES = 5  # for slow kernels, whose block would last too long otherwise
MAX_BLOCK_US = 400_000.0
WARM_UP_S, MAX_WARM_UP_S = 0.05, 3.0
WARM_UP_BLOCKS, WARM_UP_AGREE = 5, 0.01
THROTTLE_LIMIT_PCT = 1.0
INVALID_LIMIT_PCT = 20.0
BUDGET_S = 60.0


@dataclass(frozen=True)
class WarmUp:
    """``stable``: the last five block medians agreed within 1 %. ``power_limited``: capped in all of them."""

    seconds: float
    blocks: int
    stable: bool
    power_limited: bool


@dataclass(frozen=True)
class Measurement:
    """All blocks of one cache mode. ``blocks`` holds candidate and baseline, ``control`` the A/A pairs."""

    warm_up: WarmUp
    blocks: tuple[Block, ...]
    control: tuple[Block, ...]
    stopped: str
    elapsed_s: float


def orders(pairs: int, generator: random.Random) -> list[bool]:
    """Whether the first side goes first, pair by pair: ABBA and BAAB, equally often in every 12 pairs."""
    result: list[bool] = []
    while len(result) < pairs:
        quads = [True, False] * 3
        generator.shuffle(quads)
        for first in quads:
            result += [first, not first]
    return result[:pairs]


def block_samples(sample_us: float) -> int:
    """Samples a block, fewer where one sample takes so long that a block would exceed 0.4 s."""
    return max(MIN_SAMPLES, min(SAMPLES, int(MAX_BLOCK_US / sample_us)))


class Sampler:
    """Takes blocks and pairs of blocks; one for a run, so that throttling is judged alike throughout."""

    def __init__(
        self,
        timers: dict[str, BlockTimer],
        *,
        read_state: Callable[[], State],
        samples: int = SAMPLES,
        clock: Callable[[], float] = time.monotonic,
        power_limited: bool = False,
    ) -> None:
        self._timers, self._read_state, self._clock = timers, read_state, clock
        self._samples = samples
        self._power_limited = power_limited
        self.warmed: list[WarmUp] = []

    def warm_up(self, side: str) -> None:
        """Run ``side`` for at least 50 ms and until five block medians agree within 1 %, 3 s at most; append to ``warmed``."""
        started = self._clock()
        taken: list[Block] = []
        stable = False
        while not stable or self._clock() - started < WARM_UP_S:
            if len(taken) >= WARM_UP_BLOCKS and self._clock() - started > MAX_WARM_UP_S:
                break
            taken.append(self.block(side, len(taken)))
            last = [statistics.median(block.samples_us) for block in taken[-WARM_UP_BLOCKS:] if block.samples_us]
            stable = len(last) == WARM_UP_BLOCKS and max(last) <= min(last) * (1.0 + WARM_UP_AGREE)
        self._power_limited = all("power" in block.throttle for block in taken[-WARM_UP_BLOCKS:])
        self.warmed.append(WarmUp(self._clock() - started, len(taken), stable, self._power_limited))

    def block(self, side: str, pair: int) -> Block:
        """One block of ``side`` with the state of the card after it and the throttling during it."""
        before, started = self._read_state(), self._clock()
        good, refused = split_samples(self._timers[side](self._samples))
        wall_ns = max((self._clock() - started) * 1e9, 1.0)
        after = self._read_state()
        moved = {
            reason: 100.0 * (after.throttle_ns[reason] - before.throttle_ns[reason]) / wall_ns
            for reason in after.throttle_ns
            if reason in before.throttle_ns
        }
        # A card that is power-capped in every block runs as it always does; that is no disturbance.
        counted = {reason: share for reason, share in moved.items() if not (reason == "power" and self._power_limited)}
        undisturbed = all(share <= THROTTLE_LIMIT_PCT for share in counted.values())
        return Block(
            side=side,
            pair=pair,
            samples_us=good,
            refused=refused,
            valid=bool(good) and undisturbed,
            sm_mhz=after.sm_mhz,
            mem_mhz=after.mem_mhz,
            power_w=after.power_w,
            temperature_c=after.temperature_c,
            wall_us=wall_ns / 1e3,
            throttled_pct=max(moved.values()) if moved else None,
            throttle=tuple(sorted(reason for reason, share in moved.items() if share > THROTTLE_LIMIT_PCT)),
        )

    def pair(self, first: str, second: str, number: int, first_leads: bool, kept: list[Block]) -> bool:
        """Append a valid pair to ``kept``; a disturbed pair is kept, marked invalid, and taken again. If the power cap sets in only after
        the warm-up, the card is warmed up once more.

        False once more than 20 % of the blocks will be invalid at the next look: the machine is then not fit.
        """
        order = (first, second) if first_leads else (second, first)
        while True:
            blocks = [self.block(side, number) for side in order]
            kept += blocks
            if all(block.valid for block in blocks):
                return True
            # Its partner was not disturbed, but a pair lives from both being of the same moment.
            kept[-2:] = [_invalid(block) for block in blocks]
            invalid = sum(not block.valid for block in kept)
            most = max(len(kept), 2 * stopping_rule.LOOKS[0] + invalid)  # blocks there will be at the first look, if no more are disturbed
            if invalid > most * INVALID_LIMIT_PCT / 100.0:
                return False
            if len(self.warmed) == 1 and {reason for block in blocks for reason in block.throttle} == {"power"}:
                self.warm_up(first)


def _invalid(block: Block) -> Block:
    return Block(**{**vars(block), "valid": False})


def measure(
    candidate: BlockTimer,
    baseline: BlockTimer | None,
    control: BlockTimer,
    *,
    bar_pct: float,
    seed: int,
    read_state: Callable[[], State] = State,
    refresh: Callable[[int], None] = lambda pair: None,
    clock: Callable[[], float] = time.monotonic,
    samples: int = SAMPLES,
    budget_s: float = BUDGET_S,
    launches: Mapping[str, int] | None = None,
    empty_pair_us: float = 0.0,
    confidence: float = stopping_rule.CONFIDENCE,
    least_pairs: int = 0,
    equal_ends: bool = False,
) -> Measurement:
    """Measure ``candidate`` against ``baseline`` until a planned look is clear of ``bar_pct``.

    ``control`` is a second load of the baseline's binary (of the candidate's, where there is no
    baseline); its pairs are taken between the first twelve, in the same minutes, and between those up to
    the next look where they leave open whether the machine is fit: a kernel with two speeds of its own needs more. Order and
    bootstrap come from ``seed``. ``launches`` a sample and ``empty_pair_us`` say what the clockwork takes. ``confidence`` is that of the
    look's interval; no look before ``least_pairs`` pairs ends the sampling. ``equal_ends``: a look also ends the sampling if the
    whole interval is within the noise floor, since more pairs would show no gain.
    """
    sampler = Sampler(
        {CANDIDATE: candidate, BASELINE: baseline or candidate, CONTROL: control}, read_state=read_state, samples=samples, clock=clock
    )
    generator = random.Random(seed)
    started = clock()
    twin = BASELINE if baseline else CANDIDATE
    sampler.warm_up(CANDIDATE)
    blocks: list[Block] = []
    controls: list[Block] = []

    def ended(stopped: str) -> Measurement:
        return Measurement(sampler.warmed[-1], tuple(blocks), tuple(controls), stopped, clock() - started)

    last = stopping_rule.LOOKS[-1]
    order, control_order = orders(last, generator), orders(last, generator)
    fit = False
    for number in range(last):
        refresh(number)
        if baseline and not sampler.pair(CANDIDATE, BASELINE, number, order[number], blocks):
            return ended("invalid")
        if not fit and not sampler.pair(twin, CONTROL, number, control_order[number], controls):
            return ended("invalid")
        if number + 1 in stopping_rule.LOOKS:
            floor = stopping_rule.interval(differences(Series("control", {}, tuple(controls), ""), twin, CONTROL))
            fit = stopping_rule.control_fits(floor)
            if not stopping_rule.control_may_fit(floor):
                return ended("control")
            if fit and not baseline:
                return ended("pairs")
            if fit and floor is not None and number + 1 >= least_pairs:
                series = Series("", launches or {}, tuple(blocks), "")
                least_pct = stopping_rule.noise_floor_pct(floor) + clockwork_pct(series, empty_pair_us)
                ruling = stopping_rule.rule(differences(series), bar_pct, least_pct, seed, confidence)
                if ruling is not None and ruling.outcome != stopping_rule.OPEN:
                    return ended("clear")
                if equal_ends and ruling is not None and ruling.interval.reach_pct <= least_pct:
                    return ended("equal")
        if clock() - started > budget_s:
            return ended("budget")
    return ended("pairs" if fit else "control")


def fixed_pairs(
    candidate: BlockTimer,
    baseline: BlockTimer | None,
    *,
    pairs: int,
    samples: int,
    seed: int,
    read_state: Callable[[], State] = State,
    clock: Callable[[], float] = time.monotonic,
    power_limited: bool = False,
) -> tuple[tuple[Block, ...], str]:
    """(blocks, why it ended) for figures beside the verdict: ``pairs`` pairs in balanced order, no looks."""
    sampler = Sampler(
        {CANDIDATE: candidate, BASELINE: baseline or candidate},
        read_state=read_state,
        samples=samples,
        clock=clock,
        power_limited=power_limited,
    )
    blocks: list[Block] = []
    for number, leads in enumerate(orders(pairs, random.Random(seed))):
        if baseline is None:
            blocks.append(sampler.block(CANDIDATE, number))
        elif not sampler.pair(CANDIDATE, BASELINE, number, leads, blocks):
            return tuple(blocks), "invalid"
    return tuple(blocks), "pairs"


METRICS: dict[str, Callable[[Sequence[float]], float]] = {
    "p50": statistics.median,
    "p90": lambda samples: statistics.quantiles(samples, n=10, method="inclusive")[8],
    "mean": statistics.fmean,
}


def differences(series: Series, first: str = CANDIDATE, second: str = BASELINE, metric: str = "p50") -> list[float]:
    """ln(second / first) of ``metric`` for each valid pair: positive where ``first`` is faster."""
    of = METRICS[metric]
    return [math.log(of(two.samples_us) / of(one.samples_us)) for one, two in series.pairs(first, second)]


def clockwork_pct(series: Series, empty_pair_us: float) -> float:
    """The shares of the two sides' samples that are their event pairs, in percent, added up.

    An event pair is part of every sample and not quite the same for two graphs, though the same in all pairs
    of a run, so neither the interval nor the control shows all of it: on H100 cards two loads of one binary differed
    by up to 0.3 % at 4 us and 0.08 % at 100 us, where one side's share was 0.23 %. A ratio carries the doubt of
    both its sides, so no gain within their sum is told from none.
    """
    shares = [
        100.0 * empty_pair_us / (count * statistics.median(samples))
        for side, count in series.launches.items()
        if (samples := series.samples(side))
    ]
    return sum(shares)


def cycle_differences(series: Series) -> list[float] | None:
    """The p50 differences in SM clock cycles; None where the clock of some block is unknown."""
    pairs = series.pairs()
    cycles = [[block.median_us * block.sm_mhz if block.sm_mhz and block.sm_mhz > 0 else None for block in pair] for pair in pairs]
    known = [math.log(two / one) for one, two in cycles if one is not None and two is not None]
    return known if known and len(known) == len(pairs) else None
