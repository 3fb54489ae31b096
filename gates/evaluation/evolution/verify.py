"""Check a search from its folder alone: that the lineage holds together, and that scores, parents and champion follow from the evidence."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.core.records import from_json
from gates.core.schema import schema_errors
from gates.evaluation.evolution import strategies
from gates.evaluation.evolution.record import FILE, Evolution, Generation, Member, read_evolution
from gates.evaluation.overlay import id_of
from gates.evaluation.record import read_evaluation
from gates.evaluation.verify import verify_evaluation
from gates.evidence.packed_runs import origin
from gates.gate.performance.evidence import PerformanceEvidence
from gates.sweep.verify import run_problems
from gates.sweep.work import timing_of
from gates.verify.run import same

_SAID = ("status", "code", "stage", "valid", "score", "score_high", "metrics", "toggles", "files")
_TIMED = ("faster", "code", "ratio", "low", "high", "p50_us", "reference_p50_us")


def verify_evolution(folder: Path) -> list[str]:
    """What is wrong with the search in ``folder``, one sentence each; empty if it is sound."""
    try:
        data = jsonio.read(folder / FILE)
        if isinstance(data, dict) and data.get("ended") == "":
            return ["it has not ended: the same gates evolve command continues it"]
        if problems := schema_errors("evolution", data):
            return [f"{FILE}: {problem}" for problem in problems]
        found = read_evolution(folder)
        if links := [path for path in folder.rglob("*") if path.is_symlink()]:
            return [f"{links[0].relative_to(folder)} is a link: evidence is in the search's own folder"]
        return [*_lineage(found), *_evidence(folder, found), *_timings(folder, found), *_choices(found), *_run(folder, found)]
    except GatesError as error:
        return [error.what]
    except OSError as error:
        return [f"can't read {error.filename or folder}: {error.strerror}"]


def _lineage(found: Evolution) -> Iterator[str]:
    """Whether each member is in one generation, has its own digest as its id, and comes from a member before it."""
    listed = [name for one in found.generations for name in one.members]
    if listed != [one.id for one in found.members] or len(set(listed)) < len(listed):
        yield f"{FILE}: its generations are not those of its members"
        return
    if [one.number for one in found.generations] != list(range(len(found.generations))) or not found.members:
        yield f"{FILE}: its generations are not numbered from 0"
        return
    known: dict[str, int] = {}
    for one in found.members:
        if one.id != id_of(found.task, found.task_digest, one.files, one.toggles):
            yield f"{one.id} is not the digest of its task, texts and toggles"
        if one.id not in found.generations[min(one.generation, len(found.generations) - 1)].members:
            yield f"{one.id} is not in generation {one.generation}"
        if (one.parent is None) != (one.generation == 0) or (
            one.parent is not None and known.get(one.parent, one.generation) >= one.generation
        ):
            yield f"{one.id}: its parent {one.parent} is not a candidate of an earlier generation"
        known[one.id] = one.generation


def _evidence(folder: Path, found: Evolution) -> Iterator[str]:
    """Whether the texts are those of the digests, and each evaluation is sound and says what the record has."""
    for one in found.members:
        for name, sha in one.files.items():
            path = folder / "candidates" / one.id / name
            if ".." in Path(name).parts or not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sha:
                yield f"candidates/{one.id}/{name} is not the text that was evaluated"
        place = folder / "evaluations" / found.task / one.id
        if problems := verify_evaluation(place):
            yield f"the evaluation of {one.id}: {problems[0]}"
            continue
        said = read_evaluation(place)
        if wrong := [name for name in _SAID if not same(getattr(one, name), getattr(said, name))]:
            yield f"{one.id}: {', '.join(wrong)} in {FILE} is not that of its evaluation"
        if (said.asked, said.task) != (found.stage, found.task) or (
            found.devices and said.device not in {one.name for one in found.devices}
        ):
            yield f"the evaluation of {one.id} is of other terms"


def _timings(folder: Path, found: Evolution) -> Iterator[str]:
    """Whether the timings of elites are those of their samples."""
    terms, cards = {"shape": found.timed_shape, "cache": found.cache}, {device.uuid for device in found.devices}
    for generation in found.generations:
        for timing in generation.timings:
            name = f"timings/{generation.number}/{timing.variant}.json"
            evidence = from_json(PerformanceEvidence, jsonio.read(folder / name), name)
            again = timing_of(timing.variant, evidence, terms, timing.device_uuid, timing.wall_s)
            if wrong := [figure for figure in _TIMED if not same(getattr(timing, figure), getattr(again, figure))]:
                yield f"{timing.variant}, generation {generation.number}: {', '.join(wrong)} in {FILE} is not that of {name}"
            if timing.device_uuid not in cards or evidence.task != found.task:
                yield f"{name} is of another task or device"


def _choices(found: Evolution) -> Iterator[str]:
    """Whether parents, elites, bests and champion are what the rules choose."""
    for generation in found.generations:
        number = generation.number
        expected = tuple(one.id for one in strategies.parents_of(found, number)) if number else ()
        if generation.parents != expected:
            yield f"generation {number}: its parents are not those that {found.strategy} chooses"
        elites = {one.id for one in strategies.ranked(found, number)[: found.elite]} if number and found.devices else set()
        if {timing.variant for timing in generation.timings} != elites:
            yield f"generation {number}: what was timed again is not the elite"
        best, score = strategies.best_of(_until(found, generation))
        if generation.best != (best or found.members[0].id) or not same(generation.best_score, score):
            yield f"generation {number}: its best is {generation.best}, the scores say {best}"
    if found.champion != strategies.champion_of(found):
        yield f"{FILE} names {found.champion} as the champion, the scores say {strategies.champion_of(found)}"


def _until(found: Evolution, generation: Generation) -> Evolution:
    """The search as it was at the end of ``generation``."""
    members: tuple[Member, ...] = tuple(one for one in found.members if one.generation <= generation.number)
    return replace(found, members=members, generations=found.generations[: generation.number + 1])


def _run(folder: Path, found: Evolution) -> Iterator[str]:
    """Whether the champion's run, if it is still in the results folder, is of the champion."""
    if (found.run is None, found.decision is None) != (found.champion is None,) * 2:
        yield f"{FILE}: a champion has a run and a decision, and nothing else has"
        return
    if found.run is None or found.champion is None:
        return
    toggles = found.member(found.champion).toggles
    yield from run_problems(origin(folder).resolve().parents[2], found.run, found.task, toggles, found.decision, "the champion")
