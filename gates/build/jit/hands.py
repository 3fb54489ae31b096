"""Compile a task's kernels in a process that does not keep the record; its answer is data (``gates.build.jit.record``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gates.build.jit import launches, triton
from gates.core.errors import GatesError, NotHere
from gates.emulator import numba_alone, warp_alone
from gates.launch.c_launcher import KernelError
from gates.launch.entry_point import Function, load
from gates.task import problem as problems
from gates.task.load import NUMBA, TRITON, WARP
from gates.worker import isolated, wire

_RECORDERS: dict[str, Callable[[Path], Any]] = {
    TRITON: triton.Recorder,
    NUMBA: partial(launches.Recorder, numba_alone),
    WARP: partial(launches.Recorder, warp_alone),
}


def serve() -> None:
    """Run in the process: confine it, compile the requested kernels, and answer once."""
    asks, answers = isolated.settle()
    first = wire.receive(asks)
    isolated.confine(Path(first["scratch"]), memory_bytes=None, on_device=True)
    try:
        wire.send(answers, _compiled(first["side"], first["archs"], first["shapes"]))
    except GatesError as error:
        wire.send(answers, {"refused": error.what, "hint": error.hint})


def _compiled(side: Mapping[str, Any], archs: Sequence[str], shapes: Sequence[str]) -> dict[str, Any]:
    """Return {"kernels": as ``record`` reads them}, {"wrong": why the language refuses one}, or {"not_compiled": why}."""
    from gates.emulator.cpu_as_device import pretended

    try:
        recorder = _RECORDERS[side["kind"]](Path(side["folder"]).resolve())
    except NotHere as error:
        return {"not_compiled": f"{error.what}; {error.hint}" if error.hint else error.what}
    problem = problems.load(side["problem"], Path(side["folder"]))
    try:
        for arch in archs:
            recorder.arch = arch
            with pretended(archs=[arch]):
                kernel = load(side)
                if isinstance(kernel, Function) and (broken := kernel.broken):
                    wrong = {"file": broken.file, "line": broken.line, "kind": broken.kind, "message": broken.message}
                    return {"wrong": {**wrong, "arch": arch}}
                for shape in shapes:
                    kernel(*_arguments(problem, side, problem.SHAPES[shape]))
    except (KernelError, GatesError) as error:
        if recorder.wrong is not None:
            return {"wrong": recorder.wrong}
        if not isinstance(error, (KernelError, NotHere)):
            raise
        return {"not_compiled": f"without a device the entry can't be run as far as its launches: {error}"}
    return {"kernels": recorder.lines()}


def _arguments(problem: Any, side: Mapping[str, Any], shape: Mapping[str, int]) -> tuple[Any, ...]:
    return problems.call_arguments(
        problem, problem.make_inputs(shape, 0, "cpu"), problems.outputs_of(problem, shape), shape, side.get("arguments") or ()
    )
