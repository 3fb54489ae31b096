"""fp16_v10_hopper on the emulator: edges of shapes and inputs, every order, other tiles; and planted defects, each refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import OnceASession
from defects import cheapest
from defects.combined import compile_patched
from defects.hopper import HOPPER
from defects.record import Defect
from fp16_kit import (
    ENTRY,
    exponentials_under_products,
    over_bound,
    problem,
    run,
    shape_of,
    threads_of_ctas,
    unpatched,
)
from static_kit import needs_nvcc

from gates.core.records import Status
from gates.launch.c_launcher import KernelError
from gates.launch.emulated_kernel import EmulatedKernel

RUNG = "fp16_v10_hopper"
TILINGS = {
    "small": {"TILE_M": 64, "TILE_N": 64, "STAGES": 4},
    "tall": {"TILE_M": 192, "TILE_N": 128, "STAGES": 3},
    "odd": {"TILE_M": 128, "TILE_N": 96, "STAGES": 5, "DEBUG_PRINT": 1},
}
SHAPES = [
    shape_of(1, 1),
    shape_of(33, 129),
    shape_of(17, 300, causal=1),
    shape_of(65, 65, causal=1),
    shape_of(70, 16, 128),
    shape_of(200, 133, 128, causal=1),
    shape_of(130, 40, causal=1),
    shape_of(16, 513, heads=3),
]
MANY = shape_of(20, 140, causal=1, heads=264)  # two CTAs for each of an H100's 132 SMs: with one head less, shorter tiles
CHEAP = [defect for defect in HOPPER if defect.name in ("fp16_hopper_swizzle_mode", "fp16_hopper_no_wait", "fp16_hopper_parity")]
DEAR = [defect for defect in HOPPER if defect not in CHEAP]


@pytest.fixture(scope="module")
def library(kept: OnceASession) -> Path:
    """The rung with its own toggles, and a defect of each kind: descriptor, wait, barrier."""
    return kept("fp16_hopper", lambda folder: compile_patched([unpatched(RUNG), *CHEAP], folder)) / "patched.so"


@pytest.fixture(scope="module")
def kernel(library: Path) -> EmulatedKernel:
    return EmulatedKernel(library, f"{ENTRY}_0")


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "q{Sq}k{Sk}d{D}c{causal}".format(**shape))
def test_errors_are_within_what_rounding_explains_in_every_order(kernel: EmulatedKernel, shape: dict[str, int]) -> None:
    inputs = problem.make_inputs(shape, 1, "cpu")
    outputs = []
    for order in ("forward", "reversed", "shuffled"):
        outputs.append(run(kernel, inputs, shape, order=order, seed=4))
        assert kernel.findings == []
    assert over_bound(outputs[0], inputs, shape) <= 1
    assert all(output.equal(outputs[0]) for output in outputs)


@pytest.mark.parametrize(("heads", "threads"), [(MANY["H"], 512), (MANY["H"] - 1, 384)])
def test_many_ctas_get_taller_tiles(kernel: EmulatedKernel, heads: int, threads: int) -> None:
    shape = {**MANY, "H": heads}
    inputs = problem.make_inputs(shape, 1, "cpu")
    assert over_bound(run(kernel, inputs, shape), inputs, shape) <= 1 and kernel.findings == []
    assert threads_of_ctas(kernel) == [threads]


@pytest.mark.parametrize("family", problem.INPUT_FAMILIES)
def test_special_inputs(kernel: EmulatedKernel, family: str) -> None:
    shape = shape_of(33, 140, heads=1)
    inputs = problem.INPUT_FAMILIES[family](shape, 2, "cpu")
    assert over_bound(run(kernel, inputs, shape), inputs, shape) <= 1


def test_scale_of_zero_is_the_mean_of_the_visible_values(kernel: EmulatedKernel) -> None:
    shape = shape_of(40, 100, causal=1)
    inputs = {**problem.make_inputs(shape, 0, "cpu"), "softmax_scale": 0.0}
    assert over_bound(run(kernel, inputs, shape), inputs, shape) <= 1


def test_more_heads_than_a_grid_is_high_are_refused(kernel: EmulatedKernel) -> None:
    shape = shape_of(1, 1, heads=65536)
    with pytest.raises(KernelError, match="B, H: 65536 heads, at most 65535"):
        run(kernel, problem.make_inputs(shape, 0, "cpu"), shape)


@needs_nvcc
def test_the_softmax_runs_under_the_products(kept: OnceASession) -> None:
    """The compiler adds no wait of its own, and leaves exponentials of the upper rows between the waits for Q·K^T and for P·V.

    Of tiles without a mask ptxas puts some of them behind the second wait.
    """
    for keys, (plain, masked) in exponentials_under_products(RUNG, kept, kernels=4, toggles={}):
        upper = keys // 4  # of a tile's keys a thread has every fourth pair
        assert masked >= upper and 3 * plain >= upper


def passes(library: Path, number: int, defect: Defect, folder: Path) -> bool:
    return cheapest.correctness(defect, library, f"{ENTRY}_{number}", folder).status is not Status.FAIL


@pytest.mark.parametrize("number", range(1, len(CHEAP) + 1))
def test_a_wrong_kernel_is_caught(library: Path, number: int, tmp_path: Path) -> None:
    assert not passes(library, number, CHEAP[number - 1], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("half", [0, 1])
def test_every_wrong_kernel_is_caught_and_the_honest_one_is_not(half: int, tmp_path: Path) -> None:
    tried = [unpatched(RUNG, **dict(HOPPER[0].toggles)), *DEAR[half::2]]
    library = compile_patched(tried, tmp_path / "source")
    passed = [defect.name for number, defect in enumerate(tried) if passes(library, number, defect, tmp_path / defect.name)]
    assert passed == [tried[0].name]


@pytest.mark.slow
@pytest.mark.parametrize("tiling", TILINGS)
def test_other_tilings(tiling: str, tmp_path: Path) -> None:
    other = EmulatedKernel(compile_patched([unpatched(RUNG, **TILINGS[tiling])], tmp_path), f"{ENTRY}_0")
    for shape in SHAPES:
        inputs = problem.make_inputs(shape, 1, "cpu")
        assert over_bound(run(other, inputs, shape), inputs, shape) <= 1 and other.findings == []
