"""The best mergeable variants of a stage, by what their own runs measured.

A variant is a version of the stage's files and toggles (its digest); its newest timed run speaks for it. Times of
different devices, shapes or cache modes are not compared, and neither are speed-ups over different baselines: each
has a list of its own. Within one the order is that of the speed-up, which comes from interleaved pairs; a first rung,
which has no baseline, is ranked by p50.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from gates.core.errors import GatesError
from gates.core.records import Decision
from gates.evidence.archive import ACCEPTANCE
from gates.evidence.packed_runs import opened
from gates.review.decide import decide_run
from gates.review.history import Entry, history

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Group:
    """Variants that may be compared, the best first; ``baseline`` is None for a first rung."""

    task: str
    device: str
    shape: str
    cache: str
    baseline: str | None
    baseline_digest: str | None
    best: tuple[Entry, ...]


@dataclass(frozen=True)
class Elite:
    """The groups, how many timed variants may not be merged, and the runs that claim a merge and are not sound: (run, why)."""

    groups: tuple[Group, ...]
    not_mergeable: int
    unsound: tuple[tuple[str, str], ...]


def elite(results: Path, task: str, k: int) -> Elite:
    """The ``k`` best mergeable variants of ``task`` in each group of runs under ``results``.

    Every run that is listed was verified and decided anew. Raises GatesError where there is no run of the task.
    """
    variants: dict[tuple[str | None, ...], dict[str, Entry]] = {}
    for entry in history(results, task):  # the newest last, so it stays
        if not entry.broken and entry.p50_us is not None:
            variants.setdefault(_comparable(entry), {})[entry.digest] = entry
    groups, refused, unsound = [], 0, list[tuple[str, str]]()
    for found in variants.values():
        best: list[Entry] = []
        for entry in sorted(found.values(), key=_rank):
            if not _may_merge(entry, unsound):
                refused += 1
            elif len(best) < k:
                best.append(replace(entry, decision=Decision.MERGE.value))  # by a reviewer's word, it may be
        if best:
            one = best[0]
            groups.append(Group(one.task, one.device, one.shape, one.cache, one.baseline, one.baseline_digest, tuple(best)))
    return Elite(tuple(groups), refused - len(unsound), tuple(unsound))


def _comparable(entry: Entry) -> tuple[str | None, ...]:
    return entry.task, entry.device, entry.shape, entry.cache, entry.baseline_digest


def _rank(entry: Entry) -> tuple[float, float, str]:
    return -(entry.speedup_pct or 0.0), entry.p50_us or 0.0, entry.path


def _may_merge(entry: Entry, unsound: list[tuple[str, str]]) -> bool:
    run = opened(Path(entry.path))
    if entry.decision != Decision.MERGE.value and not (run / ACCEPTANCE).is_file():
        return False
    try:
        return decide_run(run)[0] is Decision.MERGE
    except GatesError as error:
        unsound.append((entry.path, error.what))
        return False
