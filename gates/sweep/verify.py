"""Check a sweep from its folder alone: that its record fits together, and that the timings and the winner follow from the evidence."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.core.records import Status, from_json
from gates.core.schema import schema_errors
from gates.evidence.packed_runs import SUFFIX, opened, origin
from gates.evidence.run_directory import RunInfo, Verdict, read_record, require_known_version
from gates.gate.performance.evidence import PerformanceEvidence
from gates.sweep.halving import budget_s, goes_on, halved, reference_of, winner
from gates.sweep.record import FILE, Sweep, dropped_by_gates, read_sweep
from gates.sweep.variants import grid
from gates.sweep.work import timing_of
from gates.verify.run import same

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def verify_sweep(folder: Path) -> list[str]:
    """What is wrong with the sweep in ``folder``, one sentence each; empty where it is sound.

    What the gates said of a variant's resources, machine code and numbers is taken from the record, which has no limits to judge by.
    """
    try:
        match jsonio.read(folder / FILE):
            case {"ended": ""}:
                return [f"it has not ended: gates sweep --resume {folder} goes on"]
        links = [path.relative_to(folder).as_posix() for path in _files(folder) if path.is_symlink() or path.parent.is_symlink()]
        if links:
            return [f"{name} is a link: evidence lies in the sweep's own folder" for name in links]
        read = {path.relative_to(folder).as_posix(): jsonio.read(path) for path in _files(folder)}
        if problems := _misfits(read):
            return problems
        sweep = read_sweep(folder)
        return list(_not_of_params(sweep)) or [
            *_of_other_variants(read, sweep),
            *_dropped(sweep),
            *_mistimed(folder, read, sweep),
            *_misranked(sweep),
            *_run(folder, sweep),
        ]
    except GatesError as error:
        return [error.what]
    except OSError as error:  # a name in it that no file can have
        return [f"can't read {error.filename or folder}: {error.strerror}"]


def _files(folder: Path) -> list[Path]:
    return [folder / FILE, *sorted(folder.glob("variants/*/*.json"))]


def _misfits(read: Mapping[str, Any]) -> list[str]:
    """What does not fit its schema, of the files' contents by name."""
    found = []
    for name, data in read.items():
        require_known_version(data, name)
        found += [f"{name}: {error}" for error in schema_errors(name.rpartition("/")[2].split(".")[0], data)]
    return found


def _of_other_variants(read: Mapping[str, Any], sweep: Sweep) -> Iterator[str]:
    """Evidence that names a build of another stage than the variant in whose folder it lies. The first sweeps' name none."""
    digests = {one.name: one.digest for one in sweep.variants}
    for file, data in read.items():
        variant = file.split("/")[1] if "/" in file else ""
        for key, name in (("build", variant), ("baseline_build", sweep.reference)):
            if name in digests and data.get(key) and data[key].partition("-")[0] != digests[name][:32]:
                yield f"{file} is from another build than {name}"


def _not_of_params(sweep: Sweep) -> Iterator[str]:
    """Whether the variants are those of the parameters, and only they are spoken of."""
    first = sweep.variants[0] if sweep.variants else None
    if first is None or not set(sweep.params) <= set(first.toggles) or math.prod(map(len, sweep.params.values())) > len(sweep.variants):
        yield f"{FILE}: its variants are not those of its parameters"
        return
    if [(one.name, dict(one.toggles)) for one in sweep.variants] != grid(sweep.params, first.toggles):
        yield f"{FILE}: its variants are not those of its parameters"
    if (sweep.incumbent, sweep.task_digest) != (first.name, first.digest) or len({one.digest for one in sweep.variants}) < len(
        sweep.variants
    ):
        yield f"{FILE}: the digests of the task and its variants contradict each other"
    if strangers := sorted(sweep.spoken_of() - {one.name for one in sweep.variants}):
        yield f"{FILE} speaks of {', '.join(strangers)}, which are no variants of it"


def _dropped(sweep: Sweep) -> Iterator[str]:
    """Whether the reasons for dropping are what was found."""
    refused = {timing.variant: timing.sentence for part in sweep.rounds for timing in part.timings if timing.ratio is None}
    timed = {timing.variant for part in sweep.rounds for timing in part.timings} | ({sweep.winner} if sweep.ranking == "timed" else set())
    for one in sweep.variants:
        if one.name in timed and (one.ptxas is None or one.correctness is None or one.correctness.status is not Status.PASS):
            yield f"{one.name} was timed, without a verdict of ptxas and a pass of correctness"
        why = dropped_by_gates(one, on_device=bool(sweep.devices)) or refused.get(one.name, "")
        if one.dropped != why:
            yield f"{one.name} is {_state(one.dropped)}, what was found of it says {_state(why)}"


def _state(dropped: str) -> str:
    return f"dropped ({dropped})" if dropped else "not dropped"


def _mistimed(folder: Path, read: Mapping[str, Any], sweep: Sweep) -> Iterator[str]:
    """Whether the timings are those of the samples."""
    terms, cards = {"shape": sweep.timed_shape, "cache": sweep.cache}, {device.uuid: device.name for device in sweep.devices}
    known = {
        f"variants/{timing.variant}/performance.round{number}.json"
        for number, part in enumerate(sweep.rounds, 1)
        for timing in part.timings
    }
    if more := sorted({name for name in read if name.rpartition("/")[2].startswith("performance.")} - known):
        yield f"{more[0]} is of no round in {FILE}"
    for number, part in enumerate(sweep.rounds, 1):
        if not same(part.budget_s, budget_s(number - 1, len(part.variants))):
            yield f"{FILE}: round {number} had {budget_s(number - 1, len(part.variants)):g} s, not {part.budget_s:g}"
        for timing in part.timings:
            name = f"variants/{timing.variant}/performance.round{number}.json"
            data = read[name] if name in read else jsonio.read(folder / name)
            evidence = from_json(PerformanceEvidence, data, str(origin(folder) / name))
            again = timing_of(timing.variant, evidence, terms, timing.device_uuid, timing.wall_s)
            figures = ("faster", "code", "ratio", "low", "high", "p50_us", "reference_p50_us", "limit_pct")
            wrong = [figure for figure in figures if not same(getattr(timing, figure), getattr(again, figure))]
            if wrong := [*wrong, *(() if _says_the_same(timing.sentence, again.sentence) else ("sentence",))]:
                yield f"{timing.variant}, round {number}: {', '.join(wrong)} in {FILE} is not that of {name}"
            if timing.device_uuid not in cards:
                yield f"{timing.variant}, round {number}: timed on {timing.device_uuid}, which {FILE} does not name"
            elif evidence.device is not None and evidence.device.name != cards[timing.device_uuid]:
                yield f"{name} is of a {evidence.device.name}, {FILE} of a {cards[timing.device_uuid]}"
            if (evidence.task, evidence.bar_pct) != (sweep.task, 0.0):
                yield f"{name} is of {evidence.task} and a threshold of {evidence.bar_pct:g} %, not of {sweep.task} and 0 %"


def _says_the_same(one: str, other: str) -> bool:
    """Return whether two sentences differ at most in how an earlier version wrote them: fewer digits, and "bar" for the threshold."""
    one, other = (text.replace(", bar ", ", threshold ") for text in (one, other))
    if _NUMBER.sub("#", one) != _NUMBER.sub("#", other):
        return False
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return all(abs(float(first) - float(second)) <= 0.51 * 10.0 ** -min(_decimals(first), _decimals(second)) for first, second in pairs)


def _decimals(number: str) -> int:
    return len(number.partition(".")[2])


def _misranked(sweep: Sweep) -> Iterator[str]:
    """Whether the better half went on each time, and the winner is the last round's."""
    if sweep.ranking != "timed":
        if sweep.winner is not None or sweep.rounds:
            yield f"{FILE} has a winner or rounds without a ranking"
        if sweep.devices and sweep.left():
            yield f"{FILE} has devices and no ranking of what was left"
        return
    entered = [one.name for one in sweep.variants if not dropped_by_gates(one, on_device=True)]
    if not entered:
        yield f"{FILE} has a ranking, but no variant was left"
        return
    if sweep.reference != reference_of(sweep.incumbent, entered):
        yield f"{FILE}: what was timed against is {sweep.reference}, not {reference_of(sweep.incumbent, entered)}"
    first = sweep.rounds[0].variants if sweep.rounds else ()
    if sorted(first) != sorted(set(entered) - {sweep.reference}):
        yield f"{FILE}: the first round is not of all that were left"
    odd = [
        number for number, part in enumerate(sweep.rounds, 1) if sorted(part.variants) != sorted(timing.variant for timing in part.timings)
    ]
    if odd:
        yield f"{FILE}: round {odd[0]} did not time each of its variants once"
        return
    for number, (before, after) in enumerate(pairwise(sweep.rounds), 2):  # the first versions let slower ones go on
        if not set(goes_on(before)) <= set(after.variants) <= set(halved(before)):
            yield f"{FILE}: round {number} is not of the better half of the one before"
    if sweep.rounds and goes_on(sweep.rounds[-1]):
        yield f"{FILE}: there was no last round"
    best, why = winner(sweep.rounds, sweep.reference)
    if (best, why) != (sweep.winner, sweep.winner_reason):
        yield f"{FILE} names {sweep.winner} as the winner ({sweep.winner_reason}), its timings {best}: {why}"


def _run(folder: Path, sweep: Sweep) -> Iterator[str]:
    """Whether the winner's run, where it still lies in the results folder, is of the winner."""
    if (sweep.run is None, sweep.decision is None) != (sweep.winner is None,) * 2:
        yield f"{FILE}: a winner has a run and a decision, and nothing else has"
        return
    if sweep.run is None or sweep.winner is None:
        return
    toggles = sweep.variant(sweep.winner).toggles
    yield from run_problems(origin(folder).resolve().parents[2], sweep.run, sweep.task, toggles, sweep.decision, "the winner")


def run_problems(results: Path, run: str, task: str, toggles: Mapping[str, int], decision: str | None, whose: str) -> Iterator[str]:
    """Whether ``run``, if it is still below ``results``, is of the task with these toggles and has that decision."""
    if Path(run).parent != Path(task):
        yield f"{run!r} is not a name of a run of {task}"
        return
    place = results / run
    place = place if place.is_dir() else opened(place.with_name(place.name + SUFFIX))
    if not (place / "run.json").is_file():  # it may have been taken away since
        return
    info: RunInfo = read_record(RunInfo, place, "run.json")
    verdict: Verdict = read_record(Verdict, place, "verdict.json")
    if (info.task.name, dict(info.task.toggles), verdict.decision.value) != (task, dict(toggles), decision):
        yield f"{run} is not the run of {whose}, or its decision is not {decision}"
