"""What a measurement keeps: the state of the card, blocks of samples, and series of blocks."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

CANDIDATE, BASELINE, CONTROL = "candidate", "baseline", "control"
MAX_US = 1e12  # eleven days: a longer sample is no measurement


def usable(sample_us: float) -> bool:
    """Whether a sample can be a time at all: finite, above zero (timers do return 0 and negative values)."""
    return math.isfinite(sample_us) and 0.0 < sample_us < MAX_US


@dataclass(frozen=True)
class State:
    """The card at one instant; None where the driver does not tell.

    ``throttle_ns`` holds cumulative times, by reason, during which the clock was held down.
    """

    sm_mhz: float | None = None
    mem_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle_ns: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """Consecutive samples of one side. Each sample is the mean time of a launch, in us.

    ``refused`` counts samples that were no time (zero, negative, not finite); they are not in
    ``samples_us``. ``throttled_pct`` is the largest share of the block's wall time by which a throttle
    counter moved, ``throttle`` the counters that moved by more than the limit. ``wall_us`` is the time that passed on the
    clock of the process that asked for the block (None in runs that did not keep it).
    """

    side: str
    pair: int
    samples_us: tuple[float, ...]
    refused: int = 0
    valid: bool = True
    sm_mhz: float | None = None
    mem_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttled_pct: float | None = None
    throttle: tuple[str, ...] = ()
    wall_us: float | None = None

    def __post_init__(self) -> None:
        bad = [sample for sample in self.samples_us if not usable(sample)]
        if bad:
            raise ValueError(f"samples_us holds {bad[0]!r}, which is no time")
        if self.valid and not self.samples_us:
            raise ValueError("a block without samples can't be valid")

    @property
    def median_us(self) -> float:
        return statistics.median(self.samples_us)


@dataclass(frozen=True)
class Series:
    """Blocks taken in one cache mode, in time order; ``launches`` says how many launches make a sample.

    ``stopped`` says why sampling ended: ``clear``, ``equal`` (no difference to be told), ``pairs`` (all planned pairs taken), ``budget``,
    ``control`` (the control showed an unfit machine) or ``invalid`` (too many blocks redone).
    """

    mode: str
    launches: Mapping[str, int]
    blocks: tuple[Block, ...]
    stopped: str

    def __post_init__(self) -> None:
        if none := [side for side, count in self.launches.items() if not count >= 1]:
            raise ValueError(f"{self.mode}: {none[0]} has {self.launches[none[0]]} launches a sample, at least 1 is possible")

    def pairs(self, first: str = CANDIDATE, second: str = BASELINE) -> list[tuple[Block, Block]]:
        """Valid (first, second) block pairs in the order of their pair number."""
        found: dict[int, dict[str, Block]] = {}
        for block in self.blocks:
            if block.valid:
                found.setdefault(block.pair, {})[block.side] = block
        return [(sides[first], sides[second]) for _, sides in sorted(found.items()) if first in sides and second in sides]

    def samples(self, side: str) -> list[float]:
        """All samples of the valid blocks of ``side``, in us."""
        return [sample for block in self.blocks if block.side == side and block.valid for sample in block.samples_us]

    def invalid_pct(self) -> float:
        return 100.0 * sum(not block.valid for block in self.blocks) / len(self.blocks) if self.blocks else 0.0

    def refused_pct(self) -> float:
        refused = sum(block.refused for block in self.blocks)
        total = refused + sum(len(block.samples_us) for block in self.blocks)
        return 100.0 * refused / total if total else 0.0


def split_samples(raw: Iterable[float]) -> tuple[tuple[float, ...], int]:
    """(usable samples, how many were refused)."""
    values = [float(sample) for sample in raw]
    good = tuple(sample for sample in values if usable(sample))
    return good, len(values) - len(good)
