"""stage4_mma on the emulator: other tiles than the stage's own, signs of the scale, and planted defects."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
import torch
from conftest import OnceASession
from defects.cheapest import correctness, passed
from defects.combined import ENTRY, compile_patched, refusals
from defects.fp8_mma import MMA
from fp16_kit import unpatched
from sdpa_kit import problem, run

from gates.core.records import Status
from gates.launch.emulated_kernel import EmulatedKernel

# Ways through the kernel that the stage's own tiles do not take: stages filled anew, a warp alone with its keys, two strips,
# one stage with K in parts, and tiles that are not swizzled.
TILES = {
    "own": {},
    "small": {"TILE_N": 64},
    "plain": {"TILE_N": 64, "USE_SWIZZLE": 0, "DEBUG_PRINT": 1},
    "alone": {"TILE_M": 16, "TILE_N": 64, "NUM_WARPS": 2, "STAGES": 3},
    "strips": {"TILE_M": 32, "TILE_N": 64, "NUM_WARPS": 2, "STRIPS": 2},
    "one_stage": {"TILE_N": 128, "STAGES": 1},
}
REFUSED = [
    ({"TILE_N": 200}, "TILE_N gives each of the warps that share a row a multiple of 16 keys"),
    ({"NUM_WARPS": 3}, "NUM_WARPS is a multiple of TILE_M / (16 STRIPS)"),
    ({"NUM_WARPS": 2}, "at least two warps have parts of the same rows of O"),
    ({"STRIPS": 3, "TILE_M": 96}, "STRIPS is 1 or 2: O of more strips"),
    ({"STAGES": 0}, "STAGES is 1 to 8"),
    ({"TILE_N": 512}, "sm_89 gives a CTA at most 99 KiB of shared memory"),
]
LENGTHS = (1, 17, 33, 65, 129, 200)
CHEAP = [
    defect
    for defect in MMA
    if defect.name.removeprefix("mma_")
    in (
        "bytes_not_permuted",
        "columns_in_product_order",
        "swizzle_left_out_of_v",
        "waits_for_one_group_less",
        "wrong_tail_bytes",
        "parts_not_weighed",
    )
]
GROUPS = [MMA[0::2], MMA[1::2]]


@pytest.fixture(scope="module")
def library(kept: OnceASession) -> Path:
    """TILES, then CHEAP."""
    tried = [*(unpatched("stage4_mma", **toggles) for toggles in TILES.values()), *CHEAP]
    return kept("mma", lambda folder: compile_patched(tried, folder)) / "patched.so"


@pytest.fixture(scope="module")
def kernels(library: Path) -> dict[str, EmulatedKernel]:
    return {name: EmulatedKernel(library, f"{ENTRY}_{number}") for number, name in enumerate(TILES)}


def over_bound(out: torch.Tensor, inputs: dict, shape: dict[str, int]) -> float:
    """Largest error over the a-priori bound; infinite where a value is not finite."""
    error = (out.double() - problem.reference(inputs, shape)["out"]).abs()
    return (error / problem.error_bound(inputs, shape)["out"]).max().item() if torch.isfinite(out).all() else float("inf")


def shape_of(length: int, batch: int = 1, heads: int = 2) -> dict[str, int]:
    return {"B": batch, "H": heads, "S": length, "D": 64}


@pytest.mark.parametrize("name", TILES)
@pytest.mark.parametrize("length", LENGTHS)
def test_errors_are_within_what_rounding_explains(kernels: dict[str, EmulatedKernel], name: str, length: int) -> None:
    shape = shape_of(length)
    inputs = problem.make_inputs(shape, length, "cpu")
    assert over_bound(run(kernels[name], inputs, shape), inputs, shape) <= 1
    assert kernels[name].findings == []


@pytest.mark.parametrize("scale", [-0.125, 0.0, 1e-35])
def test_a_scale_below_zero_and_none(kernels: dict[str, EmulatedKernel], scale: float) -> None:
    shape = shape_of(70, batch=2)
    inputs = {**problem.make_inputs(shape, 0, "cpu"), "softmax_scale": scale}
    inputs["k_scale"] = inputs["k_scale"] * torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
    assert over_bound(run(kernels["own"], inputs, shape), inputs, shape) <= 1


def test_swizzled_tiles_give_the_same_bits_as_plain_ones(kernels: dict[str, EmulatedKernel]) -> None:
    shape = shape_of(200)
    inputs = problem.make_inputs(shape, 0, "cpu")
    assert torch.equal(run(kernels["plain"], inputs, shape), run(kernels["small"], inputs, shape))


def test_debug_print_shows_the_first_scores_once(kernels: dict[str, EmulatedKernel], capfd: pytest.CaptureFixture[str]) -> None:
    shape = shape_of(70, batch=2)
    inputs = problem.make_inputs(shape, 0, "cpu")
    run(kernels["plain"], inputs, shape)
    ctypes.CDLL(None).fflush(None)
    printed = capfd.readouterr().out
    q, k = (inputs[name].view(torch.float8_e4m3fn).double()[0, 0, 1] for name in ("q", "k"))
    assert f"score[1][1] = {(q @ k).item():.6f}\n" in printed and printed.count("score[") == 16


def test_tiles_that_can_not_work_do_not_compile_and_the_reason_is_told(tmp_path: Path) -> None:
    told = refusals([unpatched("stage4_mma", **toggles) for toggles, _ in REFUSED], tmp_path)
    assert [toggles for number, (toggles, reason) in enumerate(REFUSED) if not any(reason in text for text in told[number])] == []


@pytest.mark.parametrize("number", range(len(CHEAP)))
def test_wrong_kernels_of_each_kind_are_caught(number: int, library: Path, tmp_path: Path) -> None:
    result = correctness(CHEAP[number], library, f"{ENTRY}_{len(TILES) + number}", tmp_path)
    assert len(CHEAP) == 6 and result.status is Status.FAIL, result.sentence


@pytest.mark.slow
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_a_wrong_kernel_is_caught_and_the_honest_one_is_not(group: int, tmp_path: Path) -> None:
    right = unpatched("stage4_mma", **dict(MMA[0].toggles))
    tried = [right, *GROUPS[group]]
    assert passed(tried, compile_patched(tried, tmp_path / "source"), tmp_path) == [right.name]
