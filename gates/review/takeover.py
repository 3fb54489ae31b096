"""The GPU verdict of a recorded run holds for a run without a GPU, if what the GPU would run and how it is judged are the same.

Machine code, constants and terms must be equal, of candidate and baseline alike, and the host code or all source files. Nothing is
written: the decision says whose verdict it takes over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.core.records import GateResult, Status
from gates.evidence.packed_runs import opened, origin
from gates.evidence.run_directory import RunInfo, TaskInfo, Verdict, read_record, recorded, run_places
from gates.gate.registry import ROWS
from gates.task.load import CUDA
from gates.verify.run import require_sound, verify_run

SETTLED = (Status.PASS, Status.NOT_APPLICABLE)
_LOOKED_AT = 5  # runs of a folder
_COMPILERS = ("nvcc", "ptxas", "nvlink")
_TERMS = (  # of TaskInfo, in words
    ("problem_sha256", "the problem's files"),
    ("shapes", "dimensions of shapes"),
    ("judged_shapes", "shapes"),
    ("seeds", "seeds"),
    ("limits", "limits"),
    ("not_applicable", "gates that are not applicable"),
    ("toggles", "toggles"),
    ("terms_sha256", "task.yaml"),  # last: the others say what in it
)


@dataclass(frozen=True)
class Takeover:
    """A run's gates with those that were taken over, and what to say of it: whose they are, or why nothing was taken."""

    gates: tuple[GateResult, ...]
    taken: tuple[str, ...]
    words: str


def take_over(run: Path, gpu_run: Path) -> Takeover:
    """The gates of a sound ``run``, with the verdicts of ``gpu_run`` for those that it did not run.

    Raises GatesError if ``gpu_run`` is not sound.
    """
    require_sound(gpu_run)
    own, theirs = (read_record(Verdict, one, "verdict.json").gates for one in (run, gpu_run))
    place = origin(gpu_run)
    name = f"{place.parent.name}/{place.stem if place != gpu_run else place.name}"
    if problem := next(differences(run, gpu_run), ""):
        return Takeover(own, (), f"the GPU verdict of {name} can't be taken over: {problem}")
    found = {result.gate: result for result in theirs}
    taken = tuple(result.gate for result in own if result.status is Status.NOT_RUN)
    gates = tuple(_named(found[result.gate], name) if result.gate in taken else result for result in own)
    device = read_record(RunInfo, gpu_run, "run.json").device
    return Takeover(gates, taken, f"machine code unchanged: {', '.join(taken) or 'nothing'} as in {name} on {device.name}")


def fitting(run: Path, results: Path) -> Path | None:
    """The latest run of the same task on a GPU, in ``results`` or recorded, whose verdict ``run`` may take over; None without one.

    Of each folder the last few runs are looked at.
    """
    name = read_record(RunInfo, run, "run.json").task.name
    folders = [results / name, *recorded(results).glob(f"*/{name}")]
    places = [place for folder in folders for place in run_places(folder)[-_LOOKED_AT:]]
    fit = [started for place in places if (started := _started_if_fitting(run, place))]
    return max(fit)[1] if fit else None


def _started_if_fitting(run: Path, place: Path) -> tuple[str, Path] | None:
    try:
        gpu_run = opened(place)
        fits = next(differences(run, gpu_run), None) is None and not verify_run(gpu_run)
        return (read_record(RunInfo, gpu_run, "run.json").started, gpu_run) if fits else None
    except GatesError:  # a broken run is nobody's verdict
        return None


def differences(run: Path, gpu_run: Path) -> Iterator[str]:
    """Why ``run`` may not take over the GPU verdict of ``gpu_run``, one sentence each; both are read as they are, sound or not."""
    info, theirs = (read_record(RunInfo, one, "run.json") for one in (run, gpu_run))
    verdict: Verdict = read_record(Verdict, gpu_run, "verdict.json")
    if info.device is not None:
        yield "this run had a device of its own"
    if theirs.device is None or theirs.profile != "full":
        yield "it is not a run of the full profile on a device"
        return
    if open_gates := [f"{one.gate} ({one.status.value})" for one in verdict.gates if one.status not in SETTLED]:
        yield f"not all of its gates passed: {', '.join(open_gates)}"
    if info.gates != theirs.gates:
        yield f"its gates are {', '.join(theirs.gates)}"
    for what, one in (("this run", info), ("it", theirs)):
        if one.debug_build or one.task.overrides:
            yield f"{what} did not judge the stage as committed"
    for tool in _COMPILERS:
        if info.toolchain.get(tool) != theirs.toolchain.get(tool):
            yield f"{tool} is {info.toolchain.get(tool)}, there it was {theirs.toolchain.get(tool)}"
    built = jsonio.read(gpu_run / "build.json")
    archs = built.get("device_archs") if isinstance(built, dict) else None
    if not isinstance(archs, list) or not archs:
        yield "it does not say for which architecture the device's library was built"
        return
    for folder, one, other in (("", info.task, theirs.task), ("baseline", info.baseline, theirs.baseline)):
        if one is None or other is None:
            yield from ["only one of both has a baseline"] if one is not other else []
        else:
            yield from _side(one, other, run / folder, gpu_run / folder, [str(arch) for arch in archs])
            if (one.digest, one.digest_rule) != (other.digest, other.digest_rule):
                yield from _host(one.name, run / folder, gpu_run / folder, [str(one.toolchain.get("g++")) for one in (info, theirs)])


def _side(ours: TaskInfo, theirs: TaskInfo, here: Path, there: Path, archs: list[str]) -> Iterator[str]:
    """What differs between two runs of one stage."""
    if {(ours.name, ours.kind), (theirs.name, theirs.kind)} != {(ours.name, CUDA)}:
        yield f"{ours.name} and {theirs.name} are not one CUDA stage with a C launcher"
    for name, words in _TERMS:
        one, other = getattr(ours, name), getattr(theirs, name)
        if one in (None, "") or other in (None, ""):
            yield f"{words} of {ours.name} were not recorded by an earlier version: record the run again"
        elif one != other:
            yield f"{words} of {ours.name} changed"
    if not all((folder / "sass.json").is_file() for folder in (here, there)):
        yield f"a run has no machine code of {ours.name}"
        return
    one, other = (_sass(folder) for folder in (here, there))
    for arch in archs:
        yield from _code(ours.name, arch, one, other)


def _host(name: str, here: Path, there: Path, compilers: list[str]) -> Iterator[str]:
    """What differs in the host code, whose source has changed."""
    one, other = (_sass(folder).host if (folder / "sass.json").is_file() else "" for folder in (here, there))
    if compilers[0] != compilers[1]:
        yield f"the host code of {name} can't be compared: g++ is {compilers[0]}, there it was {compilers[1]}"
    elif not (one and other):
        yield f"the host code of {name} was not recorded: record the run again"
    elif one != other:
        yield f"the host code of {name} changed"


def _sass(folder: Path) -> Any:
    return read_record(ROWS["sass"].evidence(), folder, "sass.json")


def _code(name: str, arch: str, ours: Any, theirs: Any) -> Iterator[str]:
    """What differs in the machine code of one architecture."""
    one, other = ({found.key: found.code for found in sass.functions if found.arch == arch} for sass in (ours, theirs))
    if not (one and other and all(one.values()) and all(other.values()) and ours.data.get(arch) and theirs.data.get(arch)):
        yield f"the machine code of {name} for {arch} was not recorded in both runs"
        return
    if changed := sorted(key for key in {*one, *other} if one.get(key) != other.get(key)):
        yield f"the machine code of {changed[0]} for {arch} changed"
    if ours.data[arch] != theirs.data[arch]:
        yield f"constants or shared memory of {name} for {arch} changed"


def _named(result: GateResult, name: str) -> GateResult:
    return dataclasses.replace(result, sentence=f"{result.sentence} (machine code unchanged: as in {name})")
