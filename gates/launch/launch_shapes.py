"""Run the job "launches": record how a C launcher launches its kernels per shape and chip, on the emulator, without running a block.

Each launcher call has a fresh process (``gates.launch.answering``), because launchers keep answers of the device in static variables. A
launcher that fails on unwritten results does not affect the other calls.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gates.hardware.chips import chip_of
from gates.launch.isolated_launch import DeviceLost
from gates.launch.side import opened
from gates.task import problem as problems
from gates.worker.job import ResultWriter

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
        problem = problems.load(side["problem"], Path(side["folder"]))
        for shape in job["shapes"]:
            values = _values(problem, problem.SHAPES[shape])
            if values is None:
                writer.write("missing", shape=shape, arch="", why="its buffers take more than 1 GiB")
                continue
            for arch in (arch for arch in job["archs"] if chip_of(arch) is not None):
                case = {"shape": shape, "arch": arch}
                try:
                    with opened({**job, "device": "cpu"}) as launcher:
                        found, left_out = launcher.launches(*values, problem.SHAPES[shape], arch, _LIMIT_S)
                except DeviceLost as error:
                    writer.write("missing", **case, why=str(error))
                    continue
                writer.write("case", **case, emulator_launches=found)
                if left_out:
                    writer.write("missing", **case, why="the launcher reads results back before its last launches")
        writer.write("done")


def _values(problem: Any, shape: dict[str, int]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """(inputs, outputs); None where they take too much memory. Outputs are looked at first: to make them costs nothing."""
    outputs = problems.outputs_of(problem, shape)
    if _bytes(outputs) > _MAX_BYTES:
        return None
    inputs = problem.make_inputs(shape, 0, "cpu")
    return None if _bytes(outputs) + _bytes(inputs) > _MAX_BYTES else (inputs, outputs)


def _bytes(values: dict[str, Any]) -> int:
    return sum(value.numel() * value.element_size() for value in values.values() if hasattr(value, "data_ptr"))
