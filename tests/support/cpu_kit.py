"""What the tests of the CPU device share: the device, kernels' libraries, and a task's cases by its own problem."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from places import ROOT

from gates.emulator.cpu.build import runtime_library
from gates.emulator.cpu.loading import CpuDevice, DeviceArray, Launcher
from gates.emulator.cpu.records import Finding
from gates.task import problem
from gates.task.load import load_task

DATA = ROOT / "tests" / "data" / "cpu"


def kernel_library(sources: Sequence[Path], output: Path, *, capability: str = "90", flags: Sequence[str] = ()) -> Path:
    """Compile ``sources`` to a library whose CUDA runtime is that of the device in this process."""
    runtime, code = runtime_library(), f"arch=compute_{capability},code=compute_{capability}"
    argv = ["nvcc", "-shared", "-cudart=none", "-Xcompiler", "-fPIC", "-lineinfo", "--no-compress", "-gencode", code, *flags]
    argv += [*map(str, sources), str(runtime), "-Xlinker", f"-rpath={runtime.parent}", "-o", str(output)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return output


def apart(library: Path, calls: str) -> subprocess.CompletedProcess[str]:
    """Run ``calls``, of ``cpu`` and launchers of ``library``, in a process of its own, which they may end."""
    begin = "import cpu_kit, numpy as np; from gates.emulator.cpu.loading import Launcher; from pathlib import Path\n"
    code = f"{begin}cpu, library = cpu_kit.device(), Path({str(library)!r}); {calls}"
    here = Path(__file__).parent
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=here, check=False)


def device(**settings: int) -> CpuDevice:
    """The device with nothing to remember, and settings as they are at its start but for ``settings``."""
    made = CpuDevice()
    made.reset()
    made.configure(**{"threads": 1, "time_limit_ms": 60000, "seed": 0, "races": 1, "uninitialised": 1, "approximations": 0, **settings})
    return made


def line_of(source: Path, text: str) -> int:
    """The number of the first line of ``source`` that contains ``text``."""
    for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
        if text in line:
            return number
    raise AssertionError(f"{source} has no line with {text!r}")


@dataclass(frozen=True)
class Outcome:
    """What a case of a task gave: the largest error over all outputs, the task's limits that it breaks, and findings."""

    max_abs_err: float
    broken: tuple[str, ...]
    findings: tuple[Finding, ...]
    warp_instructions: int


class TaskOnCpu:
    """A task folder with a C launcher, compiled by nvcc for the CPU device; ``library`` if another task of the same source has been."""

    def __init__(self, folder: Path, work: Path, library: Path | None = None) -> None:
        task = load_task(folder)
        self.library = library or kernel_library(
            task.sources,
            work / f"{task.name}.so",
            capability=task.arch[-1].removeprefix("sm_"),
            flags=[*task.nvcc_flags, *(f"-D{name}={value}" for name, value in task.toggles.items())],
        )
        self._launch, self.problem = Launcher(self.library, task.entry), problem.load(task.problem, folder)
        self._limits = task.gates["correctness"]

    def run(self, cpu: CpuDevice, shape_name: str, seed: int = 0, family: str = problem.DEFAULT_INPUTS, again: bool = False) -> Outcome:
        """One case, with the problem's inputs, against its reference.

        ``again``: one more call with the same arrays, another order of warps and CTAs.
        """
        import torch

        from gates.gate.correctness.runner import accuracy

        given, shape = self.problem, self.problem.SHAPES[shape_name]
        make = given.make_inputs if family == problem.DEFAULT_INPUTS else given.INPUT_FAMILIES[family]
        inputs, outputs = make(shape, seed, "cpu"), given.make_outputs(shape, "cpu")
        values: dict[str, Any] = {**shape, **inputs, **outputs}
        arrays: dict[str, DeviceArray] = {}
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                arrays[name] = cpu.empty((value.numel() * value.element_size(),), np.uint8)
                if name in inputs:
                    arrays[name].set(value.contiguous().reshape(-1).view(torch.uint8).numpy()).protect()
        cpu.reset()
        arguments = [arrays.get(name, values[name]) for name in given.ARGUMENTS]
        self._launch(*arguments)
        answers, broken = {name: arrays[name].get() for name in outputs}, set()
        if again:
            for name in outputs:
                arrays[name].forget(0xAB)
            cpu.configure(seed=1)
            self._launch(*arguments)
            cpu.configure(seed=0)
            broken |= {"not_repeatable"} if any((arrays[name].get() != answer).any() for name, answer in answers.items()) else set()
        role = "edge" if shape_name in getattr(given, "EDGE_SHAPES", ()) else "odd"
        limits = limits_of(role, family, self._limits)
        bounds = given.error_bound(inputs, shape) if "max_err_over_bound" in limits else {}
        worst = 0.0
        for name, expected in given.reference(inputs, shape).items():
            got = torch.from_numpy(answers[name]).view(outputs[name].dtype).reshape(outputs[name].shape)
            figures = accuracy.figures(name, got, expected, limits.get("bad_atol"), bounds.get(name))
            broken |= (
                {"non_finite"}
                if figures["nonfinite"]
                else {figure for figure in limits if figure in figures and not figures[figure] <= limits[figure]}
            )
            worst = max(worst, float("inf") if figures["nonfinite"] else figures["max_abs_err"])
        for array in arrays.values():
            array.free()
        return Outcome(worst, tuple(sorted(broken)), cpu.findings(), cpu.executed()[0])


def limits_of(role: str, family: str, limits: Mapping[str, Any]) -> dict[str, float]:
    """The limits on errors that judge a case, as the correctness gate has them: special inputs and edge shapes are held to the bound
    alone.
    """
    figures = (
        ("max_err_over_bound",)
        if "max_err_over_bound" in limits and not problem.is_ordinary(role, family)
        else ("max_abs_err", "mean_abs_err", "bad_pct", "bad_atol", "max_err_over_bound")
    )
    return {figure: limits[figure] for figure in figures if figure in limits}
