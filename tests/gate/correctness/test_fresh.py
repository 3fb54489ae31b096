"""Shapes and values that a run draws for itself: which, what they find, and that no honest kernel is refused for them."""

from __future__ import annotations

import random
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from correctness_kit import LIMITS, TASKS, gate, side, task_folder

from gates.cli import task_runner
from gates.core.errors import GatesError
from gates.core.records import Status
from gates.gate.correctness import fresh_shapes, plan
from gates.gate.correctness.runner import case as casecheck
from gates.gate.correctness.runner.accuracy import figures
from gates.gate.correctness.runner.yardstick import Yardstick
from gates.pipeline import run as pipeline
from gates.task import needs, small_inputs, values
from gates.task import problem as problems

FORMATS = ("float32", "float16", "bfloat16")


def problem(shapes: dict[str, dict[str, int]], **more: Any) -> problems.Problem:
    module = types.ModuleType("drawn_problem")
    module.__dict__.update(
        {
            "SHAPES": shapes,
            "ARGUMENTS": ("x", "out"),
            "make_inputs": lambda shape, seed, device: {"x": torch.randn(*shape.values())},
            "reference": lambda inputs, shape: {"out": inputs["x"].double()},
            **more,
        }
    )
    return problems.Problem(module)


DEAR = 12000  # operations an element: all fresh cases would take more than no time
ROWS = {"small": {"R": 8, "C": 256}, "odd": {"R": 5, "C": 33}, "mission": {"R": 256, "C": 1024}}


def test_a_name_holds_the_sizes_and_can_be_asked_for() -> None:
    one = problem(ROWS)
    assert problems.fresh_name({"R": 7, "C": 129}) == "fresh_R7_C129"
    assert one.SHAPES["fresh_R7_C129"] == {"R": 7, "C": 129} and "fresh_R7_C129" in one.SHAPES
    problems.check_names(one, ["fresh_R7_C129", "small"], ["default", "zero_rows", "one_hot:x"])
    for wrong in ("fresh_C129_R7", "fresh_R7", "fresh_R7_C129_D2", "R7_C129", "fresh_R-7_C129"):
        assert wrong not in one.SHAPES
        with pytest.raises(GatesError, match="has no shape"):
            problems.check_names(one, [wrong])
    with pytest.raises(GatesError, match="has no inputs"):
        problems.check_names(one, ["small"], ["zero_row"])


@pytest.mark.parametrize("seed", range(20))
def test_drawn_shapes_are_new_cheap_within_the_ranges_and_the_same_for_the_same_seed(seed: int) -> None:
    one = (
        problem(ROWS, DIMS={"R": range(1, 4097), "C": range(2, 1025, 2)} | {}, work=lambda shape: {"flops": shape["R"] * shape["C"]})
        if seed % 2
        else problem({"small": {"R": 8, "C": 256}}, DIMS={"R": range(1, 4097), "C": [64, 256]})
    )
    drawn = fresh_shapes.draw(one, seed)
    assert drawn == fresh_shapes.draw(one, seed) and drawn != fresh_shapes.draw(one, seed + 1)
    assert 4 <= len(drawn) <= fresh_shapes.COUNT
    for name, sizes in drawn.items():
        assert one.SHAPES[name] == sizes and sizes not in [dict(shape) for shape in dict.values(one.SHAPES)]
        assert all(sizes[dimension] in values_ for dimension, values_ in one.DIMS.items())
        assert sizes["R"] * sizes["C"] <= 4 * 8 * 256


def test_every_draw_holds_sizes_beside_a_tile_and_long_ones() -> None:
    one = problem(ROWS, DIMS={"R": range(1, 4097), "C": range(1, 1025)})
    for seed in range(30):
        columns = [sizes["C"] for sizes in fresh_shapes.draw(one, seed).values()]
        assert any(size > 256 for size in columns) and any(size % 8 for size in columns) and any(size < 64 for size in columns)


def test_a_shape_with_little_work_and_many_outputs_is_not_cheap() -> None:
    """The comparison of an output's element costs more than its work does."""
    one = problem(
        {"small": {"R": 8, "C": 8}},
        DIMS={"R": range(1, 1 << 20), "C": range(1, 1 << 20)},
        work=lambda shape: {"flops": shape["R"] + shape["C"]},
        make_outputs=lambda shape, device: {"out": torch.empty(shape["R"], 64)},
    )
    drawn = [sizes for seed in range(5) for sizes in fresh_shapes.draw(one, seed, 1e7).values()]
    assert max(sizes["C"] for sizes in drawn) > 10_000 and 1 < max(sizes["R"] for sizes in drawn) < 400


@pytest.mark.parametrize("make", [torch.randn, lambda rows, columns: torch.empty(rows).expand(columns, rows).contiguous()])
def test_a_shape_with_little_work_and_large_inputs_is_not_cheap(make: Any) -> None:
    """As attention with a mask that hides nearly all keys: they are drawn, handed over and compared all the same."""
    sizes = {"small": {"R": 8, "C": 8}}
    dims = {"R": range(1, 1 << 14), "C": range(1, 1 << 14)}
    one = problem(
        sizes,
        DIMS=dims,
        work=lambda shape: {"flops": shape["R"]},
        make_outputs=lambda shape, device: {"out": torch.empty(8)},
        make_inputs=lambda shape, seed, device: {"x": make(shape["R"], shape["C"])},
    )
    drawn = [found for seed in range(5) for found in fresh_shapes.draw(one, seed, 1e6).values()]
    elements = [found["R"] * found["C"] for found in drawn]
    assert len(drawn) >= 30 and 2**18 < max(elements) <= 2**20 and max(found["C"] for found in drawn) > 10_000
    small = problem(sizes, DIMS=dims, work=one.work, make_inputs=lambda shape, seed, device: {"x": torch.randn(shape["R"])})
    assert max(found["R"] * found["C"] for seed in range(5) for found in fresh_shapes.draw(small, seed, 1e6).values()) > 2**20, (
        "no input is"
    )


def test_an_input_of_a_fixed_size_does_not_forbid_shapes() -> None:
    """As a table in which rows are looked up."""
    rows = 1_100_000
    one = problem(
        {"small": {"N": 1000, "T": rows}, "mission": {"N": 4096, "T": rows}},
        DIMS={"N": range(1, 5000), "T": [rows]},
        work=lambda shape: {"flops": shape["N"]},
        make_outputs=lambda shape, device: {"out": torch.empty(shape["N"])},
        make_inputs=lambda shape, seed, device: {"x": torch.randn(shape["T"]), "index": torch.zeros(shape["N"])},
    )
    assert len(fresh_shapes.draw(one, 1)) == fresh_shapes.COUNT


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_inputs_that_can_not_be_made_are_not_called_large(error: type[BaseException]) -> None:
    def make(shape: Any, seed: int, device: str) -> dict[str, Any]:
        raise error("not for this shape")

    assert needs.draws_within(problem(ROWS, make_inputs=make), ROWS["small"], 1)
    before = torch.get_rng_state()
    assert not needs.draws_within(problem(ROWS), ROWS["small"], 2047) and needs.draws_within(problem(ROWS), ROWS["small"], 2048)
    assert torch.equal(before, torch.get_rng_state())


def test_a_function_gives_shapes_whose_sizes_belong_together() -> None:
    def square(generator: random.Random) -> dict[str, int]:
        size = generator.randint(1, 40)
        return {"R": size, "C": size}

    drawn = fresh_shapes.draw(problem({"small": {"R": 32, "C": 32}}, DIMS=square), 0)
    assert len(drawn) == fresh_shapes.COUNT and all(sizes["R"] == sizes["C"] for sizes in drawn.values())
    for wrong, message in ((lambda generator: {"R": 1}, "gives"), (lambda generator: 1 / 0, "ZeroDivisionError")):
        with pytest.raises(GatesError, match=message):
            fresh_shapes.draw(problem({"small": {"R": 32, "C": 32}}, DIMS=wrong), 0)


@pytest.mark.parametrize(
    ("shapes", "check"),
    [
        ({"small": {"K": 64}, "mission": {"K": 256}, "odd": {"K": 68}}, lambda sizes: sizes["K"] % 4 == 0 and 64 <= sizes["K"] <= 256),
        ({"small": {"N": 10, "D": 64}, "mission": {"N": 999, "D": 128}}, lambda sizes: sizes["D"] in (64, 128)),
        ({"small": {"M": 33, "N": 33}, "mission": {"M": 500, "N": 500}}, lambda sizes: sizes["M"] == sizes["N"]),
        ({"small": {"H": 3, "G": 6}, "mission": {"H": 50, "G": 100}}, lambda sizes: sizes["G"] == 2 * sizes["H"]),
    ],
    ids=["a_common_divisor", "powers_of_two_alone", "equal_sizes", "proportional_sizes"],
)
def test_without_dims_a_shape_keeps_to_what_the_declared_ones_have_in_common(shapes: dict[str, dict[str, int]], check: Any) -> None:
    found = [sizes for seed in range(10) for sizes in fresh_shapes.draw(problem(shapes), seed, 1e9).values()]
    assert found and all(check(sizes) for sizes in found)


@pytest.mark.parametrize("shapes", [{"given": {"N": 100}}, {"small": {"N": 64}, "mission": {"N": 4096}}, {"a": {"N": 5}, "b": {"M": 7}}])
def test_nothing_is_inferred_from_one_size_or_powers_of_two_or_other_names(shapes: dict[str, dict[str, int]]) -> None:
    drawn = fresh_shapes.draw(problem(shapes), 0, 1e9)
    assert all(sizes in [dict(one) for one in shapes.values()] for sizes in drawn.values())
    assert fresh_shapes.draw(problem(ROWS, DIMS={}), 0) == {}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"DIMS": {"R": range(1, 9)}}, "for each of R, C"),
        ({"DIMS": {"R": (), "C": 3}}, r"DIMS\['R'\] must be a range"),
        ({"DIMS": {"R": range(1, 300), "C": range(1, 100)}}, r"DIMS\['C'\] leaves out 256, which the shape small has"),
        ({"DIMS": {"R": "1..8", "C": 3}}, "must be a range"),
        ({"OUT_OF_CONTRACT": ("denormals",)}, "denormals"),
        ({"OUT_OF_CONTRACT": "denormal"}, "must be a tuple"),
        ({"NON_FINITE": ("infinite",)}, "has no 'infinite'"),
    ],
)
def test_a_wrong_declaration_is_an_error(tmp_path: Path, names: dict[str, Any], message: str) -> None:
    module = types.ModuleType("m")
    module.__dict__.update({"SHAPES": ROWS, "make_inputs": len, "reference": len, **names})
    assert __import__("re").search(message, problems._wrong(module)), problems._wrong(module)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("kind", problems.VALUES)
def test_structured_values_are_what_their_name_says(kind: str, dtype: str) -> None:
    form = getattr(torch, dtype)
    one = problem(
        ROWS,
        make_inputs=lambda shape, seed, device: {"x": torch.randn(*shape.values(), generator=torch.Generator().manual_seed(seed)).to(form)},
    )
    x = values.inputs_of(one, kind, ROWS["small"], 3, "cpu")["x"]
    assert x.dtype is form and x.shape == (8, 256) and bool(torch.isfinite(x).all())
    assert torch.equal(x, values.inputs_of(one, kind, ROWS["small"], 3, "cpu")["x"])
    x = x.double()
    assert {
        "all_equal": lambda: x.unique().numel() == 1,
        "one_hot": lambda: bool(((x != 0).sum(1) == 1).all()),
        "huge_offset": lambda: x.mean() > 20 * x.std(),
        "denormal": lambda: bool((x[:, 1::2].abs() < torch.finfo(form).tiny).all()) and bool((x[:, 1::2] != 0).any()),
        "ascending": lambda: bool((x.diff() >= 0).all()),
        "descending": lambda: bool((x.diff() <= 0).all()),
        "zero_rows": lambda: not x[1::2].any() and bool((x[::2] != 0).any()),
        "small": lambda: bool((x != 0).all()) and float(x.abs().max()) < 0.02,
        "alternating": lambda: bool((x[:, ::2] > 1).all() and (x[:, 1::2] < -1).all()) and x.sum().abs() < x.abs().sum() / 20,
    }[kind]()


def test_whole_numbers_take_values_that_are_there_and_keep_order_and_permutations() -> None:
    def make(shape: Any, seed: int, device: str) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(seed)
        return {
            "x": 7 * torch.randint(3, 9, (100,), generator=generator),
            "order": torch.randperm(100, generator=generator),
            "offsets": torch.arange(100) ** 2,
        }

    one = problem(ROWS, make_inputs=make, ARGUMENTS=("x", "order", "offsets"))
    found = values.kinds(one, ROWS["small"], 0)
    assert {"all_equal", "one_hot", "ascending", "descending", "alternating"} <= set(found) and not any(":o" in kind for kind in found)
    for kind in found:
        assert set(values.inputs_of(one, kind, ROWS["small"], 0, "cpu")["x"].tolist()) <= {7 * size for size in range(3, 9)}
    with pytest.raises(GatesError, match="order can't take such values"):
        values.inputs_of(one, "one_hot:order", ROWS["small"], 0, "cpu")


def test_a_problem_says_what_is_out_of_its_contract_and_whether_nan_is_in_it() -> None:
    assert "denormal" in values.kinds(problem(ROWS), ROWS["small"], 0) and "nan" not in values.kinds(problem(ROWS), ROWS["small"], 0)
    one = problem(ROWS, OUT_OF_CONTRACT=("denormal", "zero_rows"), NON_FINITE=("nan", "infinity"))
    found = values.kinds(one, ROWS["small"], 0)
    assert not {"denormal", "zero_rows"} & set(found) and {"nan", "infinity"} <= set(found)
    assert bool(torch.isnan(values.inputs_of(one, "nan", ROWS["small"], 0, "cpu")["x"]).any())


def test_nan_is_asked_for_where_the_reference_has_it_and_nowhere_else() -> None:
    want = torch.tensor([1.0, torch.nan, 3.0], dtype=torch.float64)
    right, missed, spread = torch.tensor([1.0, torch.nan, 3.0]), torch.tensor([1.0, 2.0, 3.0]), torch.full((3,), torch.nan)
    assert [figures("out", got, want, 0.1, nan=True)["nonfinite"] for got in (right, missed, spread)] == [0, 1, 2]
    assert figures("out", right, want, 0.1, nan=True)["max_abs_err"] == 0.0


def layer_norm(x: torch.Tensor) -> torch.Tensor:
    d = x - x.mean(1, keepdim=True)
    return d * torch.rsqrt(d.square().mean(1, keepdim=True) + 1e-5)


def single_pass(x: torch.Tensor) -> torch.Tensor:
    mean = x.mean(1, keepdim=True)
    return (x - mean) * torch.rsqrt(x.square().mean(1, keepdim=True) - mean * mean + 1e-5)


OPERATORS = {
    "layer_norm": layer_norm,
    "sum": lambda x: x.sum(1),
    "product": lambda x: x @ x.T,
    "distance": lambda x: (x[:, :1] - x).square().sum(1).sqrt(),
    "gelu": lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5)),
    "normalised": lambda x: x / x.norm(dim=1, keepdim=True),
    "log_sum_exp": lambda x: torch.logsumexp(x, 1),
    "quantised": lambda x: torch.round(x / (x.abs().amax(1, keepdim=True) / 127)),
}


SCALE = ("sum", "product", "distance")  # with their inputs


@pytest.mark.parametrize("kind", problems.VALUES)
@pytest.mark.parametrize("name", OPERATORS)
def test_an_honest_float32_evaluation_keeps_scaled_limits(name: str, kind: str) -> None:
    """Summed in another order than the reference's own float32, and one after another."""
    operator = OPERATORS[name]
    one = problem(
        ROWS,
        reference=lambda inputs, shape: {"out": operator(inputs["x"].double())},
        make_inputs=lambda shape, seed, device: {"x": torch.randn(*shape.values(), generator=torch.Generator().manual_seed(seed))},
    )
    shape, permuted = ROWS["small"], torch.randperm(256, generator=torch.Generator().manual_seed(5))

    def honest(x: torch.Tensor) -> torch.Tensor:
        out = operator(x[:, permuted])
        return out[:, permuted.argsort()] if out.shape == x.shape else out

    usual = one.make_inputs(shape, 1, "cpu")["x"]
    limit = 3 * float((honest(usual) - operator(usual.double())).abs().max())
    small = small_inputs.find(one, shape, 1) if kind == "small" else None
    if kind == "small" and small is None:
        assert name not in SCALE and "small" not in values.kinds(one, shape, 1)
        return
    inputs = values.inputs_of(one, kind, shape, 1, "cpu")
    reference = one.reference(inputs, shape)
    got = honest(inputs["x"])
    room, missing = Yardstick(one).judge(inputs, shape, reference, {"out": got}, bounded=False, non_finite=False)
    if small is not None:
        assert name in SCALE and small.room[0] < 1e-8
        room = small.room
    found = figures("out", got, reference["out"], limit, missing=missing.get("out"), flushed=True)
    assert found["nonfinite"] == 0 and found["max_abs_err"] <= problems.widened(limit, *room), (found["max_abs_err"], limit, room)


def test_a_variance_in_a_single_pass_breaks_them() -> None:
    one = problem(
        ROWS,
        reference=lambda inputs, shape: {"out": layer_norm(inputs["x"].double())},
        make_inputs=lambda shape, seed, device: {"x": torch.randn(*shape.values(), generator=torch.Generator().manual_seed(seed))},
    )
    shape = ROWS["small"]
    usual = one.make_inputs(shape, 1, "cpu")["x"]
    assert float((single_pass(usual) - layer_norm(usual.double())).abs().max()) < 1e-5
    inputs = values.inputs_of(one, "huge_offset", shape, 1, "cpu")
    reference = one.reference(inputs, shape)
    room, missing = Yardstick(one).judge(inputs, shape, reference, {"out": usual}, bounded=False, non_finite=False)
    assert not missing and not float((single_pass(inputs["x"]) - reference["out"]).abs().max()) <= problems.widened(1e-5, *room)


@pytest.mark.parametrize(
    ("reference", "scaled"),
    [
        (lambda one: one["x"].double() @ one["w"].double() + one["b"].double(), {"w", "b"}),
        (lambda one: torch.softmax(one["x"].double() @ one["x"].double().T, 1) @ one["w"].double()[:8], {"w"}),
        (lambda one: one["x"].double() @ one["w"].double(), {"x", "w"}),
        (lambda one: torch.tanh(one["x"].double() @ one["w"].double()), set()),
        (lambda one: one["x"].double().argmax(1), set()),
        (lambda one: {"out": one["x"].double(), "places": one["x"].double().argmax(1)}, set()),
        (lambda one: torch.tensor([])[1], set()),
    ],
    ids=["linear", "attention", "product", "tanh", "places", "values_and_places", "raises"],
)
@pytest.mark.parametrize("dtype", FORMATS)
def test_the_inputs_that_are_made_small_are_those_with_which_the_answer_scales(reference: Any, scaled: set[str], dtype: str) -> None:
    def make(shape: Any, seed: int, device: str) -> dict[str, Any]:
        generator = torch.Generator().manual_seed(seed)
        sizes = {"x": (8, 64), "w": (64, 16), "b": (16,)}
        return {**{name: torch.randn(size, generator=generator).to(getattr(torch, dtype)) for name, size in sizes.items()}, "eps": 1e-5}

    one = problem(ROWS, make_inputs=make, reference=reference, ARGUMENTS=("x", "w", "b"))
    found, usual = small_inputs.find(one, ROWS["small"], 0), make(None, 0, "")
    changed = {name for name in "xwb" if found and not torch.equal(found.inputs[name], usual[name])}
    unused = {"b"} if changed >= scaled and "b" not in scaled else set()  # what the answer does not depend on may change, too
    assert changed - unused == scaled
    assert not found or found.inputs["eps"] == 1e-5


@pytest.mark.parametrize(("entry", "passes"), [("honest", True), ("wrong_where_small", False), ("slightly_worse", True)])
def test_zeros_for_small_numbers_are_refused_under_absolute_limits(library: Path, tmp_path: Path, entry: str, passes: bool) -> None:
    evidence, result = gate(
        tmp_path,
        side(library, entry),
        seeds=(0,),
        shapes=("small",),
        limits={**LIMITS, "max_abs_err": 1e-4, "mean_abs_err": 1e-5, "bad_atol": 1e-4},
        extra_seeds=(3,),
    )
    (case,) = [case for case in evidence.cases if case.inputs == "small"]
    assert case.limit_scale == 2.0**-30 and case.outputs[0].reference_max_abs < 1e-7
    assert result.status is (Status.PASS if passes else Status.FAIL), result.sentence
    assert {check.where.split()[-1] for check in result.checks if check.status is Status.FAIL and check.where} == (
        set() if passes else {"small"}
    )


def test_what_the_reference_does_not_define_is_left_out() -> None:
    one = problem(
        ROWS,
        reference=lambda inputs, shape: {"out": inputs["x"].double() / inputs["x"].double().abs().amax(1, keepdim=True)},
        make_inputs=lambda shape, seed, device: {"x": torch.randn(*shape.values(), generator=torch.Generator().manual_seed(seed))},
    )
    inputs = values.inputs_of(one, "zero_rows", ROWS["small"], 1, "cpu")
    reference = one.reference(inputs, ROWS["small"])
    _, missing = Yardstick(one).judge(inputs, ROWS["small"], reference, {"out": inputs["x"]}, bounded=True, non_finite=False)
    assert bool(missing["out"][1::2].all()) and not bool(missing["out"][::2].any())


def planned(one: problems.Problem, shapes: tuple[str, ...] = ("small",), seed: int = 5) -> tuple[list[Any], list[Any]]:
    """The cases of a run on the emulator that are fresh, and the others."""
    cases = plan.whole(one, plan.asked(shapes, (100, 101), (seed,), (), True), {"quick": True, "fresh": seed}, True)
    return [case for case in cases if case["role"] == "fresh"], [case for case in cases if case["role"] != "fresh"]


@pytest.mark.parametrize("seed", range(5))
def test_a_run_gets_eight_fresh_cases_shapes_and_values_alike_and_all_where_they_are_cheap(seed: int) -> None:
    def one(flops: int) -> problems.Problem:
        return problem(ROWS, DIMS={"R": range(1, 4097), "C": range(1, 1025)}, work=lambda shape: {"flops": flops * shape["R"] * shape["C"]})

    all_kinds = fresh_shapes.COUNT + len(values.kinds(one(4), ROWS["small"], seed))
    few, _ = planned(one(DEAR), seed=seed)
    assert len(few) == 8 and sum(case["inputs"] == "default" for case in few) == 4 and "small" in [case["inputs"] for case in few]
    columns = [one(DEAR).SHAPES[case["shape"]]["C"] for case in few if case["inputs"] == "default"]
    assert any(size % 8 for size in columns) and any(size > 256 for size in columns)
    assert len(planned(one(4), seed=seed)[0]) == len(planned(one(4000), ("small", "mission"), seed)[0]) == all_kinds > 14


def test_the_values_of_a_dear_first_shape_are_two_and_cheap_shapes_make_eight() -> None:
    one = problem(
        {"mission": {"R": 512, "C": 512}, "odd": {"R": 5, "C": 33}},
        DIMS={"R": range(1, 4097), "C": range(1, 1025)},
        work=lambda shape: {"flops": 2000 * shape["R"] * shape["C"]},
    )
    found, _ = planned(one, ("mission",))
    assert len(found) == 8 and sum(case["shape"] == "mission" for case in found) == 2


def test_all_kinds_of_values_have_their_turn_and_the_one_that_narrows_limits_is_always_first() -> None:
    orders = [values.drawn(problem(ROWS), ROWS["small"], seed) for seed in range(30)]
    assert {order[0] for order in orders} == {"small"} and {order[1] for order in orders} == set(orders[0]) - {"small"}
    declared = values.drawn(problem(ROWS, NON_FINITE=("nan",)), ROWS["small"], 0)
    assert set(declared[:2]) == {"small", "nan"}


def test_a_small_case_is_checked_by_one_thread_and_a_large_one_by_all(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[str, int] = {}
    monkeypatch.setattr(
        casecheck, "_check", lambda side, case, *rest: threads.update({case["shape"]: torch.get_num_threads()}) or {"status": "ok"}
    )
    one = types.SimpleNamespace(problem=problem({"small": {"N": 1 << 20}, "large": {"N": 1 << 31}}))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for shape in ("small", "large"):
            casecheck.check(one, {"shape": shape, "seed": 0, "orders": []}, {}, len)
        assert threads == {"small": 1, "large": 2} and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_run_tries_at_least_eight_fresh_cases_and_names_them(library: Path, tmp_path: Path) -> None:
    evidence, result = gate(tmp_path, side(library, "honest"), extra_seeds=(77,))
    fresh = [case for case in evidence.cases if case.role == "fresh"]
    assert result.status is Status.PASS and len(fresh) >= 8 and evidence.planned["fresh"] == len(fresh)
    assert {case.seed for case in fresh} == {77} and f"{len(fresh)} fresh cases" in result.sentence
    assert sum(case.shape.startswith("fresh_N") for case in fresh) >= 4 and sum(case.inputs != "default" for case in fresh) >= 4


def test_a_fresh_case_is_replayed_by_its_name(library: Path, tmp_path: Path) -> None:
    evidence, result = gate(
        tmp_path / "a", side(library, "unwritten_tail"), shapes=("mission",), seeds=(0,), extra_seeds=(5,), quick=True, runner="python r.py"
    )
    failed = [check for check in result.checks if check.status is Status.FAIL and check.where.startswith("fresh_N")]
    assert failed and all(check.reproduce for check in failed)
    shape, seed = failed[0].where.split()[0], 5
    assert failed[0].reproduce == f"python r.py --shape {shape} --seed {seed} --device emulator"
    again, result = gate(tmp_path / "b", side(library, "unwritten_tail"), shapes=(shape,), seeds=(seed,), inputs=("default",))
    assert result.status is Status.FAIL and [case.role for case in again.cases] == ["fresh"]
    first = next(case for case in evidence.cases if case.shape == shape)
    assert again.cases[0].inputs_sha256 == first.inputs_sha256


class Asked(Exception):
    """Ends a run where its problem would be read."""


@pytest.mark.parametrize(
    ("shapes", "inputs", "wanted"),
    [
        (("fresh_N77",), (), ("default",)),
        (("small", "fresh_N77"), (), ("default",)),
        (("small",), (), ()),
        (("fresh_N77",), ("zero_rows",), ("zero_rows",)),
    ],
)
def test_naming_a_drawn_shape_is_a_replay_for_gates_run_and_for_the_runner_alike(
    shapes: tuple[str, ...],
    inputs: tuple[str, ...],
    wanted: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[Any] = []

    def describe(*_: Any, inputs: Any, **__: Any) -> None:
        found.append(tuple(inputs))
        raise Asked

    for module in (pipeline, task_runner):
        monkeypatch.setattr(module, "describe", describe)
    monkeypatch.setattr(pipeline, "warm_up", lambda: None)
    monkeypatch.setattr(pipeline.compilers, "identities", len)
    options = pipeline.Options(
        str(TASKS / "saxpy_fast"), "cpu", shapes, inputs=inputs, results=tmp_path / "results", build_dir=tmp_path / "build"
    )
    with pytest.raises(Asked):
        pipeline.run_task(options, types.SimpleNamespace(step=lambda text: None))
    with pytest.raises(Asked):
        task_runner.run(
            TASKS / "saxpy_fast", tmp_path, shapes=shapes, seeds=(0,), inputs=inputs, iters=0, device="cpu", build_dir=tmp_path / "build"
        )
    assert found == [wanted, wanted]


def test_a_replayed_drawn_shape_has_the_limits_of_the_run(library: Path, tmp_path: Path) -> None:
    whole, _ = gate(tmp_path / "a", side(library, "honest"), seeds=(0,), shapes=("small",), extra_seeds=(5,))
    first = next(case for case in whole.cases if case.shape.startswith(problems.FRESH))
    again, result = gate(
        tmp_path / "b", side(library, "honest"), shapes=(first.shape,), seeds=(5,), inputs=problems.asked_inputs([first.shape], ())
    )
    assert result.status is Status.PASS and result.sentence.startswith("1/1 cases")
    (case,) = again.cases
    assert (case.role, case.limit_scale, case.limit_floor, case.sizes) == (
        first.role,
        first.limit_scale,
        first.limit_floor,
        first.sizes,
    ) and case.role == "fresh"


DECLINES = "\n".join(line for line in (TASKS / "saxpy_problem.py").read_text().splitlines() if not line.startswith("DIMS")) + "\n"


@pytest.mark.parametrize("declared", [False, True])
def test_a_kernel_may_decline_a_size_that_nobody_declared(library: Path, tmp_path: Path, declared: bool) -> None:
    text = DECLINES.replace('"N": 1023', '"N": 999') + ('\nDIMS = {"N": range(1, 1 << 19)}\n' if declared else "")
    one = side(library, "declines_other_sizes", task_folder(tmp_path / "t", "declining_problem", text), "declining_problem")
    evidence, result = gate(tmp_path / "w", one, shapes=("small",), seeds=(0,), extra_seeds=(5,))
    declined = [case for case in evidence.cases if case.status in ("declined", "launch_error")]
    assert declined and {case.status for case in declined} == {"launch_error" if declared else "declined"}
    assert result.status is (Status.FAIL if declared else Status.PASS)
    if declared:
        hints = [check.hint for check in result.checks if check.name == "case"]
        assert hints and all("In the judged cases it is wrong for N " in hint and hint.endswith("; right for 999, 1000.") for hint in hints)
    else:
        assert "without an answer, not counted" in result.sentence


def test_values_are_tried_on_an_odd_shape_that_is_larger_than_the_first_and_cheap() -> None:
    shapes = {"small": {"R": 4, "C": 8}, "odd": {"R": 3, "C": 333}, "dear": {"R": 4096, "C": 4096}}
    found, _ = planned(problem(shapes, ODD_SHAPES=("odd", "dear")))
    assert {case["shape"] for case in found if case["inputs"] != "default"} == {"odd"}
