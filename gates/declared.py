"""Whether run.json agrees with itself: what task.yaml declares, what was judged, and what was overridden from outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from gates.evidence import RunInfo, TaskInfo
from gates.stage.optimisation import split, unoptimised
from gates.task import CUDA, EXTENSION

_NOT_TOGGLES = ("shapes", "seeds", "inputs")  # keys of overrides that name no toggle


def self_contradictions(info: RunInfo, data: Mapping[str, Any]) -> Iterator[str]:
    """What of run.json can't be true together, one sentence each; ``data`` is the file itself."""
    for name, task in (("task", info.task), ("baseline", info.baseline)):
        if task is not None:
            yield from (f"run.json, {name}: {text}" for text in _task(task, data[name], info.environment))
            flags = [word for variable in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS") for word in split(info.environment.get(variable, ""))]
            if task.kind in (CUDA, EXTENSION) and unoptimised(flags) and not task.debug_build:
                yield f"run.json, {name}: the environment has {unoptimised(flags)}, a debug build, and debug_build is false"
    if info.baseline and info.baseline.name != info.task.name and info.baseline.digest == info.task.digest:
        yield f"run.json gives {info.task.name} and {info.baseline.name} one digest"
    try:
        backwards = datetime.fromisoformat(info.ended) < datetime.fromisoformat(info.started)
    except ValueError:
        yield f"run.json: {info.started} or {info.ended} is no time"
    else:
        if backwards:
            yield f"run.json ended at {info.ended}, before it started"


def _task(task: TaskInfo, data: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[str]:
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
