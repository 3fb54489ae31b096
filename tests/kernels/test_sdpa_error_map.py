"""What the error map and the likely causes say of planted defects in the attention kernel."""

from __future__ import annotations

import json

import pytest
from conftest import OnceASession
from defects.catalogue import DEFECTS
from defects.combined import ENTRY, compile_patched
from sdpa_kit import problem, run, task_of

from gates.core.records import from_json
from gates.gate.correctness.causes import causes, map_line
from gates.gate.correctness.error_map import ErrorMap
from gates.gate.correctness.runner.error_map import error_map
from gates.launch.emulated_kernel import EmulatedKernel

SIX_HEADS = {"B": 2, "H": 3, "S": 65, "D": 64}
RACE = "no_barrier_before_reuse"  # which rows it hits goes by the order of the warps
LIMIT = task_of("stage3_cp_async")["gates"]["correctness"]["max_abs_err"]

# defect: (order of the threads, the place, the first cause), on SIX_HEADS with seed 0
EXPLAINED = {
    "no_final_division": ("forward", "everywhere", "the values are those of: no final division by the row sum"),
    "no_rescale": (  # the last key of those rows outweighs the 64 before it
        "forward",
        "6 of 390 rows, scattered over B\u00b7H 2-5 and S 6, 8, 18, 48-49 and others (6 of 65) of every D",
        "the values are those of: the accumulator is not rescaled when the maximum rises",
    ),
    "tail_not_masked": ("forward", "everywhere", "the values are those of: keys past the end not masked, tile of 64"),
    "waits_for_the_wrong_group": (
        "forward",
        "everywhere",
        "NaN: memory read before it was written (missing barrier or wait, a row never loaded, a read past a buffer: see the sanitizer "
        "gate), infinity - infinity, or 0/0 (a row with nothing unmasked)",
    ),
    "no_barrier_before_reuse": (  # a warp that is ahead overwrites what the warps of the other 16 rows still read
        "reversed",
        "S 16-31 of every 32",
        "S 16-31 of every 32 is one warp's stripe or one fragment's: a missing __syncwarp or __syncthreads between its store "
        "and the read, or a wrong warp offset",
    ),
}


@pytest.fixture(scope="module")
def kernels(kept: OnceASession) -> dict[str, EmulatedKernel]:
    library = kept("explained", lambda folder: compile_patched([DEFECTS[name] for name in EXPLAINED], folder)) / "patched.so"
    return {name: EmulatedKernel(library, f"{ENTRY}_{number}") for number, name in enumerate(EXPLAINED)}


@pytest.mark.parametrize("name", EXPLAINED)
def test_map_names_the_place_and_the_cause(kernels, name):
    order, place, cause = EXPLAINED[name]
    inputs = problem.make_inputs(SIX_HEADS, 0, "cpu")
    want = problem.reference(inputs, SIX_HEADS)["out"]
    got = run(kernels[name], inputs, SIX_HEADS, order=order)
    others = {text: lambda make=make: make()["out"] for text, make in problem.mistakes(inputs, SIX_HEADS).items()}
    found = error_map(got, want, ~((got.double() - want).abs() <= LIMIT), limit="", axes=problem.AXES["out"], others=others)
    found = from_json(ErrorMap, json.loads(json.dumps(found)), name)
    told = map_line(found).partition(": ")[0]
    assert told == place or (name == RACE and place in told)
    assert causes(found)[0] == cause
