"""Successive halving: time all that are left, keep the better half, give the next round twice the time. What is slower
than the reference beyond doubt can't win, and leaves at once.

Every timing is a ratio of its own, reference over variant from interleaved pairs, so variants that were timed on
different cards of one kind, or an hour apart, compare. The last round, of at most two variants, has the whole
budget; the best of it wins only where its own verdict says that it is faster beyond doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gates.gate.performance import codes
from gates.sweep.record import Round, Timing

FIRST_BUDGET_S, WHOLE_BUDGET_S = 5.0, 60.0
LAST = 2  # so many variants or fewer make the last round

SLOWER = codes.TOO_SLOW  # the gate's code where the interval lies below the threshold, here 1, and the machine was fit

Timer = Callable[[int, float, Sequence[str]], Sequence[Timing]]


def budget_s(number: int, count: int) -> float:
    """Seconds of sampling for each variant of round ``number`` (from 0), in which ``count`` are timed."""
    return WHOLE_BUDGET_S if count <= LAST else min(WHOLE_BUDGET_S, FIRST_BUDGET_S * 2.0**number)


def halve(names: Sequence[str], timed: Timer) -> list[Round]:
    """All rounds over ``names``; ``timed(number, budget_s, names)`` gives the timings of one.

    A variant without a ratio (refused, or wrong once it was timed) leaves. No names: no rounds.
    """
    rounds: list[Round] = []
    left = list(names)
    while left:
        budget = budget_s(len(rounds), len(left))
        rounds.append(Round(budget, tuple(left), tuple(timed(len(rounds), budget, left))))
        left = goes_on(rounds[-1])
    return rounds


def goes_on(part: Round) -> list[str]:
    """The variants of the next round, the fastest first: the better half, less what is slower beyond doubt; none after the last round."""
    slower = {timing.variant for timing in part.timings if timing.code == SLOWER}
    return [] if len(part.variants) <= LAST else [name for name in halved(part) if name not in slower]


def halved(part: Round) -> list[str]:
    """The better half of the round's variants, the fastest first."""
    return ranked(part)[: (len(part.variants) + 1) // 2]


def reference_of(incumbent: str, left: Sequence[str]) -> str:
    """What is timed against: the incumbent, or the first variant left where that was dropped."""
    return incumbent if incumbent in left else left[0]


def ranked(last: Round) -> list[str]:
    """The round's variants that have a ratio, the fastest first; of equal ones the first named."""
    found = [timing for timing in last.timings if timing.ratio is not None]
    place = {name: number for number, name in enumerate(last.variants)}
    return [timing.variant for timing in sorted(found, key=lambda timing: (-(timing.ratio or 0.0), place[timing.variant]))]


def winner(rounds: Sequence[Round], reference: str) -> tuple[str, str]:
    """(the winner, why): the best of the last round, or the reference where nothing is faster beyond doubt."""
    if not rounds:
        return reference, "there was nothing to time it against"
    best = next(iter(ranked(rounds[-1])), None)
    if best is None:
        return reference, "no variant of the last round could be timed"
    timing = next(timing for timing in rounds[-1].timings if timing.variant == best)
    if timing.faster:
        return best, f"faster than {reference}: {timing.sentence}"
    return reference, f"nothing is faster beyond doubt; next is {best}: {timing.sentence}"
