"""Edge shapes and input families of the SDPA problem, its error bound, and defects that only these show."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conftest import OnceASession
from defects.combined import ENTRY, compile_patched
from defects.record import patch
from fp16_kit import unpatched
from sdpa_kit import problem, run

from gates.gate.correctness.runner.accuracy import figures
from gates.launch.emulated_kernel import EmulatedKernel
from tasks.problems.sdpa_bound import _lowest_bit

STAGE = "stage3_cp_async"
SHAPE = problem.SHAPES["b1h2s129"]
HALF = 2.0**-11

# name: (file, text, replacement, the family or edge shape that shows it). Ordinary inputs on the ordinary shapes show none.
DEFECTS = {
    "zero where the sum is small": (
        "parts/write_output.cuh",
        "const float factor = normalise[row];",
        "const float factor = normalise[row] < 1e-4f ? 0.0f : normalise[row];",
        "scales",
    ),
    "wrong for three heads of B = 3": (
        "stage3_cp_async.cu",
        "const int head = blockIdx.x / query_tiles;",
        "const int head = blockIdx.x / query_tiles == 8 ? 7 : blockIdx.x / query_tiles;",
        "b3h3s1",
    ),
}


@pytest.fixture(scope="module")
def kernels(kept: OnceASession) -> dict[str, EmulatedKernel]:
    edited = [patch(name, "numerics", name, STAGE, (file, text, other)) for name, (file, text, other, _) in DEFECTS.items()]
    library = kept("inputs", lambda folder: compile_patched([unpatched(STAGE), *edited], folder)) / "patched.so"
    return {name: EmulatedKernel(library, f"{ENTRY}_{number}") for number, name in enumerate(["honest", *DEFECTS])}


def over_bound(kernel: EmulatedKernel, shape: dict[str, int], family: str, seed: int = 0) -> dict[str, Any]:
    inputs = make(family, shape, seed)
    nulls = {kind: answer["out"] for kind, answer in problem.null_outputs(inputs, shape).items()}
    return figures(
        "out", run(kernel, inputs, shape), problem.reference(inputs, shape)["out"], 1e-3, problem.error_bound(inputs, shape)["out"], nulls
    )


def make(family: str, shape: dict[str, int], seed: int = 0) -> dict[str, Any]:
    return (problem.make_inputs if family == "default" else problem.INPUT_FAMILIES[family])(shape, seed, "cpu")


def test_the_edge_shapes_cover_every_pair() -> None:
    shapes = [problem.SHAPES[name] for name in problem.EDGE_SHAPES]
    lengths = (1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 129, 511, 512, 513, 2047)
    assert len(shapes) == 54
    assert {(s["S"], s["B"]) for s in shapes} == {(s["S"], s["H"]) for s in shapes} == {(n, x) for n in lengths for x in (1, 2, 3)}
    assert {(s["B"], s["H"]) for s in shapes} == {(b, h) for b in (1, 2, 3) for h in (1, 2, 3)}
    assert all(name == f"b{s['B']}h{s['H']}s{s['S']}" for name, s in zip(problem.EDGE_SHAPES, shapes, strict=True))


@pytest.mark.parametrize("family", problem.INPUT_FAMILIES)
def test_a_family_is_what_it_says(family: str) -> None:
    ordinary, inputs, other = make("default", SHAPE), make(family, SHAPE), make(family, SHAPE, 1)
    assert {name: getattr(value, "dtype", type(value)) for name, value in inputs.items()} == {
        name: getattr(value, "dtype", type(value)) for name, value in ordinary.items()
    }
    for name in ("q", "k", "v", "q_scale", "k_scale", "v_scale"):
        assert inputs[name].shape == ordinary[name].shape and inputs[name].is_contiguous()
        assert torch.equal(inputs[name], make(family, SHAPE)[name]), "the same values every time"
    assert any(not torch.equal(inputs[name], other[name]) for name in ("q", "k", "v")), "another seed, other inputs"
    out = problem.reference(inputs, SHAPE)["out"]
    assert torch.isfinite(out).all() and out.abs().max() < 65504


def scores(family: str) -> torch.Tensor:
    inputs = make(family, SHAPE)
    q, k = (problem.dequantise(inputs[name], inputs[f"{name}_scale"]) for name in ("q", "k"))
    return q @ k.transpose(2, 3) * inputs["softmax_scale"]


def test_scores_of_the_families() -> None:
    top = scores("dominant_key").softmax(-1).amax(-1)
    assert (top > 0.5).double().mean() > 0.9
    spread = scores("equal_keys").std(-1)  # a matrix product may round equal rows differently at the edges of its blocks
    assert (spread[0, 0] < 1e-5).all() and (spread[0, 1] > 1e-2).all()
    assert (scores("equal_scores")[:, :, ::3].std(-1) < 1e-5).all()
    rising = scores("rising_max")
    tiles = [rising[..., start : start + 64].amax(-1) for start in (0, 64, 128)]
    assert (tiles[1] > tiles[0]).all() and (rising[..., 64:].amax(-1) > tiles[0]).all()
    assert (scores("max_last").argmax(-1)[0, 0] == 128).double().mean() > 0.9
    assert scores("negative_scores").max() < -1e5
    assert scores("large_scores")[0, 1].abs().max() > 1e4
    inputs = make("format_max", SHAPE)
    assert set(inputs["q"].unique().tolist()) == {0x7E, 0xFE} and set(make("smallest_subnormal", SHAPE)["v"].unique().tolist()) == {1, 0x81}
    assert set(make("negative_zero", SHAPE)["k"][0, 0].unique().tolist()) == {0, 0x80}
    wide = torch.cat([make("scales", problem.SHAPES["b2h3s33"])[f"{name}_scale"].flatten() for name in ("q", "v")])
    assert wide.min() <= 1e-6 and wide.max() >= 1e4


@pytest.mark.parametrize("family", ["default", *problem.INPUT_FAMILIES])
def test_an_honest_kernel_keeps_the_bound_and_null_answers_break_it(kernels: dict[str, EmulatedKernel], family: str) -> None:
    record = over_bound(kernels["honest"], SHAPE, family)
    assert record["nonfinite"] == 0 and record["max_err_over_bound"] <= 1.0
    nulls = {null["kind"]: null["max_err_over_bound"] for null in record["nulls"]}
    assert min(nulls.values()) > 100, nulls
    assert set(nulls) == {"zeros", "mean", "rows_shifted", "mean_of_v", "v_itself"}


def test_with_one_key_the_output_is_v(kernels: dict[str, EmulatedKernel]) -> None:
    record = over_bound(kernels["honest"], problem.SHAPES["b3h3s1"], "default")
    assert {null["kind"] for null in record["nulls"] if null["max_err_over_bound"] <= 1} == {"mean_of_v", "v_itself"}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_that_ordinary_cases_let_through(kernels: dict[str, EmulatedKernel], name: str) -> None:
    where = DEFECTS[name][3]
    for shape in ("small", "tail", "odd"):
        assert over_bound(kernels[name], problem.SHAPES[shape], "default")["max_err_over_bound"] <= 1, shape
    shape, family = (SHAPE, where) if where in problem.INPUT_FAMILIES else (problem.SHAPES[where], "default")
    record = over_bound(kernels[name], shape, family)
    assert record["nonfinite"] or not record["max_err_over_bound"] <= 1


def test_the_bound_is_as_wide_as_the_roundings_it_lists() -> None:
    bound, out = problem.error_bound(make("default", SHAPE), SHAPE)["out"], problem.reference(make("default", SHAPE), SHAPE)["out"]
    spread = 0.8  # mean of |v| under N(0, 1) inputs
    assert (bound >= HALF * out.abs()).all() and bound.min() >= 2.0**-25
    assert HALF * spread < bound.mean() < 1.3 * HALF * (spread + float(out.abs().mean()))
    one = problem.SHAPES["single"]
    exact = problem.reference(make("default", one), one)["out"].abs()
    assert torch.allclose(problem.error_bound(make("default", one), one)["out"], 2 * HALF * exact, rtol=0.02), "P and O rounded to half"


def test_the_bound_scales_with_v_and_knows_exact_sums() -> None:
    inputs = make("default", SHAPE)
    larger = {**inputs, "v_scale": inputs["v_scale"] * 1024}
    one, two = (problem.error_bound(x, SHAPE)["out"] for x in (inputs, larger))
    assert torch.allclose(two, one * 1024, rtol=1e-2)
    assert problem.error_bound(make("negative_scores", SHAPE), SHAPE)["out"].max() < 0.1, "24 bits hold every partial sum"
    values = torch.tensor([[0.0, 0.75, 4.0], [0.0, 0.0, 0.0], [2.0**-9, 448.0, 1.0]], dtype=torch.float64)
    assert _lowest_bit(values).tolist() == [0.25, 1.0, 2.0**-9]


def test_the_bound_does_not_depend_on_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.problems import sdpa_bound

    inputs = make("rising_max", SHAPE)
    whole = problem.error_bound(inputs, SHAPE)["out"]
    monkeypatch.setattr(sdpa_bound, "_ROWS", 50)
    assert torch.allclose(problem.error_bound(inputs, SHAPE)["out"], whole, rtol=1e-9)
