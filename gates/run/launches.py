"""Job "launches": how a C launcher launches its kernels for each shape on each chip, seen on the emulator, which runs no block of them.

Each launcher call is a process of its own, forked before the launcher was called at all: launchers keep what they asked
of the device in static variables, and one that does not bear unwritten results takes no other's launches with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gates import problem as problems
from gates.facts.chips import Chip, chip_of
from gates.run import buffers
from gates.run.attempt import ResultWriter
from gates.run.callable import load
from gates.run.emulator import Emulator
from gates.run.kernel import Kernel, KernelError

_MAX_BYTES = 2**30  # of a shape's buffers
_LIMIT_S = 10  # of a launcher's call: it launches nothing that takes time


def execute(job: dict[str, Any], folder: Path) -> None:
    """``side`` is an emulator library; ``shapes`` and ``archs``.

    One ``case`` line a shape and architecture: {"shape", "arch", "emulator_launches"}; beside or instead of it a ``missing``
    line {"shape", "arch", "why"} where launches are not known.
    """
    side = job["side"]
    with ResultWriter(job) as writer:
        writer.write("header")
        problem, kernel = problems.load(side["problem"], Path(side["folder"])), load(side)
        assert isinstance(kernel, Kernel), "an emulator library has a C launcher"
        chips = {arch: chip for arch in job["archs"] if (chip := chip_of(arch)) is not None}
        for shape in job["shapes"]:
            arguments = _arguments(problem, problem.SHAPES[shape], side.get("arguments") or problem.ARGUMENTS)
            if arguments is None:
                writer.write("missing", shape=shape, arch="", why="its buffers take more than 1 GiB")
                continue
            for arch, chip in chips.items():
                if why := _in_child(partial(_launch, kernel, arguments, chip, writer, shape=shape, arch=arch)):
                    writer.write("missing", shape=shape, arch=arch, why=why)
        writer.write("done")


def _arguments(problem: Any, shape: dict[str, int], names: Sequence[str]) -> list[Any] | None:
    """What the launcher is called with; None where it takes too much memory. Outputs are looked at first: to make them costs nothing."""
    outputs = problems.outputs_of(problem, shape)
    if _bytes(outputs) > _MAX_BYTES:
        return None
    inputs = problem.make_inputs(shape, 0, "cpu")
    if _bytes(outputs) + _bytes(inputs) > _MAX_BYTES:
        return None
    values = problems.call_arguments(problem, inputs, outputs, shape, names)
    return [buffers.aligned(value) if hasattr(value, "data_ptr") else value for value in values]


def _bytes(values: dict[str, Any]) -> int:
    return sum(value.numel() * value.element_size() for value in values.values() if hasattr(value, "data_ptr"))


def _launch(kernel: Kernel, arguments: Sequence[Any], chip: Chip, writer: ResultWriter, **case: str) -> None:
    emulator = Emulator(kernel.library)
    emulator.prepare("forward", 0)
    emulator.record_alone(chip)
    with contextlib.suppress(KernelError):  # it refuses the shape on this chip: the correctness gate judges that
        kernel(*arguments)
    writer.write("case", **case, emulator_launches=emulator.collect()[0])
    if emulator.left_out():
        writer.write("missing", **case, why="the launcher reads results back before its last launches")


def _in_child(call: Callable[[], None]) -> str:
    """Run ``call`` in a fork of this process; how that ended, empty if well."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            signal.alarm(_LIMIT_S)
            call()
            os._exit(0)
        os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == -signal.SIGALRM:
        return f"the launcher did not return within {_LIMIT_S} s"
    return f"the launcher ended with {'signal' if code < 0 else 'exit'} {abs(code)}" if code else ""
