"""Every rung of the FP16 ladder with its own toggles, built once for the emulator and tried on a few small shapes.

tests/kernels/test_fp16_kernels.py goes through all ways of the kernels and all edges, where GATES_SLOW is set.
"""

from __future__ import annotations

import pytest
from conftest import OnceASession
from fp16_kit import V5, V6, V7, V8, V9, over_bound, problem, run, rungs, shape_of

from gates.launch.emulated_kernel import EmulatedKernel

SHAPES = {
    "tail": shape_of(33, 33, heads=2),
    "causal": shape_of(70, 70, causal=1, heads=1),
    "more_keys": shape_of(17, 150, causal=1, heads=1),
    "wide": shape_of(20, 40, 128, heads=1),
}


@pytest.fixture(scope="module")
def kernels(kept: OnceASession) -> dict[str, EmulatedKernel]:
    return rungs(kept)


@pytest.mark.parametrize("rung", [V5, V6, V7, V8, V9])
def test_a_rung_is_right_on_small_shapes(kernels: dict[str, EmulatedKernel], rung: str) -> None:
    kernel = kernels[rung]
    for name, shape in SHAPES.items():
        inputs = problem.make_inputs(shape, 1, "cpu")
        assert over_bound(run(kernel, inputs, shape), inputs, shape) <= 1, name
        assert kernel.findings == []
