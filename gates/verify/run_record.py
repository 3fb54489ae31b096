"""Whether run.json agrees with itself: what task.yaml declares, what was judged, and what was overridden from outside."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from gates.evidence.run_directory import RunInfo, TaskInfo
from gates.gate.registry import cpu_gates
from gates.task.load import CUDA, DIGEST_RULE, EXTENSION, WITHOUT_DEVICE
from gates.task.sources.default_stream import CURRENT, DEFAULT
from gates.task.sources.optimisation import split, unoptimised

_NOT_TOGGLES = ("shapes", "seeds", "inputs")  # keys of overrides that name no toggle


def self_contradictions(info: RunInfo, data: Mapping[str, Any]) -> Iterator[str]:
    """What of run.json can't be true together, one sentence each; ``data`` is the file itself."""
    for name, task in (("task", info.task), ("baseline", info.baseline)):
        if task is not None:
            yield from (f"run.json, {name}: {text}" for text in _task(task, data[name], info.environment))
            flags = [word for variable in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS") for word in split(info.environment.get(variable, ""))]
            if task.kind in (CUDA, EXTENSION) and unoptimised(flags) and not task.debug_build:
                yield f"run.json, {name}: the environment has {unoptimised(flags)}, a debug build, and debug_build is false"
    if info.profile not in ("cpu", "full") or (info.profile == "full") != (info.device is not None):
        yield f"run.json says {info.profile} profile with{'' if info.device else 'out'} a device"
    asked = info.gates if info.profile == "full" else cpu_gates(info.task.kind, info.gates)
    if info.asked_gates != asked:
        yield f"run.json asks for the gates {_list(info.asked_gates)}, its profile for {_list(asked)}"
    yield from _revision(info)
    if info.baseline:
        for what in ("shapes", "seeds", "judged_shapes", "judged_inputs"):
            ours, theirs = getattr(info.task, what), getattr(info.baseline, what)
            if ours != theirs:
                yield f"run.json, baseline: its {what} are not those of the task"
    if info.baseline and info.baseline.name != info.task.name and info.baseline.digest == info.task.digest:
        yield f"run.json gives {info.task.name} and {info.baseline.name} one digest"
    try:
        backwards = datetime.fromisoformat(info.ended) < datetime.fromisoformat(info.started)
    except ValueError:
        yield f"run.json: {info.started} or {info.ended} is no time"
    else:
        if backwards:
            yield f"run.json ended at {info.ended}, before it started"


def _revision(info: RunInfo) -> Iterator[str]:
    git, told = info.git, info.environment.get("GATES_REVISION", "").strip()
    if (git.sha is not None) != (git.source in ("git", "GATES_REVISION")) or not re.fullmatch(r"[0-9a-f]{7,64}", git.sha or "0" * 7):
        yield f"run.json names the revision {git.sha} from {git.source}"
    elif git.source == "GATES_REVISION" and told != f"{git.sha}{'-dirty' if git.dirty else ''}":
        yield f"run.json names the revision {git.sha}{' (dirty)' if git.dirty else ''}, GATES_REVISION in its environment is {told}"


def _task(task: TaskInfo, data: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[str]:
    if task.kind not in WITHOUT_DEVICE or task.stream not in (CURRENT, DEFAULT) or task.digest_rule not in range(1, DIGEST_RULE + 1):
        yield f"the kind {task.kind}, the stream {task.stream} or the digest_rule {task.digest_rule} is unknown"
    for what, digest in (("digest", task.digest), ("problem_sha256", task.problem_sha256)):
        if digest is not None and not re.fullmatch(r"[0-9a-f]{64}", digest):
            yield f"{what} {digest} is no sha256"
    for what in ("kernels", "arch", "seeds", "judged_shapes", "declared_shapes", "declared_seeds", "judged_inputs"):
        if len(set(values := getattr(task, what))) < len(values):
            yield f"{what} names one twice: {_list(values)}"
    judged = task.judged_shapes or tuple(task.shapes)
    if missing := [shape for shape in judged if shape not in task.shapes]:
        yield f"the shapes {', '.join(missing)} were judged and have no dimensions"
    for what, declared, used in (("shapes", task.declared_shapes, judged), ("seeds", task.declared_seeds, task.seeds)):
        if data.get(f"declared_{what}") is None:  # the first runs do not have it
            continue
        if not declared:
            yield f"declared_{what} is empty"
        elif set(declared) != set(used) and what not in task.overrides:
            yield f"the {what} {_list(used)} were judged, {_list(declared)} are declared, and no override is recorded"
    for what, values in (("shapes", judged), ("seeds", task.seeds), ("inputs", task.judged_inputs)):
        if what in task.overrides and task.overrides[what] != ",".join(map(str, values)):
            yield f"overrides name the {what} {task.overrides[what]}, {_list(values) or 'none'} were judged"
    if task.judged_inputs and "inputs" not in task.overrides:
        yield f"the inputs {_list(task.judged_inputs)} were named from outside, and no override is recorded"
    for name, value in task.overrides.items():
        if name not in _NOT_TOGGLES and task.toggles.get(name, environment.get(name)) != value:
            yield f"overrides set {name}={value}, the toggle is {task.toggles.get(name)}"


def _list(values: tuple[Any, ...]) -> str:
    return ", ".join(map(str, values))
