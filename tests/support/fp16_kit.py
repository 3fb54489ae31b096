"""Shared by the FP16 tests: emulator builds of the rungs under chosen toggles, and calls."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import OnceASession
from defects.combined import compile_patched
from defects.record import Defect, patch
from places import ROOT

from gates.build.toolchain import find_toolchain
from gates.emulator.cpu.build import task_library
from gates.launch.emulated_kernel import EmulatedKernel
from gates.task.problem import call_arguments
from tasks.problems import sdpa_fp16 as problem
from tasks.problems.sdpa_fp16_operator import ENTRY

SOURCES = ROOT / "kernels" / "sdpa_fp16"

V5, V6, V7, V8 = "fp16_v5_scalar", "fp16_v6_wmma_qk", "fp16_v7_wmma_pv", "fp16_v8_tiles"
V9, V10, V11 = "fp16_v9_pipeline", "fp16_v10_hopper", "fp16_v11_pingpong"

# Every way through the kernels: scalar and WMMA phases, one and more stages, warps alone with their keys and sharing them,
# keys split and not, one strip and two, no swizzle.
BUILDS: dict[str, tuple[str, dict[str, int]]] = {
    "scalar": (V5, {"TILE_M": 64, "TILE_N": 64, "NUM_WARPS": 4}),
    "wmma_stages": (V8, {"TILE_M": 64, "TILE_N": 32, "NUM_WARPS": 2, "STAGES": 2}),
    "alone": (V9, {"TILE_M": 32, "TILE_N": 128, "NUM_WARPS": 4, "STRIPS": 2, "STAGES": 1}),
    "shared": (V9, {"TILE_M": 32, "TILE_N": 32, "NUM_WARPS": 4, "STRIPS": 1, "STAGES": 3}),
    "one_stage": (V9, {"TILE_M": 32, "TILE_N": 64, "NUM_WARPS": 4, "STRIPS": 1, "STAGES": 1}),
    "unsplit": (V9, {"TILE_M": 64, "TILE_N": 16, "NUM_WARPS": 2, "STRIPS": 2, "STAGES": 2}),
    "plain": (V9, {"TILE_M": 16, "TILE_N": 32, "NUM_WARPS": 2, "STRIPS": 1, "STAGES": 2, "USE_SWIZZLE": 0}),
}

TILES = {"TILE_M": 32, "TILE_N": 64, "NUM_WARPS": 4, "STRIPS": 1, "STAGES": 2}  # of V9, for all shapes
# Odd toggles that work.
COMBINATIONS = {
    "many_rows": (V8, {"TILE_M": 128, "TILE_N": 32, "NUM_WARPS": 8, "STAGES": 1}),
    "many_stages": (V8, {"TILE_M": 16, "TILE_N": 96, "NUM_WARPS": 1, "STAGES": 3, "DEBUG_PRINT": 1}),
    "deep": (V9, {**TILES, "TILE_N": 256, "CAUSAL": 0}),  # 132 KiB of shared memory
    "plain": (V9, {**TILES, "STAGES": 3, "USE_SWIZZLE": 0, "CAUSAL": 0, "DEBUG_PRINT": 1}),
}
# Earlier stage: (later stage, toggles that turn off what the later stage adds).
WITHOUT = {
    V5: (V6, {"USE_WMMA_QK": 0}),
    V6: (V7, {"USE_WMMA_PV": 0}),
    V7: (V8, {"TILE_M": 64, "TILE_N": 64, "NUM_WARPS": 4, "STAGES": 1}),
}


def shape_of(queries: int, keys: int, width: int = 64, causal: int = 0, heads: int = 2) -> dict[str, int]:
    return {"B": 1, "H": heads, "Sq": queries, "Sk": keys, "D": width, "causal": causal}


def unpatched(rung: str, **toggles: int) -> Defect:
    """A rung as it is, but with ``toggles``, for a translation unit of several (defects.combined)."""
    same = ("../sdpa/config.cuh", "namespace sdpa {", "namespace sdpa {")
    return patch(f"{rung}_as_it_is", "numerics", "nothing", rung, same, toggles=tuple(toggles.items()))


def rungs(kept: OnceASession) -> dict[str, EmulatedKernel]:
    """The rungs up to V9, COMBINATIONS and WITHOUT ("without …") by name, compiled as one source."""
    tried = {
        **{rung: unpatched(rung) for rung in (V5, V6, V7, V8, V9)},
        **{name: unpatched(rung, **toggles) for name, (rung, toggles) in COMBINATIONS.items()},
        **{f"without {rung}": unpatched(rung, **toggles, CAUSAL=0) for rung, toggles in WITHOUT.values()},
    }
    folder = kept("fp16_rungs", lambda folder: compile_patched(list(tried.values()), folder))
    return {name: EmulatedKernel(folder / "patched.so", f"{ENTRY}_{number}") for number, name in enumerate(tried)}


def build(folder: Path, name: str, source: Path | None = None, **toggles: int) -> Path:
    """The emulator library of BUILDS[name], with ``toggles`` on top and from another ``source`` where given."""
    rung, defaults = BUILDS[name]
    return task_library([source or SOURCES / f"{rung}.cu"], folder / f"{name}.so", defines={**defaults, **toggles}, capability="89")


def load(library: Path) -> EmulatedKernel:
    return EmulatedKernel(library, ENTRY)


def threads_of_ctas(kernel: EmulatedKernel) -> list[int]:
    """Of each launch of the last call."""
    return [launch["block"][0] for launch in kernel.launches]


def run(kernel: EmulatedKernel, inputs: Mapping[str, Any], shape: Mapping[str, int], **how: Any) -> torch.Tensor:
    """One call into a poisoned output."""
    out = torch.full_like(problem.make_outputs(shape, "cpu")["out"], torch.nan)
    kernel(*call_arguments(problem, inputs, {"out": out}, shape), **how)
    return out


def over_bound(out: torch.Tensor, inputs: Mapping[str, Any], shape: Mapping[str, int]) -> float:
    """Largest error over the a-priori bound; infinite where a value is not finite."""
    if not torch.isfinite(out).all():
        return float("inf")
    error = (out.double() - problem.reference(inputs, shape)["out"]).abs()
    return (error / problem.error_bound(inputs, shape)["out"]).max().item()


def exponentials_under_products(
    rung: str, kept: OnceASession, *, kernels: int, toggles: Mapping[str, int], sources: Path = SOURCES
) -> list[tuple[int, list[int]]]:
    """(keys of a tile, exponentials between the waits for Q·K^T and for P·V of each loop) of each kernel.

    The compiler must spill nothing and add no wait of its own to ``rung``, a stage for sm_90a.
    """
    tools = find_toolchain()
    argv = [tools.need("nvcc").path, "-std=c++17", "-cubin", "-arch=sm_90a", "-Xptxas", "-v", "-ftz=true", "-DCAUSAL=0"]
    argv += [*(f"-D{name}={value}" for name, value in toggles.items()), str(sources / f"{rung}.cu"), "-o", "stage.cubin"]

    def compiled(folder: Path) -> None:
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True, timeout=300)
        (folder / "stage.log").write_text(done.stderr, encoding="utf-8")

    folder = kept(f"under_products_{rung}", compiled)
    printed = (folder / "stage.log").read_text(encoding="utf-8")
    assert "(C75" not in printed and len(re.findall(r" 0 bytes spill stores, 0 bytes spill loads", printed)) == kernels
    if tools.get("cuobjdump") is None:
        pytest.skip("no cuobjdump")
    argv = [tools.need("cuobjdump").path, "--dump-sass", str(folder / "stage.cubin")]
    found = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout.split("Function : ")[1:]
    assert len(found) == kernels
    loops = (re.findall(r"DEPBAR\.LE gsb0, 0x1 .*?DEPBAR\.LE gsb0, 0x0 ", kernel, re.DOTALL) for kernel in found)
    keys = (int(re.findall(r"Li(\d+)E", kernel)[2]) for kernel in found)
    return [(of_tile, [loop.count("MUFU.EX2") for loop in own]) for of_tile, own in zip(keys, loops, strict=True)]
