"""Which members are parents, which is the best, and when to stop: pure functions of the record.

A member's score is the low end of its newest timing, so one lucky timing does not keep its place. Without a device there is no score.
Members are then ordered by what a compiler can say: fewer spilled bytes, more warps that fit, fewer registers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from gates.evaluation.evolution.record import Evolution, Generation, Member

STALLED_GENERATIONS, STALLED_PCT = 5, 0.5
_SMEM_STEP, _REGISTER_STEP, _OCCUPANCY_STEP = 16 * 1024, 32, 12.5  # a cell of map-elites
Standing = tuple[float, float, float, float]


def score_of(member: Member, generations: Sequence[Generation]) -> float | None:
    """The low end of the member's newest timing in ``generations``; None if it is not valid or was not timed."""
    if not member.valid:
        return None
    newest = member.score
    for generation in generations:
        for timing in generation.timings:
            if timing.variant == member.id:
                newest = timing.low
    return newest


def standing(member: Member, generations: Sequence[Generation]) -> Standing:
    """What members are ordered by; greater is better."""
    metrics = member.metrics or {}
    compiled = -metrics.get("spill_bytes", 0.0), metrics.get("occupancy_pct", 0.0), -metrics.get("registers", math.inf)
    return (score_of(member, generations) or 0.0, *compiled)


def ranked(found: Evolution, before: int | None = None) -> list[Member]:
    """The valid members, the best first, of equal ones the earlier; of all generations, or of those before ``before``."""
    earlier = [one for one in found.generations if before is None or one.number < before]
    timed_out = {one.id for one in found.judged(before) if found.devices and score_of(one, earlier) is None}
    valid = [one for one in found.judged(before) if one.valid and one.id not in timed_out]
    return sorted(valid, key=lambda one: standing(one, earlier), reverse=True)


def parents_of(found: Evolution, number: int) -> list[Member]:
    """The parents of generation ``number``, from what was known before it; the task as it is if nothing was valid."""
    best = ranked(found, number)
    if not best:
        return list(found.members[:1])
    if found.strategy == "greedy":
        return best[:1]
    if found.strategy == "beam":
        return best[: found.elite]
    cells: dict[tuple[int, int, int], Member] = {}
    for one in best:
        cells.setdefault(_cell(one), one)
    chosen = random.Random(f"{found.seed} parents {number}").sample(list(cells.values()), min(found.elite, len(cells)))
    return sorted(chosen, key=best.index)


def _cell(member: Member) -> tuple[int, int, int]:
    """The cell by registers, shared memory and occupancy."""
    metrics = member.metrics or {}
    sizes = ("registers", _REGISTER_STEP), ("smem_bytes", _SMEM_STEP), ("occupancy_pct", _OCCUPANCY_STEP)
    registers, smem, occupancy = (int(metrics.get(name, 0.0) // step) for name, step in sizes)
    return registers, smem, occupancy


def best_of(found: Evolution) -> tuple[str | None, float | None]:
    """(the best member of all, its score)."""
    first = next(iter(ranked(found)), None)
    return (None, None) if first is None else (first.id, score_of(first, found.generations))


def champion_of(found: Evolution) -> str | None:
    """The best member, if it beats the task as it is: on a device its score is above 1; without one it is the best that is known."""
    best, score = best_of(found)
    if best is None or best == found.members[0].id or (found.devices and not (score is not None and score > 1.0)):
        return None
    return best


def stalled(found: Evolution) -> bool:
    """Return whether the last five generations brought less than 0.5 %, or without a device no other best member."""
    ended = [one for one in found.generations if one.best is not None]
    if len(ended) <= STALLED_GENERATIONS:
        return False
    before, last = ended[-STALLED_GENERATIONS - 1], ended[-1]
    if before.best_score is None or last.best_score is None:
        return before.best == last.best
    return last.best_score < before.best_score * (1.0 + STALLED_PCT / 100.0)
