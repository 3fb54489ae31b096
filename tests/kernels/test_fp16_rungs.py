"""Every rung of the FP16 ladder with its own toggles, built once for the emulator and tried on a few small shapes.

tests/kernels/test_fp16_kernels.py goes through all ways of the kernels and all edges, where GATES_SLOW is set.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from defects.combined import compile_patched
from fp16_kit import ENTRY, over_bound, problem, run, shape_of, unpatched

from gates.launch.emulated_kernel import EmulatedKernel

RUNGS = ("fp16_v5_scalar", "fp16_v6_wmma_qk", "fp16_v7_wmma_pv", "fp16_v8_tiles", "fp16_v9_pipeline")
SHAPES = {
    "tail": shape_of(33, 33, heads=2),
    "causal": shape_of(70, 70, causal=1, heads=1),
    "more_keys": shape_of(17, 150, causal=1, heads=1),
    "wide": shape_of(20, 40, 128, heads=1),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_patched([unpatched(rung) for rung in RUNGS], tmp_path_factory.mktemp("rungs"))


@pytest.mark.parametrize("rung", RUNGS)
def test_a_rung_is_right_on_small_shapes(library: Path, rung: str) -> None:
    kernel = EmulatedKernel(library, f"{ENTRY}_{RUNGS.index(rung)}")
    for name, shape in SHAPES.items():
        inputs = problem.make_inputs(shape, 1, "cpu")
        assert over_bound(run(kernel, inputs, shape), inputs, shape) <= 1, name
        assert kernel.findings == []
