"""Planted defects in the SDPA kernel: each is caught by the errors, the findings, or another order of threads.

The sound kernel passes the same trials in test_sdpa_kernel.py.
"""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sdpa_kit import SOURCE, configure, emulated, extreme_inputs, findings, problem, run, task_of, worst_error

from gates.judge.causes import causes, map_line
from gates.parse.errormap import ErrorMap
from gates.records import from_json
from gates.run.errormap import error_map
from gates.run.kernel import Kernel, KernelError

THREE_TILES = {"B": 1, "H": 1, "S": 130, "D": 64}
SIX_HEADS = {"B": 2, "H": 3, "S": 65, "D": 64}
LIMIT = task_of("stage3_cp_async")["gates"]["correctness"]["max_abs_err"]

# name: (file, text, replacement)
DEFECTS = {
    "no final division": ("softmax.cuh", "v_scale / sum_", "v_scale"),
    "O not rescaled": ("output.cuh", "state_.sums[n].x[i] *= factor;", ";"),
    "tail not masked": ("softmax.cuh", "column + i < valid_keys ?", "true ?"),
    "finite start of the maximum": ("softmax.cuh", "float max_ = -INFINITY", "float max_ = -5e4f"),
    "one wait too short": ("load.cuh", "__pipeline_wait_prior(kPipelineDepth - 1);", "__pipeline_wait_prior(kPipelineDepth);"),
    "rows past the end written": ("output.cuh", "if (row >= valid_rows) return;", ""),
    "no barrier after the scores": ("sdpa_fp8.cu", "__syncthreads();  // a row of scores", "// a row of scores"),
    "no barrier after P": ("sdpa_fp8.cu", "__syncthreads();  // a row of P", "// a row of P"),
    "no barrier after the tile": ("sdpa_fp8.cu", "__syncthreads();  // V and P are read", "// V and P are read"),
}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory) -> dict[str, Kernel]:
    folder = tmp_path_factory.mktemp("defects")
    with ThreadPoolExecutor(2) as pool:
        built = pool.map(lambda item: planted(folder / f"defect{item[0]}", *DEFECTS[item[1]]), enumerate(DEFECTS))
        return dict(zip(DEFECTS, built, strict=True))


def planted(folder: Path, file: str, text: str, replacement: str) -> Kernel:
    shutil.copytree(SOURCE.parent, folder / "source")
    path = folder / "source" / file
    source = path.read_text(encoding="utf-8")
    assert source.count(text) == 1, f"the defect has lost its place in {file}"
    path.write_text(source.replace(text, replacement), encoding="utf-8")
    return emulated(folder, "defect", task_of("stage3_cp_async")["toggles"], folder / "source" / SOURCE.name)


@pytest.mark.parametrize("name", DEFECTS)
def test_defect_is_caught(kernels, name):
    assert caught(kernels[name])


def caught(kernel: Kernel) -> bool:
    for inputs in (problem.make_inputs(THREE_TILES, 0, "cpu"), extreme_inputs(THREE_TILES)):
        for order in (0, 1, 2):
            configure(kernel, order)
            try:
                out = run(kernel, inputs, THREE_TILES)
            except (KernelError, AssertionError):
                return True
            if not worst_error(out, inputs, THREE_TILES) <= LIMIT or findings(kernel):
                return True
    return False


# defect: (order of the threads, the place, the first cause), on SIX_HEADS with seed 0
EXPLAINED = {
    "no final division": (
        0, "everywhere", "the values are those of: no final division by the row sum"),
    "O not rescaled": (  # the last key of those rows outweighs the 64 before it
        0, "6 of 390 rows, scattered over B\u00b7H 2-5 and S 6, 8, 18, 48-49 and others (6 of 65) of every D",
        "the values are those of: the accumulator is not rescaled when the maximum rises"),
    "tail not masked": (0, "everywhere", "the values are those of: keys past the end not masked, tile of 64"),
    "one wait too short": (
        0, "everywhere",
        "NaN: memory read before it was written (missing barrier or wait, a row never loaded), infinity - infinity, or 0/0 (a row with nothing unmasked)"),
    "no barrier after the tile": (  # a warp that is ahead overwrites what the warps of the other 16 rows still read
        1, "parts of S 16-31 of every 32 of every B, H, D",
        "S 16-31 of every 32 is one warp's stripe or one fragment's: a missing __syncwarp or __syncthreads between its store "
        "and the read, or a wrong warp offset"),
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_map_names_the_place_and_the_cause(kernels, name):
    order, place, cause = EXPLAINED[name]
    inputs = problem.make_inputs(SIX_HEADS, 0, "cpu")
    want = problem.reference(inputs, SIX_HEADS)["out"]
    configure(kernels[name], order)
    got = run(kernels[name], inputs, SIX_HEADS)
    others = {text: lambda make=make: make()["out"] for text, make in problem.mistakes(inputs, SIX_HEADS).items()}
    found = error_map(got, want, ~((got.double() - want).abs() <= LIMIT), limit="", axes=problem.AXES["out"], others=others)
    found = from_json(ErrorMap, json.loads(json.dumps(found)), name)
    assert map_line(found).partition(": ")[0] == place
    assert causes(found)[0] == cause
