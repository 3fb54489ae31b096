"""Toggles of the FP16 rungs: odd combinations work, and what can't work is refused with its reason, by the compiler or the launcher."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest
import torch
from conftest import OnceASession
from defects.combined import refusals
from fp16_kit import COMBINATIONS, TILES, V5, V6, V7, V8, V9, V10, V11, WITHOUT, over_bound, problem, run, rungs, shape_of, unpatched

from gates.launch.c_launcher import KernelError
from gates.launch.emulated_kernel import EmulatedKernel

WIDE_TILES = {"TILE_M": 128, "TILE_N": 64, "STAGES": 4}  # of V10
REFUSED = [
    (V6, {"USE_WMMA_QK": 2}, "USE_WMMA_QK is 0 or 1"),
    (V7, {"USE_WMMA_PV": 2}, "USE_WMMA_PV is 0 or 1"),
    (V5, {"CAUSAL": 2}, "CAUSAL is 0 or 1"),
    (V5, {"DEBUG_PRINT": 2}, "DEBUG_PRINT is 0 or 1"),
    (V7, {"NUM_WARPS": 17, "TILE_M": 272}, "a CTA has 32 to 512 threads"),
    (V7, {"TILE_M": 0}, "a warp owns strips of 16 query rows"),
    (V7, {"TILE_M": 64, "NUM_WARPS": 8}, "a warp owns strips of 16 query rows"),
    (V7, {"TILE_N": 48}, "scalar products give each lane the same number of keys"),
    (V7, {"TILE_N": 0}, "scalar products give each lane the same number of keys"),
    (V8, {"STAGES": 0}, "STAGES is 1 to 8"),
    (V8, {"TILE_M": 128, "TILE_N": 96, "NUM_WARPS": 8}, "these tiles need more than the 99 KiB of shared memory"),
    (V9, {"STAGES": 3}, "where it is 0 the launcher chooses all of them by shape"),
    (V9, {"USE_SWIZZLE": 2}, "USE_SWIZZLE is 0 or 1"),
    (V9, {**TILES, "STRIPS": 3, "TILE_M": 48}, "STRIPS is 1 or 2: O of more strips"),
    (V9, {**TILES, "TILE_M": 40}, "TILE_M is STRIPS strips of 16 rows"),
    (V9, {**TILES, "NUM_WARPS": 3}, "NUM_WARPS is a multiple of TILE_M / (16 STRIPS)"),
    (V9, {**TILES, "TILE_N": 48}, "TILE_N gives each of the warps that share a row a multiple of 16 keys"),
    (V9, {**TILES, "STAGES": 0}, "STAGES is 1 to 8"),
    (V9, {**TILES, "STAGES": 1, "TILE_N": 32}, "ldmatrix x4 and the second product take 16 keys at a time"),
    (V9, {**TILES, "TILE_N": 512, "STAGES": 2}, "these tiles need more than the 227 KiB of shared memory"),
    (V10, {"STAGES": 3}, "where it is 0 the launcher chooses all of them by shape"),
    (V10, {"TILE_N": 128}, "TILE_N and STAGES go with TILE_M"),
    (V10, {**WIDE_TILES, "TILE_M": 96}, "TILE_M is 64 rows for each of 1 to 3 consumer warpgroups"),
    (V10, {**WIDE_TILES, "TILE_M": 256}, "TILE_M is 64 rows for each of 1 to 3 consumer warpgroups"),
    (V10, {**WIDE_TILES, "TILE_N": 160}, "TILE_N is 64, 96 or 128: scores of more keys"),
    (V10, {**WIDE_TILES, "TILE_N": 48}, "TILE_N is 64, 96 or 128: scores of more keys"),
    (V10, {**WIDE_TILES, "STAGES": 2}, "STAGES is 3 to 8: a consumer waits for its next tile"),
    (V10, {**WIDE_TILES, "STAGES": 9}, "STAGES is 3 to 8: a consumer waits for its next tile"),
    (V10, {**WIDE_TILES, "TILE_N": 128, "STAGES": 8}, "these tiles need more than the 227 KiB of shared memory"),
    (V11, {"STAGES": 3}, "where it is 0 the launcher chooses all of them by shape"),
    (V11, {**WIDE_TILES, "STAGES": 1}, "STAGES is 2 to 8"),
    (V11, {**WIDE_TILES, "TILE_N": 160}, "TILE_N is 64, 96 or 128: more scores"),
    (V11, {**WIDE_TILES, "TILE_N": 128}, "these tiles need more than the 227 KiB of shared memory"),
    (V11, {"PINGPONG": 2}, "PINGPONG is 0 or 1"),
]


def test_what_can_not_work_does_not_compile_and_the_reason_is_told(tmp_path: Path) -> None:
    told = refusals([unpatched(rung, **toggles) for rung, toggles, _ in REFUSED], tmp_path)
    assert [toggles for number, (_, toggles, reason) in enumerate(REFUSED) if not any(reason in text for text in told[number])] == []


@pytest.fixture(scope="module")
def kernels(kept: OnceASession) -> dict[str, EmulatedKernel]:
    return rungs(kept)


@pytest.mark.parametrize("name", COMBINATIONS)
def test_odd_combinations_are_right(kernels: dict[str, EmulatedKernel], name: str, capfd: pytest.CaptureFixture[str]) -> None:
    shape = shape_of(40, 150, causal=COMBINATIONS[name][1].get("CAUSAL", 1), heads=1)
    inputs = problem.make_inputs(shape, 1, "cpu")
    assert over_bound(run(kernels[name], inputs, shape), inputs, shape) <= 1
    assert kernels[name].findings == []
    ctypes.CDLL(None).fflush(None)
    printed = dict(re.findall(r"score\[(\d+\]\[\d+)\] = (\S+)", capfd.readouterr().out))
    assert bool(printed) == (COMBINATIONS[name][1].get("DEBUG_PRINT") == 1)
    if printed:
        expected = inputs["q"][0, 0, 1].double() @ inputs["k"][0, 0, 1].double()
        assert float(printed["1][1"]) == pytest.approx(expected.item(), abs=1e-3)


@pytest.mark.parametrize("before", WITHOUT)
def test_a_stage_without_what_it_adds_is_the_stage_before(kernels: dict[str, EmulatedKernel], before: str) -> None:
    stage, _ = WITHOUT[before]
    for shape in (shape_of(40, 150), shape_of(70, 33, 128, heads=1)):
        inputs = problem.make_inputs(shape, 1, "cpu")
        of_before, _, without = (run(kernels[name], inputs, shape) for name in (before, stage, f"without {stage}"))
        assert torch.equal(without, of_before)
        assert kernels[f"without {stage}"].launches != kernels[stage].launches  # in its shared memory, or its grid


def test_the_launcher_refuses_what_the_toggles_leave_out(kernels: dict[str, EmulatedKernel]) -> None:
    kernels["deep"].emulator.be(["sm_89"])  # with 99 KiB for a CTA
    for name, shape, message in (
        ("plain", shape_of(4, 4, causal=1), "causal: 1, but this library was built with CAUSAL=0"),
        ("many_rows", shape_of(4, 4, 128), r"D: 128, these tiles then take \d+ bytes of shared memory, of 101376"),
        ("deep", shape_of(4, 4, 128), r"D: 128, these tiles then take \d+ bytes of shared memory, of 232448"),
        ("deep", shape_of(4, 4), r"shared memory: the device refused \d+ bytes a CTA"),
    ):
        with pytest.raises(KernelError, match=message):
            run(kernels[name], problem.make_inputs(shape, 0, "cpu"), shape)
