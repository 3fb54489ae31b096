"""Shared by the SDPA tests: compiled stages, calls, and errors against the reference."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import yaml
from places import ROOT

from gates.emulator.cpu.build import task_library
from gates.launch.c_launcher import Kernel
from gates.launch.emulated_kernel import EmulatedKernel
from gates.task.problem import call_arguments
from tasks.problems import sdpa_fp8 as problem

ENTRY = "sdpa_fp8_forward"
STAGES = tuple(sorted(path.parent.name for path in (ROOT / "tasks").glob("stage*/task.yaml") if f"entry: {ENTRY}\n" in path.read_text()))
GUARD = 4096  # float16 elements on either side of an output: more than a tile of 32 rows


def task_of(stage: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / "tasks" / stage / "task.yaml").read_text(encoding="utf-8"))


def source_of(stage: str) -> Path:
    return ROOT / task_of(stage)["sources"][0]


def emulated(folder: Path, name: str, toggles: Mapping[str, int], source: Path) -> EmulatedKernel:
    """``source`` with ``toggles``, compiled for the emulator."""
    return EmulatedKernel(task_library([source], folder / f"{name}.so", defines=toggles, capability="89", flags=["-ftz=true"]), ENTRY)


def on_device(folder: Path, stage: str) -> Path:
    """The library of ``stage`` for the current CUDA device."""
    task = task_of(stage)
    major, minor = torch.cuda.get_device_capability()
    library = folder / f"{stage}.so"
    defines = [f"-D{name}={value}" for name, value in task["toggles"].items()]
    subprocess.run(
        [
            "nvcc",
            "-std=c++17",
            "-O3",
            "-shared",
            "-Xcompiler",
            "-fPIC",
            f"-arch=sm_{major}{minor}",
            *task["nvcc_flags"],
            *defines,
            str(source_of(stage)),
            "-o",
            str(library),
        ],
        check=True,
    )
    return library


def run(kernel: Kernel | EmulatedKernel, inputs: Mapping[str, Any], shape: Mapping[str, int], **how: Any) -> torch.Tensor:
    """One call into a poisoned output between guard bands; asserts that the bands are untouched."""
    size = (shape["B"], shape["H"], shape["S"], shape["D"])
    count = size[0] * size[1] * size[2] * size[3]
    whole = torch.full((count + 2 * GUARD,), torch.nan, dtype=torch.float16, device=inputs["q"].device)
    out = whole[GUARD : GUARD + count].view(size)
    kernel(*call_arguments(problem, inputs, {"out": out}, shape), **how)
    result, bands = out.cpu().clone(), torch.cat([whole[:GUARD], whole[GUARD + count :]])
    assert torch.isnan(bands).all(), "written outside the output"
    return result


def worst_error(out: torch.Tensor, inputs: Mapping[str, Any], shape: Mapping[str, int]) -> float:
    """Largest error against the reference; infinite where a value is not finite."""
    error = (out.double() - problem.reference(inputs, shape)["out"]).abs()
    return error.max().item() if torch.isfinite(out).all() else float("inf")


def extreme_inputs(shape: Mapping[str, int]) -> dict[str, Any]:
    """All scores are -724 * 724 * 64 / 8 = -4.2e6, so O is the mean of V."""
    inputs = problem.make_inputs(shape, 0, "cpu")
    for name, value in (("q", 724.0), ("k", -724.0)):
        inputs[name], inputs[f"{name}_scale"] = problem.quantise(torch.full(inputs[name].shape, value, dtype=torch.float16))
    return inputs
