"""Shared by the FP16 tests: emulator builds of the rungs under chosen toggles, and calls."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from defects.record import Defect, patch
from places import ROOT

from gates.emulator.library import compile_library
from gates.launch.c_launcher import Kernel
from gates.task.problem import call_arguments
from tasks.problems import sdpa_fp16 as problem
from tasks.problems.sdpa_fp16_operator import ENTRY

SOURCES = ROOT / "kernels" / "sdpa_fp16"
H100_SHARED_LIMIT = 227 * 1024

# Every way through the kernels: scalar and WMMA phases, one and more stages, warps alone with their keys and sharing them,
# keys split and not, one strip and two, no swizzle, scalar products on mma.sync's fragments.
BUILDS: dict[str, tuple[str, dict[str, int]]] = {
    "scalar": ("sdpa_fp16.cu", {"USE_WMMA": 0, "TILE_M": 64, "TILE_N": 64, "NUM_WARPS": 4, "STAGES": 1}),
    "wmma_stages": ("sdpa_fp16.cu", {"USE_WMMA": 2, "TILE_M": 64, "TILE_N": 32, "NUM_WARPS": 2, "STAGES": 2}),
    "alone": ("pipeline.cu", {"TILE_M": 32, "TILE_N": 128, "NUM_WARPS": 4, "STRIPS": 2, "STAGES": 1}),
    "shared": ("pipeline.cu", {"TILE_M": 32, "TILE_N": 32, "NUM_WARPS": 4, "STRIPS": 1, "STAGES": 3}),
    "one_stage": ("pipeline.cu", {"TILE_M": 32, "TILE_N": 64, "NUM_WARPS": 4, "STRIPS": 1, "STAGES": 1}),
    "unsplit": ("pipeline.cu", {"TILE_M": 64, "TILE_N": 16, "NUM_WARPS": 2, "STRIPS": 2, "STAGES": 2}),
    "fallback": ("pipeline.cu", {"TILE_M": 16, "TILE_N": 32, "NUM_WARPS": 2, "STRIPS": 1, "STAGES": 2, "USE_WMMA": 0, "USE_SWIZZLE": 0}),
}


def shape_of(queries: int, keys: int, width: int = 64, causal: int = 0, heads: int = 2) -> dict[str, int]:
    return {"B": 1, "H": heads, "Sq": queries, "Sk": keys, "D": width, "causal": causal}


def unpatched(rung: str, **toggles: int) -> Defect:
    """A rung as it is, but with ``toggles``, for a translation unit of several (defects.combined)."""
    same = ("config.cuh", "namespace sdpa {", "namespace sdpa {")
    return patch(f"{rung}_as_it_is", "numerics", "nothing", rung, same, toggles=tuple(toggles.items()))


def build(folder: Path, name: str, source: Path | None = None, **toggles: int) -> Path:
    """The emulator library of BUILDS[name], with ``toggles`` on top and from another ``source`` where given."""
    file, defaults = BUILDS[name]
    library = folder / f"{name}.so"
    return compile_library([source or SOURCES / file], library, defines={**defaults, **toggles}, work_dir=folder / f"{name}-work")


def load(library: Path) -> Kernel:
    return Kernel(library, ENTRY)


def configure(kernel: Kernel, **settings: int) -> None:
    for key, value in settings.items():
        assert kernel.library.gates_emulator_configure(key.encode(), ctypes.c_int64(value)) == 0


def findings(kernel: Kernel) -> list[dict[str, Any]]:
    """What the emulator objected to since the last reset."""
    kernel.library.gates_emulator_findings.restype = ctypes.c_char_p
    return json.loads(kernel.library.gates_emulator_findings())


def threads_of_ctas(kernel: Kernel) -> list[int]:
    """Of each launch since the last reset."""
    kernel.library.gates_emulator_launches.restype = ctypes.c_char_p
    return [launch["block"][0] for launch in json.loads(kernel.library.gates_emulator_launches())]


def run(kernel: Kernel, inputs: Mapping[str, Any], shape: Mapping[str, int]) -> torch.Tensor:
    """One call into a poisoned output."""
    out = torch.full_like(problem.make_outputs(shape, "cpu")["out"], torch.nan)
    kernel(*call_arguments(problem, inputs, {"out": out}, shape), stream=0)
    return out


def over_bound(out: torch.Tensor, inputs: Mapping[str, Any], shape: Mapping[str, int]) -> float:
    """Largest error over the a-priori bound; infinite where a value is not finite."""
    if not torch.isfinite(out).all():
        return float("inf")
    error = (out.double() - problem.reference(inputs, shape)["out"]).abs()
    return (error / problem.error_bound(inputs, shape)["out"]).max().item()
