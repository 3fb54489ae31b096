"""stage5_wgmma on the emulator: edges of shapes and inputs, every order, several items for a CTA, sums in shared memory; machine code."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import OnceASession
from defects.combined import compile_patched
from defects.record import Defect, patch
from fp16_kit import exponentials_under_products
from sdpa_kit import source_of, task_of
from static_kit import needs_nvcc

from gates.core.errors import GatesError
from gates.launch.c_launcher import KernelError
from gates.launch.emulated_kernel import EmulatedKernel
from gates.task.problem import call_arguments
from tasks.problems import sdpa_e4m3 as problem

STAGE = "stage5_wgmma"
TASK = task_of(STAGE)
TALL = {"TILE_M": 128, "TILE_N": 160, "STAGES": 2}  # the tiles of long shapes, for all
VARIANTS = {
    "one": {"TILE_M": 64, "TILE_N": 96, "STAGES": 3},
    "short": {"TILE_M": 128, "TILE_N": 64, "STAGES": 4, "DEBUG_PRINT": 1},
    "one_place_for_q": {"TILE_M": 128, "TILE_N": 128, "STAGES": 3},
    "eager": {**TALL, "LAZY_RESCALE": 0},
}
Shape = dict[str, int]


def shape_of(keys: int, width: int = 64, causal: int = 0, heads: int = 2) -> Shape:
    return {"B": 1, "H": heads, "S": keys, "D": width, "causal": causal}


SHAPES = [shape_of(1), shape_of(33, 128), shape_of(65, causal=1), shape_of(200, 128, causal=1), shape_of(300), shape_of(193, 128, heads=1)]
LONG = [shape_of(2300, 128, heads=1), shape_of(2100, causal=1, heads=1)]  # more keys than products sum up
MANY = [shape_of(65, 128, heads=140), shape_of(140, causal=1, heads=133)]  # more items than CTAs


def unpatched(**toggles: int) -> Defect:
    same = ("../sdpa/config.cuh", "namespace sdpa {", "namespace sdpa {")
    return patch("wgmma_as_it_is", "numerics", "nothing", STAGE, same, toggles=tuple(toggles.items()))


def planted(name: str, what: str, text: str, replacement: str, file: str = f"{STAGE}.cu") -> Defect:
    return patch(f"wgmma_{name}", "memory", what, STAGE, (file, text, replacement), toggles=tuple(TALL.items()))


def load(library: Path, number: int) -> EmulatedKernel:
    return EmulatedKernel(library, f"{TASK['entry']}_{number}")


def run(kernel: EmulatedKernel, inputs: Mapping[str, Any], shape: Shape, **how: Any) -> torch.Tensor:
    """One call into a poisoned output."""
    out = torch.full_like(problem.make_outputs(shape, "cpu")["out"], torch.nan)
    kernel(*call_arguments(problem, inputs, {"out": out}, shape, TASK["arguments"]), **how)
    return out


def over_bound(out: torch.Tensor, inputs: Mapping[str, Any], shape: Shape) -> float:
    """Largest error over the a-priori bound; infinite where a value is not finite."""
    error = (out.double() - problem.reference(inputs, shape)["out"]).abs()
    return (error / problem.error_bound(inputs, shape)["out"]).nan_to_num(nan=torch.inf).max().item()


@pytest.fixture(scope="module")
def kernels(kept: OnceASession) -> list[EmulatedKernel]:
    """The stage with its own toggles, and with the tiles of long shapes for all."""
    tried = [unpatched(), unpatched(**TALL)]
    library = kept("sdpa_wgmma", lambda folder: compile_patched(tried, folder)) / "patched.so"
    return [load(library, number) for number in range(2)]


@pytest.mark.parametrize("shape", [*SHAPES, *LONG], ids=lambda shape: "s{S}d{D}c{causal}".format(**shape))
def test_errors_are_within_what_rounding_explains_in_every_order(kernels: list[EmulatedKernel], shape: Shape) -> None:
    inputs = problem.make_inputs(shape, 1, "cpu")
    for tried in kernels:
        outputs = []
        for order in ("forward", "reversed", "shuffled"):
            outputs.append(run(tried, inputs, shape, order=order, seed=4))
            assert tried.findings == []
        assert over_bound(outputs[0], inputs, shape) <= 0.5
        assert all(output.equal(outputs[0]) for output in outputs)


@pytest.mark.parametrize("shape", MANY, ids=lambda shape: "s{S}d{D}h{H}".format(**shape))
def test_a_cta_takes_one_item_after_the_other(kernels: list[EmulatedKernel], shape: Shape) -> None:
    inputs = problem.make_inputs(shape, 1, "cpu")
    assert over_bound(run(kernels[1], inputs, shape), inputs, shape) <= 0.5 and kernels[1].findings == []
    assert [launch["grid"] for launch in kernels[1].launches] == [[132, 1, 1]]


@pytest.mark.parametrize("family", problem.INPUT_FAMILIES)
def test_special_inputs(kernels: list[EmulatedKernel], family: str) -> None:
    for shape in (shape_of(145, causal=1), shape_of(600, 128, heads=1)):
        inputs = problem.INPUT_FAMILIES[family](shape, 2, "cpu")
        assert over_bound(run(kernels[0], inputs, shape), inputs, shape) <= 1


def test_equal_values_come_out_as_they_are(kernels: list[EmulatedKernel]) -> None:
    """l is the sum of the rounded P: whatever rounding does to weights, they sum up to 1."""
    shape = shape_of(1250, 128, heads=1)
    inputs = problem.make_inputs(shape, 0, "cpu")
    inputs["v"] = torch.full_like(inputs["v"], 0x3A)  # 1.25
    inputs["v_scale"] = torch.ones_like(inputs["v_scale"])
    assert (run(kernels[0], inputs, shape) - 1.25).abs().max() <= 2.0**-10


def test_wrong_arguments_are_refused(kernels: list[EmulatedKernel]) -> None:
    bytes_, scale = torch.zeros(1, 1, 1, 64, dtype=torch.uint8), torch.ones(1, 1)
    out = torch.zeros(1, 1, 1, 64, dtype=torch.float16)
    for sizes, message in {
        (1, 1, 1, 32, 0): "D: 32, this kernel is for 64 and 128",
        (1, 1, 1, 64, 2): "causal: 2, must be 0 or 1",
        (1, 1, 0, 64, 0): "S: 0, must be from 1 to 1073741824",
        (2147, 1_000_000, 1, 64, 0): "B, H, S: 2147000000 heads of 1 query tiles are more than 1073741823 items",
    }.items():
        with pytest.raises(KernelError, match=re.escape(message)):
            kernels[0](bytes_, bytes_, bytes_, scale, scale, scale, out, *sizes, 1.0)


@needs_nvcc
def test_the_softmax_runs_under_the_products(kept: OnceASession) -> None:
    """The compiler spills nothing and adds no wait of its own; in the loop all exponentials of a step lie between the waits for Q·K^T and
    for P·V."""
    for keys, loops in exponentials_under_products(STAGE, kept, kernels=4, toggles=TALL, sources=source_of(STAGE).parent):
        assert max(loops) >= keys // 2


_TILES, _SUMS = "parts/byte_tiles.cuh", "parts/long_sums.cuh"
DEFECTS = [
    planted("ones_missing", "l is not summed up", "write_ones<T>(shared.turned[stage]);", ";"),
    planted("columns_in_order", "rows of V turned over lie elsewhere", "columns + lane / 16 * 8 +", "columns + lane / 16 +", _TILES),
    planted("keys_in_order", "keys lie in another order than P's", "(units[0], units[1], 0x6420)", "(units[0], units[1], 0x6240)", _TILES),
    planted("sums_not_rescaled", "O of earlier keys keeps its scale", "if (!sums_there_) return;", "return;", _SUMS),
    planted(
        "raised_alone",
        "lanes of a row have maxima of their own",
        "most = fmaxf(most, __shfl_xor_sync(kWarp, most, 2));",
        "",
        "../sdpa/warpgroup_softmax.cuh",
    ),
    planted("values_of_another", "P·V takes the tile after", "shared_.turned[stage_of(tile)]);", "shared_.turned[stage_of(tile + 1)]);"),
    planted("largest_not_seen", "P that does not fit is cut, and no maximum raised", "(sums & 0x80808080) != 0", "false"),
    planted("output_not_new", "O of an item is added to that of the item before", "key > 0 || !output_is_new_", "true"),
]
SEEN_BY = (shape_of(2300, 64, heads=1), shape_of(100, 128, heads=140))


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_other_toggles(variant: str, tmp_path: Path) -> None:
    other = load(compile_patched([unpatched(**VARIANTS[variant])], tmp_path), 0)
    for shape in [*SHAPES, *LONG, *MANY]:
        inputs = problem.make_inputs(shape, 1, "cpu")
        assert over_bound(run(other, inputs, shape), inputs, shape) <= 0.5 and other.findings == []


@pytest.mark.slow
def test_planted_defects_are_seen_and_the_honest_kernel_is_not(tmp_path: Path) -> None:
    """A defect has twice the honest kernel's mean error, or a finding. Scores are so large that maxima rise in many tiles."""
    tried = [unpatched(**TALL), *DEFECTS]
    library, seen, honest = compile_patched(tried, tmp_path), set[str](), {}
    for number, defect in enumerate(tried):
        other = load(library, number)
        for index, shape in enumerate(SEEN_BY):
            inputs = problem.INPUT_FAMILIES["rising_max"](shape, 1, "cpu")
            inputs["k_scale"] *= 6
            try:
                error = (run(other, inputs, shape).double() - problem.reference(inputs, shape)["out"]).abs().mean().item()
            except (GatesError, KernelError):
                error = math.inf
            if not error <= 2 * honest.setdefault(index, error) or other.findings != []:
                seen.add(defect.name)
    assert seen == {defect.name for defect in DEFECTS}
