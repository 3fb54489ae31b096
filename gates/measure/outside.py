"""The outside clock: long blocks of replays, timed by a process that does not hold the kernels.

What the process with the kernels says of a block is a claim. The judge's process decides at random how many replays a block has,
and takes the time that passes on its own clock between the question and the answer. The bounds, and why they are what they
are, stand in docs/performance-gate.md.
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
            raise ValueError(f"a block of {self.replays} x {self.launches} launches, {self.claimed_us} us claimed and {self.wall_us} us long")

    @property
    def launch_us(self) -> float:
        """Claimed us a launch."""
        return self.claimed_us / (self.replays * self.launches)

    @property
    def excess_pct(self) -> float:
        """How much more time passed than the claim and the fixed part explain, in percent of the claim."""
        return 100.0 * (self.wall_us - FIXED_US - self.claimed_us) / self.claimed_us

    @property
    def too_long(self) -> bool:
        """Whether more time is claimed than passed."""
        return self.claimed_us > self.wall_us * (1.0 + CLOCKS_PCT / 100.0)

    @property
    def agrees(self) -> bool:
        return not self.too_long and self.excess_pct <= EXCESS_PCT


def steady(blocks: Sequence[OutsideBlock]) -> bool:
    """Whether blocks that all disagree do so by one factor, whatever their length: a busy host delays some of them, by some time."""
    excesses = [block.excess_pct for block in blocks]
    return max(excesses) - min(excesses) <= 0.25 * max(excesses)


def measure(
    timers: Mapping[str, Callable[[int], Sequence[float]]], launches: Mapping[str, int], sample_us: Mapping[str, float],
    chance: random.Random, clock: Callable[[], float] = time.monotonic,
) -> list[OutsideBlock]:
    """Blocks of every side, two each; more and longer ones of a side none of whose blocks agrees yet.

    ``sample_us``: the claimed length of one replay. Sides whose answer holds no time are left out of that round.
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
