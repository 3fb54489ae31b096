"""fp16_v11_pingpong on the emulator: edges of shapes and inputs, every order, several items for a CTA, shares of the keys; machine code."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import torch
from conftest import OnceASession
from defects.combined import compile_patched
from defects.record import Defect, patch
from fp16_kit import ENTRY, exponentials_under_products, over_bound, problem, run, shape_of, unpatched
from static_kit import needs_nvcc

from gates.core.errors import GatesError
from gates.launch.c_launcher import KernelError
from gates.launch.emulated_kernel import EmulatedKernel

RUNG = "fp16_v11_pingpong"
LONGEST = {"TILE_M": 128, "TILE_N": 128, "STAGES": 2}  # of D = 64 few keys go round the rings, and several items follow each other
VARIANTS = {
    "no_turns": {"TILE_M": 128, "TILE_N": 128, "STAGES": 2, "PINGPONG": 0},
    "one": {"TILE_M": 64, "TILE_N": 128, "STAGES": 2},
    "three": {"TILE_M": 192, "TILE_N": 64, "STAGES": 3},
    "odd": {"TILE_M": 128, "TILE_N": 96, "STAGES": 3, "DEBUG_PRINT": 1},
    "eager": {**LONGEST, "LAZY_RESCALE": 0},
}
SHAPES = [
    shape_of(1, 1),
    shape_of(33, 129),
    shape_of(17, 300, causal=1),
    shape_of(65, 65, causal=1),
    shape_of(70, 16, 128),
    shape_of(200, 133, 128, causal=1),
    shape_of(130, 40, causal=1),
    shape_of(290, 290, 128, causal=1, heads=1),
]
SHARED = [shape_of(16, 513, heads=3), shape_of(3, 2100, 128, heads=1), shape_of(140, 770, heads=1)]  # keys shared by 2, 8 and 3 CTAs
LEFT = shape_of(576, 40, causal=1, heads=53)  # of 64 rows a round of pairs that ends within a head
MANY = [shape_of(20, 140, causal=1, heads=264), shape_of(150, 40, 128, causal=1, heads=70)]  # for 132 SMs


def planted(name: str, what: str, text: str, replacement: str, file: str = f"{RUNG}.cu") -> Defect:
    return patch(f"fp16_pingpong_{name}", "memory", what, RUNG, (file, text, replacement), toggles=tuple(LONGEST.items()))


DEFECTS = [
    planted("strip_overwritten", "O of the item before may still leave the strip", "if (chosen) tma::wait_stores_read();", ""),
    planted("stores_not_awaited", "a CTA ends while O leaves it", "if (threadIdx.x % kWarpgroup == 0) tma::wait_stores_read();", ""),
    planted(
        "parts_not_there",
        "parts are read before all are written",
        "        cluster::sync();  // all parts are there\n",
        "",
        "parts/cluster_rows.cuh",
    ),
    planted(
        "parts_gone",
        "a CTA ends while others read its part",
        "        cluster::sync();  // the others have read this CTA's part\n",
        "",
        "parts/cluster_rows.cuh",
    ),
    planted(
        "part_over_keys",
        "a part takes the place of K and V that others read",
        "named_barrier::sync(kAllConsumers, T::kConsumers * kWarpgroup);",
        "",
    ),
    planted(
        "queries_released", "Q is given back with each tile", "        if (last) {\n            release", "        {\n            release"
    ),
    planted(
        "key_parity", "an item begins with K of the tile before", "full[first.stage], first.parity)", "full[first.stage], first.parity ^ 1)"
    ),
    planted(
        "items_missed",
        "the second round begins one item late",
        "round_ * teams_ + own_;",
        "round_ * teams_ + own_ + (round_ > 0);",
        "../sdpa/schedule.cuh",
    ),
]


@pytest.fixture(scope="module")
def library(kept: OnceASession) -> Path:
    """The rung with its own toggles, and with the tiles of long shapes for all."""
    tried = [unpatched(RUNG), unpatched(RUNG, **LONGEST)]
    return kept("fp16_pingpong", lambda folder: compile_patched(tried, folder)) / "patched.so"


@pytest.fixture(scope="module")
def kernel(library: Path) -> EmulatedKernel:
    return EmulatedKernel(library, f"{ENTRY}_0")


@pytest.fixture(scope="module")
def longest(library: Path) -> EmulatedKernel:
    return EmulatedKernel(library, f"{ENTRY}_1")


@pytest.mark.parametrize("shape", [*SHAPES, *SHARED], ids=lambda shape: "q{Sq}k{Sk}d{D}c{causal}".format(**shape))
def test_errors_are_within_what_rounding_explains_in_every_order(
    kernel: EmulatedKernel, longest: EmulatedKernel, shape: dict[str, int]
) -> None:
    inputs = problem.make_inputs(shape, 1, "cpu")
    for tried in (kernel, longest):
        outputs = []
        for order in ("forward", "reversed", "shuffled"):
            outputs.append(run(tried, inputs, shape, order=order, seed=4))
            assert tried.findings == []
        assert over_bound(outputs[0], inputs, shape) <= 1
        assert all(output.equal(outputs[0]) for output in outputs)


@pytest.mark.parametrize("shape", MANY, ids=lambda shape: "q{Sq}d{D}h{H}".format(**shape))
def test_a_cta_takes_one_item_after_the_other(kernel: EmulatedKernel, shape: dict[str, int]) -> None:
    inputs = problem.make_inputs(shape, 1, "cpu")
    assert over_bound(run(kernel, inputs, shape), inputs, shape) <= 1 and kernel.findings == []
    assert [launch["grid"] for launch in kernel.launches] == [[132, 1, 1]]


@pytest.mark.parametrize(("shape", "ctas"), [*zip(SHARED, (6, 8, 9), strict=True)])
def test_few_queries_have_their_keys_shared_by_a_cluster(kernel: EmulatedKernel, shape: dict[str, int], ctas: int) -> None:
    run(kernel, problem.make_inputs(shape, 1, "cpu"), shape)
    assert [launch["grid"] for launch in kernel.launches] == [[ctas, 1, 1]]


@pytest.mark.parametrize("family", problem.INPUT_FAMILIES)
def test_special_inputs(kernel: EmulatedKernel, family: str) -> None:
    for shape in (shape_of(33, 140, heads=1), shape_of(9, 600, heads=1)):
        inputs = problem.INPUT_FAMILIES[family](shape, 2, "cpu")
        assert over_bound(run(kernel, inputs, shape), inputs, shape) <= 1


def test_scale_of_zero_is_the_mean_of_the_visible_values(kernel: EmulatedKernel) -> None:
    shape = shape_of(40, 100, causal=1)
    inputs = {**problem.make_inputs(shape, 0, "cpu"), "softmax_scale": 0.0}
    assert over_bound(run(kernel, inputs, shape), inputs, shape) <= 1


def test_more_items_than_there_are_numbers_are_refused(kernel: EmulatedKernel) -> None:
    small = torch.zeros(1, 1, 1, 64, dtype=torch.float16)
    with pytest.raises(KernelError, match="B, H, Sq: 2147000000 heads of 1 query tiles are more than 1073741823 items"):
        kernel(small, small, small, small, 2147, 1_000_000, 1, 1, 64, 0, 1.0)


@needs_nvcc
def test_the_softmax_runs_under_the_products(kept: OnceASession) -> None:
    """The compiler spills nothing and adds no wait of its own; all exponentials of a step lie between the waits for Q·K^T and for P·V,
    but for an item's first tile."""
    for keys, loops in exponentials_under_products(RUNG, kept, kernels=2, toggles=LONGEST):
        of_tile = keys // 2  # of a tile's keys a thread has every fourth pair, in two rows
        assert len(loops) >= 2 and min(loops[:2]) >= of_tile


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_other_toggles(variant: str, tmp_path: Path) -> None:
    other = EmulatedKernel(compile_patched([unpatched(RUNG, **VARIANTS[variant])], tmp_path), f"{ENTRY}_0")
    for shape in [*SHAPES, *SHARED, LEFT]:
        inputs = problem.make_inputs(shape, 1, "cpu")
        assert over_bound(run(other, inputs, shape), inputs, shape) <= 1 and other.findings == []


@pytest.mark.slow
def test_planted_defects_are_seen_and_the_honest_kernel_is_not(tmp_path: Path) -> None:
    tried = [unpatched(RUNG, **LONGEST), *DEFECTS]
    library, right = compile_patched(tried, tmp_path), set[str]()
    for number, defect in enumerate(tried):
        other = EmulatedKernel(library, f"{ENTRY}_{number}")
        for shape in (shape_of(3, 600, heads=1), shape_of(2, 3, heads=265)):
            inputs = problem.make_inputs(shape, 1, "cpu")
            with contextlib.suppress(GatesError, KernelError):
                if over_bound(run(other, inputs, shape), inputs, shape) <= 1 and other.findings == []:
                    right.add(f"{defect.name} {shape['Sk']}")
    whole = {name.rpartition(" ")[0] for name in right if {f"{name.rpartition(' ')[0]} {keys}" for keys in (3, 600)} <= right}
    assert whole == {tried[0].name}
