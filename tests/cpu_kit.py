"""What the tests of the CPU device share: the device, kernels' libraries, and a task's cases by its own problem."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gates.emulator.cpu.build import kernel_library
from gates.emulator.cpu.loading import CpuDevice, DeviceArray, Launcher
from gates.emulator.cpu.records import Finding
from gates.task import problem
from gates.task.load import load_task

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data" / "cpu"


def device(**settings: int) -> CpuDevice:
    """The device with nothing to remember, and settings as they are at its start but for ``settings``."""
    made = CpuDevice()
    made.reset()
    made.configure(**{"threads": 1, "time_limit_ms": 60000, "seed": 0, "races": 1, "uninitialised": 1, **settings})
    return made


def line_of(source: Path, text: str) -> int:
    """The number of the first line of ``source`` that contains ``text``."""
    for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
        if text in line:
            return number
    raise AssertionError(f"{source} has no line with {text!r}")


@dataclass(frozen=True)
class Outcome:
    """What a case of a task gave: the largest error over all outputs, and findings."""

    max_abs_err: float
    findings: tuple[Finding, ...]
    warp_instructions: int


class TaskOnCpu:
    """A task folder with a C launcher, compiled by nvcc for the CPU device."""

    def __init__(self, folder: Path, work: Path) -> None:
        task = load_task(folder)
        library = kernel_library(
            task.sources, work / f"{task.name}.so", capability=task.arch[-1].removeprefix("sm_"),
            flags=[*task.nvcc_flags, *(f"-D{name}={value}" for name, value in task.toggles.items())],
        )
        self._launch, self._problem = Launcher(library, task.entry), problem.load(task.problem, folder)

    def run(self, cpu: CpuDevice, shape_name: str, seed: int = 0) -> Outcome:
        """One case, with the problem's inputs, against its reference."""
        import torch

        shape = self._problem.SHAPES[shape_name]
        inputs, outputs = self._problem.make_inputs(shape, seed, "cpu"), self._problem.make_outputs(shape, "cpu")
        values: dict[str, Any] = {**shape, **inputs, **outputs}
        arrays: dict[str, DeviceArray] = {}
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                arrays[name] = cpu.empty((value.numel() * value.element_size(),), np.uint8)
                if name in inputs:
                    arrays[name].set(value.contiguous().reshape(-1).view(torch.uint8).numpy()).protect()
        cpu.reset()
        self._launch(*(arrays.get(name, values[name]) for name in self._problem.ARGUMENTS))
        worst = 0.0
        for name, expected in self._problem.reference(inputs, shape).items():
            got = torch.from_numpy(arrays[name].get()).view(outputs[name].dtype).reshape(outputs[name].shape).double()
            error = (got - expected.double()).masked_fill(got == expected.double(), 0.0).abs().max().item()
            worst = max(worst, error if error == error else float("inf"))
        for array in arrays.values():
            array.free()
        return Outcome(worst, cpu.findings(), cpu.executed()[0])
