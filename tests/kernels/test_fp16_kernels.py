"""The FP16 attention kernels on the emulator: every way through them, edges of shapes and inputs, and what they refuse."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from fp16_kit import BUILDS, build, load, over_bound, problem, run, shape_of

from gates.launch.c_launcher import KernelError
from gates.launch.emulated_kernel import EmulatedKernel

pytestmark = pytest.mark.slow  # four builds of all ways through the kernels


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("fp16")
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(BUILDS, pool.map(lambda name: build(folder, name), BUILDS), strict=True))


@pytest.fixture(scope="module")
def kernels(libraries: dict[str, Path]) -> dict[str, EmulatedKernel]:
    return {name: load(path) for name, path in libraries.items()}


SHAPES = [
    shape_of(1, 1),
    shape_of(33, 129),
    shape_of(17, 300, causal=1),
    shape_of(65, 65, causal=1),
    shape_of(70, 16, 128),
    shape_of(40, 33, 128, causal=1),
    shape_of(130, 40, causal=1),
    shape_of(16, 257, heads=1),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "q{Sq}k{Sk}d{D}c{causal}".format(**shape))
@pytest.mark.parametrize("name", BUILDS)
def test_errors_are_within_what_rounding_explains(kernels: dict[str, EmulatedKernel], name: str, shape: dict[str, int]) -> None:
    inputs = problem.make_inputs(shape, 1, "cpu")
    assert over_bound(run(kernels[name], inputs, shape), inputs, shape) <= 1
    assert kernels[name].findings == []


@pytest.mark.parametrize("name", ["scalar", "alone", "shared", "plain"])
@pytest.mark.parametrize("order", ["reversed", "shuffled"])
def test_result_does_not_depend_on_the_order_of_threads(kernels: dict[str, EmulatedKernel], name: str, order: str) -> None:
    shape = shape_of(65, 150, causal=1)
    inputs = problem.make_inputs(shape, 3, "cpu")
    forward = run(kernels[name], inputs, shape)
    assert torch.equal(run(kernels[name], inputs, shape, order=order, seed=4), forward)


@pytest.mark.parametrize("family", problem.INPUT_FAMILIES)
def test_special_inputs(kernels: dict[str, EmulatedKernel], family: str) -> None:
    shape = shape_of(33, 140)
    inputs = problem.INPUT_FAMILIES[family](shape, 2, "cpu")
    for name in ("alone", "shared"):
        assert over_bound(run(kernels[name], inputs, shape), inputs, shape) <= 1


def test_scale_of_zero_is_the_mean_of_the_visible_values(kernels: dict[str, EmulatedKernel]) -> None:
    shape = shape_of(40, 100, causal=1)
    inputs = {**problem.make_inputs(shape, 0, "cpu"), "softmax_scale": 0.0}
    for kernel in kernels.values():
        assert over_bound(run(kernel, inputs, shape), inputs, shape) <= 1


def test_swizzled_tiles_give_the_same_bits_as_plain_ones(kernels: dict[str, EmulatedKernel], tmp_path) -> None:
    plain = load(build(tmp_path, "alone", USE_SWIZZLE=0, CAUSAL=0))
    shape = shape_of(40, 200)
    inputs = problem.make_inputs(shape, 0, "cpu")
    assert torch.equal(run(plain, inputs, shape), run(kernels["alone"], inputs, shape))
    with pytest.raises(KernelError, match="causal: 1, but this library was built with CAUSAL=0"):
        run(plain, inputs, {**shape, "causal": 1})


def test_eight_warps_share_out_512_keys(tmp_path) -> None:
    """The tiles for few query rows, which take an H100's shared memory: all keys are on their way at once."""
    deep = load(build(tmp_path, "alone", TILE_N=512, NUM_WARPS=8, STRIPS=1, CAUSAL=0))
    shape = shape_of(40, 600, heads=1)
    inputs = problem.make_inputs(shape, 0, "cpu")
    assert over_bound(run(deep, inputs, shape), inputs, shape) <= 1
    wide = shape_of(4, 4, 128)
    with pytest.raises(KernelError, match="D: 128, these tiles then take .* bytes of shared memory"):
        run(deep, problem.make_inputs(wide, 0, "cpu"), wide)


REFUSED = {
    "B": ({"B": 0}, {}, "B: 0, must be from 1"),
    "Sk": ({"Sk": 0}, {}, "Sk: 0, must be from 1"),
    "D": ({"D": 96}, {}, "D: 96, this kernel is for 64 and 128"),
    "causal": ({"causal": 2}, {}, "causal: 2, must be 0 or 1"),
    "H": ({"H": 1 << 30, "B": 1 << 20}, {}, "B, H: 1048576 x 1073741824 heads"),
    "scale": ({}, {"softmax_scale": float("nan")}, "softmax_scale: nan, must be finite"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("name", ["scalar", "shared"])
def test_the_launcher_refuses_and_names_the_argument(kernels: dict[str, EmulatedKernel], name: str, case: str) -> None:
    change, inputs, message = REFUSED[case]
    shape = shape_of(4, 4)
    values = {**problem.make_inputs(shape, 0, "cpu"), **inputs, **problem.make_outputs(shape, "cpu"), **shape, **change}
    with pytest.raises(KernelError, match=message):
        kernels[name](*(values[argument] for argument in problem.ARGUMENTS))
