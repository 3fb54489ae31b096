"""Check that the claimed times agree with each other and with the judge's own clock.

A claim is a time that the process with the kernels reports from its device clock. The outside clock is that of the judge's process:
it measured how long the answer to each block took, and a few long blocks were taken only for this comparison. Claims that can't be
true of one card are refused, whichever way they point. If the host was too busy to decide, the code says so. docs/gates/performance.md has
the bounds and their reasons.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

from gates.core.records import Check, Status
from gates.gate.performance import codes
from gates.gate.performance.evidence import PerformanceEvidence
from gates.stats import outside
from gates.stats.samples import BASELINE, CANDIDATE, Block, Series

ALONE_PCT = 8.0  # by which the baseline may take longer beside the candidate than alone: it may have two speeds 4 % apart, and cards drift
MAX_RATIO, MOST_BARS = (
    100.0,
    10.0,
)  # of baseline over candidate: a slip of units is a factor of 1000, and a task that expects much says so by its bar
SAME_PCT = 30.0  # by which a series may be below the unflushed blocks of the same graph
BLOCK_PCT, BLOCK_US = 5.0, 400.0  # by which blocks of the two sides may differ in what the outside clock shows beyond their claims
SINGLE_FACTOR, SINGLE_US = 2.0, 2.0  # a single launch holds its event pair, and a launch that nothing hides
ALIKE_PCT, ALIKE_US = 30.0, 1.5  # by which that may differ between the sides
CONSTANT_STEPS = 2000  # a timer this much finer than a sample shows that samples differ


def checks(evidence: PerformanceEvidence, series: Series, bar_pct: float) -> list[Check]:
    """Return a check of the gated ``series`` against each of the figures that it must agree with; ``bar_pct`` is the gain that the task
    expects.
    """
    sides = [side for side in (CANDIDATE, BASELINE) if series.samples(side)]
    p50 = {side: statistics.median(series.samples(side)) for side in sides}
    found = [*_outside(evidence, sides), *_blocks(series, sides), *_passed(evidence, series)]
    for side in sides:
        found += [
            *_unflushed(evidence, series, side, p50[side]),
            *_single(evidence, side, p50[side]),
            *_other_mode(evidence, series, side, p50[side]),
        ]
        found += _constant(evidence, series, side)
    if len(sides) == 2:
        found += [*_singles_alike(evidence, sides), *_alone(evidence, series)]
        most = max(MAX_RATIO, MOST_BARS * (1.0 + bar_pct / 100.0))
        found.append(
            _check(
                "baseline_over_candidate",
                p50[BASELINE] / p50[CANDIDATE],
                "at most",
                most,
                "x",
                "p50",
                codes.IMPLAUSIBLE,
                "look for a wrong unit; if you expect so large a gain, raise min_speedup_pct",
            )
        )
    return found


def _check(
    name: str,
    seen: float,
    how: str,
    limit: float,
    unit: str,
    where: str,
    code: str = codes.INCONSISTENT,
    hint: str = "run again on an idle card and host",
) -> Check:
    good = seen <= limit if how == "at most" else seen >= limit
    where = f"{where}, {how}"
    return (
        Check(name, Status.PASS, seen, limit, unit, where)
        if good
        else Check(name, Status.INCONCLUSIVE, seen, limit, unit, where, code, hint)
    )


def _outside(evidence: PerformanceEvidence, sides: Iterable[str]) -> list[Check]:
    """Each side's long blocks: at least one whose claim and outside time agree, and none that claims more than passed."""
    if evidence.outside is None:
        return []  # a run of before there was such a clock
    found = []
    for side in sides:
        mine = [block for block in evidence.outside if block.side == side]
        where = f"{side}, long blocks by the outside clock"
        if not mine:
            found.append(
                Check(
                    "outside_excess",
                    Status.INCONCLUSIVE,
                    None,
                    outside.EXCESS_PCT,
                    "%",
                    where,
                    codes.INCONSISTENT,
                    "no long block was taken",
                )
            )
            continue
        long = [block for block in mine if block.too_long]
        found.append(
            _check(
                "claimed_over_passed",
                max(block.claimed_us / block.wall_us for block in mine),
                "at most",
                1.0 + outside.CLOCKS_PCT / 100.0,
                "x",
                where,
            )
        )
        if not long:
            best = min(block.excess_pct for block in mine)
            code = codes.INCONSISTENT if outside.steady(mine) else codes.HOST_BUSY
            found.append(
                _check(
                    "outside_excess",
                    best,
                    "at most",
                    outside.EXCESS_PCT,
                    "%",
                    where,
                    code,
                    "the outside clock shows more time than claimed",
                )
            )
    return found


def _beyond(blocks: Iterable[Block], launches: int) -> list[float]:
    """us that passed outside beyond the claims of each block."""
    return [block.wall_us - launches * sum(block.samples_us) for block in blocks if block.wall_us is not None and not block.refused]


def _blocks(series: Series, sides: list[str]) -> list[Check]:
    """What the outside clock shows beyond the claims is flushes, the wait in front and the way back: as much for both sides' blocks."""
    valid = {side: [block for block in series.blocks if block.side == side and block.valid and block.wall_us is not None] for side in sides}
    if not all(valid.values()) or not valid:
        return []
    where, beyond = f"blocks, {series.mode} L2", {side: _beyond(valid[side], series.launches[side]) for side in sides}
    found = [
        _check(
            "claimed_over_passed",
            max(series.launches[side] * sum(block.samples_us) / block.wall_us for block in valid[side] if block.wall_us),
            "at most",
            1.0 + outside.CLOCKS_PCT / 100.0,
            "x",
            f"{side}, {where}",
        )
        for side in sides
    ]
    if len(sides) < 2 or not all(beyond.values()):
        return found
    middle = {side: statistics.median(beyond[side]) for side in sides}
    more = max(sides, key=lambda side: middle[side])
    claimed_us = statistics.median(series.launches[more] * sum(block.samples_us) for block in valid[more])
    seen, allowed = abs(middle[CANDIDATE] - middle[BASELINE]), BLOCK_PCT / 100.0 * claimed_us + BLOCK_US
    doubt = 2.0 * math.hypot(*(_error_of_median(beyond[side]) for side in sides))
    code = codes.INCONSISTENT if seen - 2.0 * doubt > allowed else codes.HOST_BUSY
    where = f"{more} against the other side, {where}; known to {doubt:.0f} us"
    return [
        *found,
        _check("beyond_claims", seen + doubt if code == codes.HOST_BUSY else seen, "at most", allowed, "us", where, code),
    ]


def _error_of_median(values: list[float]) -> float:
    """The standard error of the median, from the values' median distance from it."""
    middle = statistics.median(values)
    return 1.2533 * 1.4826 * statistics.median(abs(value - middle) for value in values) / math.sqrt(len(values))


def _passed(evidence: PerformanceEvidence, series: Series) -> list[Check]:
    """All that is claimed must fit into the time that passed."""
    found, everything = [], [one for one in (*evidence.series, evidence.control, evidence.single) if one is not None]
    for seconds, taken, where in (
        (evidence.elapsed_s, [one for one in (series if evidence.baseline else None, evidence.control) if one is not None], "the pairs"),
        (evidence.process_s, everything, "the timing process"),
    ):
        if seconds is not None:
            claimed_s = 1e-6 * sum(one.launches.get(block.side, 1) * sum(block.samples_us) for one in taken for block in one.blocks)
            found.append(
                _check("claimed", claimed_s, "at most", seconds * (1.0 + outside.CLOCKS_PCT / 100.0), "s", f"all samples of {where}")
            )
    return found


def _unflushed(evidence: PerformanceEvidence, series: Series, side: str, p50: float) -> list[Check]:
    """Cold launches can't be faster than the same ones with nothing flushed between them; warm ones are the same."""
    mine = [block.launch_us for block in evidence.outside or () if block.side == side]
    if not mine:
        return []
    middle, where = statistics.median(mine), f"{side}, {series.mode} L2, against long blocks"
    found = [_check("p50", p50, "at least", middle * (1.0 - SAME_PCT / 100.0), "us", where)]
    return [*found, _check("p50", p50, "at most", middle / (1.0 - SAME_PCT / 100.0), "us", where)] if series.mode == "warm" else found


def _other_mode(evidence: PerformanceEvidence, series: Series, side: str, p50: float) -> list[Check]:
    cold, warm = (one.samples(side) if one else [] for one in (evidence.in_mode("cold"), evidence.in_mode("warm")))
    if not cold or not warm:
        return []
    return [
        _check(
            "cold_p50",
            statistics.median(cold),
            "at least",
            statistics.median(warm) * (1.0 - SAME_PCT / 100.0),
            "us",
            f"{side}, against warm L2",
        )
    ]


def _single(evidence: PerformanceEvidence, side: str, p50: float) -> list[Check]:
    """A single cold launch takes what one of many takes, and its event pair and launch besides."""
    cold, single = evidence.in_mode("cold"), evidence.single.samples(side) if evidence.single else []
    if cold is None or not cold.samples(side) or not single or side in evidence.functions or evidence.calibration is None:
        return []
    of_many, alone = statistics.median(cold.samples(side)), statistics.median(single)
    most = of_many * (1.0 + SINGLE_FACTOR) + SINGLE_US + evidence.calibration.empty_pair_us
    where = f"{side}, single launches, against p50 of many"
    return [_check("single_p50", alone, "at least", 0.5 * of_many, "us", where), _check("single_p50", alone, "at most", most, "us", where)]


def _singles_alike(evidence: PerformanceEvidence, sides: list[str]) -> list[Check]:
    """What an event pair and a launch cost on top is of the machine: about as much for both sides."""
    cold = evidence.in_mode("cold")
    if cold is None or evidence.single is None or evidence.functions:
        return []
    on_top, of_many = {}, {}
    for side in sides:
        many, single = cold.samples(side), evidence.single.samples(side)
        if not many or not single:
            return []
        of_many[side] = statistics.median(many)
        on_top[side] = statistics.median(single) - of_many[side]
    more = max(sides, key=lambda side: on_top[side])
    seen, allowed = abs(on_top[CANDIDATE] - on_top[BASELINE]), ALIKE_PCT / 100.0 * of_many[more] + ALIKE_US
    return [_check("single_on_top", seen, "at most", allowed, "us", f"{more} against the other side, single launches over p50 of many")]


def _alone(evidence: PerformanceEvidence, series: Series) -> list[Check]:
    """Beside the candidate, which could slow it, the baseline takes no longer than in a process of its own: in time, or in cycles where
    the clock is known.
    """
    if evidence.alone is None:
        return []  # a run that did not ask
    alone, most = evidence.alone.series, 1.0 + ALONE_PCT / 100.0
    if alone is None or alone.mode != series.mode or not alone.samples(BASELINE):
        why = evidence.alone.message or "none of its blocks counts"
        return [Check("baseline_alone", Status.INCONCLUSIVE, None, most, "x", "baseline", codes.NOT_ALONE, why)]
    beside_us, alone_us = (statistics.median(one.samples(BASELINE)) for one in (series, alone))
    ratio, beside_mhz, alone_mhz = beside_us / alone_us, _clock(series), _clock(alone)
    if beside_mhz and alone_mhz:
        ratio = min(ratio, ratio * beside_mhz / alone_mhz)
    return [
        _check(
            "baseline_beside_over_alone",
            ratio,
            "at most",
            most,
            "x",
            f"the baseline takes {beside_us:.4g} us beside the candidate and {alone_us:.4g} us alone",
            hint="the candidate may slow the baseline; run again on an idle card to rule out the machine",
        )
    ]


def _clock(series: Series) -> float | None:
    """Median SM clock of the baseline's valid blocks, MHz; None where some block's is unknown."""
    seen = [block.sm_mhz for block in series.blocks if block.side == BASELINE and block.valid]
    known = [mhz for mhz in seen if mhz and mhz > 0]
    return statistics.median(known) if known and len(known) == len(seen) else None


def _constant(evidence: PerformanceEvidence, series: Series, side: str) -> list[Check]:
    """Samples of a card differ from one another, as far as its timer can show it."""
    samples, calibration = series.samples(side), evidence.calibration
    if calibration is None or len(samples) < 60 or series.launches[side] * samples[0] < CONSTANT_STEPS * calibration.timer_step_us:
        return []
    return [_check("distinct_samples", float(len(set(samples))), "at least", 2.0, "", f"{side}, of {len(samples)} samples")]
