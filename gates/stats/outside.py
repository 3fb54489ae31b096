"""Time long blocks of replays by the outside clock: that of the judge's process, which has no kernels.

The process with the kernels claims a time for each block. The judge's process draws the number of replays at random, and measures
the time between question and answer on its own clock. docs/gates/performance.md has the bounds and their reasons.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

ROUNDS = 2  # blocks of each side where the first ones agree
LENGTHS_US = (50e3, 50e3, 100e3, 200e3, 200e3, 200e3)  # least claimed length of a side's blocks, in turn; a block is up to twice as long
MOST_REPLAYS = 4000
FIXED_US = 2000.0  # question, answer, the wait in front of the first replay, and the way back from the last
EXCESS_PCT = 5.0  # by which the clock may show more than claim and fixed part: gaps between replays
CLOCKS_PCT = 0.5  # by which a claim may be longer than the time that passed: the two clocks' rates, and events that are read late


@dataclass(frozen=True)
class OutsideBlock:
    """``replays`` of a graph of ``launches`` launches: the claimed time of them all, and the time that passed outside, in us."""

    side: str
    replays: int
    launches: int
    claimed_us: float
    wall_us: float

    def __post_init__(self) -> None:
        if not (self.replays >= 1 and self.launches >= 1 and 0.0 < self.claimed_us < 1e12 and 0.0 < self.wall_us < 1e12):
            raise ValueError(
                f"a block of {self.replays} x {self.launches} launches, {self.claimed_us} us claimed and {self.wall_us} us long"
            )

    @property
    def launch_us(self) -> float:
        """Claimed us per launch."""
        return self.claimed_us / (self.replays * self.launches)

    @property
    def excess_pct(self) -> float:
        """Return the outside time beyond the claim and the fixed part, in percent of the claim."""
        return 100.0 * (self.wall_us - FIXED_US - self.claimed_us) / self.claimed_us

    @property
    def too_long(self) -> bool:
        """Return whether the claim is longer than the outside time."""
        return self.claimed_us > self.wall_us * (1.0 + CLOCKS_PCT / 100.0)

    @property
    def agrees(self) -> bool:
        return not self.too_long and self.excess_pct <= EXCESS_PCT


def steady(blocks: Sequence[OutsideBlock]) -> bool:
    """Return whether blocks that all disagree do so by one factor, whatever their length. A busy host delays blocks unevenly."""
    excesses = [block.excess_pct for block in blocks]
    return max(excesses) - min(excesses) <= 0.25 * max(excesses)


def measure(
    timers: Mapping[str, Callable[[int], Sequence[float]]],
    launches: Mapping[str, int],
    sample_us: Mapping[str, float],
    chance: random.Random,
    clock: Callable[[], float] = time.monotonic,
) -> list[OutsideBlock]:
    """Take two blocks per side; more and longer ones for a side if none of its blocks agrees.

    ``sample_us``: claimed us per replay. If the answer of a side has no time, the round leaves that side out.
    """
    taken: list[OutsideBlock] = []
    for number, least_us in enumerate(LENGTHS_US):
        sides = list(timers)
        chance.shuffle(sides)
        for side in sides:
            mine = [block for block in taken if block.side == side]
            if number >= ROUNDS and any(block.agrees for block in mine):
                continue
            least = min(MOST_REPLAYS // 2, math.ceil(least_us / sample_us[side]))
            replays = chance.randint(least, 2 * least)
            began = clock()
            times = timers[side](replays)
            wall_us = 1e6 * (clock() - began)
            claimed_us = launches[side] * math.fsum(times)
            if 0.0 < claimed_us < 1e12 and wall_us > 0.0:
                taken.append(OutsideBlock(side, replays, launches[side], claimed_us, wall_us))
    return taken
