"""Where an output is wrong and why: each known pattern gives its exact map line and its likely cause."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from places import DATA

from gates.core.errors import GatesError
from gates.core.records import from_json
from gates.core.schema import schema_path
from gates.gate.correctness.causes import _both, causes, elements_line, map_line
from gates.gate.correctness.error_map import ErrorMap
from gates.gate.correctness.evidence import CorrectnessEvidence
from gates.gate.correctness.runner.error_map import error_map

SHAPE = (2, 3, 130, 64)  # 130 = 4 x 32 + 2
AXES = ("B", "H", "S", "D")
Change = Callable[[torch.Tensor], torch.Tensor]


def noise(*size: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


def mapped(change: Change, shape: tuple[int, ...] = SHAPE, axes: tuple[str, ...] = AXES, **options: object) -> ErrorMap:
    """The map of an output that is the reference, rounded to half, and then changed."""
    want = noise(*shape)
    got = change(want.half().double().clone())
    bad = ~((got - want).abs() <= 2e-3)
    found = error_map(got, want, bad, limit="error above 0.002", axes=axes, roundoff=2.0**-11, **options)
    assert found is not None
    return from_json(ErrorMap, json.loads(json.dumps(found, allow_nan=False)), "error map")


def at(*index: object, value: float | None = None) -> Change:
    """Noise, or ``value``, at ``index``."""

    def change(x: torch.Tensor) -> torch.Tensor:
        x[index] = x[index] + 10 + noise(*x[index].shape) if value is None else value
        return x

    return change


def rows(picked: list[int]) -> Change:
    return at(slice(None), slice(None), picked)


ALL = slice(None)
PLACES = {
    "partial tile": (
        rows([128, 129]),
        "S 128-129 of every B, H, D: 768 of 49920 elements",
        "S 128-129 is the partial last tile (130 = 128 + 2, tiles of 8 or 16 or 32 or 64 or 128): unmasked padding, or a bounds check "
        "of the load or the store",
    ),
    "one tile and one fragment": (
        at(ALL, ALL, slice(32, 64), slice(16, 32)),
        "S 32-63 and D 16-31 of every B, H: 3072 of 49920 elements",
        "S 32-63 is a whole tile or warp's part (32 wide): its offset, its copy or the barrier before it",
    ),
    "one warp's stripe": (
        rows([i for i in range(130) if 16 <= i % 64 < 32]),
        "S 16-31 of every 64 of every B, H, D: 12288 of 49920 elements",
        "S 16-31 of every 64 is one warp's stripe or one fragment's: a missing __syncwarp or __syncthreads between its store and the "
        "read, or a wrong warp offset",
    ),
    "every other strip of columns": (
        at(ALL, ALL, ALL, [i for i in range(64) if i % 32 >= 16]),
        "D 16-31 of every 32 of every B, H, S: 24960 of 49920 elements",
        "D 16-31 of every 32 is one warp's stripe or one fragment's: a missing __syncwarp or __syncthreads between its store and the "
        "read, or a wrong warp offset",
    ),
    "one fragment of columns": (
        at(ALL, ALL, ALL, slice(16, 32)),
        "D 16-31 of every B, H, S: 12480 of 49920 elements",
        "D 16-31 is one fragment's or one warp's part of a tile: its offset, its copy or the barrier before it",
    ),
    "one head": (at(ALL, 2), "H 2 of every B, S, D: 16640 of 49920 elements", "only H 2: a wrong index, offset or scale for that H"),
    "right for the first batch only": (
        at(1),
        "B 1 of every H, S, D: 24960 of 49920 elements",
        "right for B 0 only: the offset or stride of B is left out or computed from the wrong sizes",
    ),
    "right for the first head of the first batch only": (
        lambda x: torch.cat([x[:1, :1].flatten(0, 1), x.flatten(0, 1)[1:] + 10 + noise(5, 130, 64)]).view(SHAPE),
        "B·H 1-5 of every S, D: 41600 of 49920 elements",
        "right for B·H 0 only: the offset or stride of B·H is left out or computed from the wrong sizes",
    ),
    "one place": (
        at(1, 2, 7, 3),
        "B 1, H 2, S 7 and D 3: 1 of 49920 elements",
        "very few elements: one thread's store or index, or a race for these places",
    ),
    "first row": (rows([0]), "S 0 of every B, H, D: 384 of 49920 elements", "only S 0: a wrong index, offset or scale for that S"),
    "NaN in a warp's rows of one head": (
        at(0, 1, slice(16, 32), value=math.nan),
        "B 0, H 1 and S 16-31 of every D: 1024 of 49920 elements (all NaN or infinite)",
        "NaN: memory read before it was written (missing barrier or wait, a row never loaded, a read past a buffer: see the sanitizer "
        "gate), infinity - infinity, or 0/0 (a row with nothing unmasked)",
    ),
    "overflow": (
        at(ALL, ALL, 5, 5, value=math.inf),
        "S 5 and D 5 of every B, H: 6 of 49920 elements (all NaN or infinite)",
        "infinity: overflow of fp16 (beyond 65504) in a stored intermediate, or a division by zero",
    ),
    "rows by the data": (
        lambda x: torch.where(noise(2, 3, 130, 1) > 0.5, x + 10 + noise(*SHAPE), x),
        "245 of 780 rows, scattered over S 0-7, 9-21, 23-24, 26 and others (115 of 130) of every B, H, D: 15680 of 49920 elements",
        "whole rows with no pattern in their index, so it depends on the data: a running value of the row (maximum, sum, rescaling of "
        "the accumulator when the maximum rises) rather than an index",
    ),
    "single elements": (
        lambda x: torch.where(noise(*SHAPE) > 2, x + 10 + noise(*SHAPE).flip(0), x),
        None,
        "scattered single elements: a race between threads, or rounding in few steps too coarse for these values",
    ),
    "a lower precision": (
        lambda x: x + 0.01 * noise(*SHAPE).flip(2),
        None,
        "small errors (1.1% of the values): a lower precision on the way, such as accumulation in fp16 or an operand rounded too "
        "early, or a biased rounding",
    ),
    "all of it": (
        lambda x: x + noise(*SHAPE).flip(2),
        "everywhere: 49849 of 49920 elements",
        "everything is off (by 100% of the values) and no simple factor: an operand transposed or from the wrong index, a tile skipped "
        "or counted twice, a running sum not rescaled",
    ),
}
LIKE = {
    "scaled": (lambda x: x / 8, "scaled by 0.125 (1/8): a scale factor or the final division is missing, doubled or wrong"),
    "a little scaled": (lambda x: x * (1023 / 1020), "scaled by 1.003: a scale factor or the final division is missing, doubled or wrong"),
    "scaled by an axis": (lambda x: x * 64, "scaled by 64 = size of D: a scale factor or the final division is missing, doubled or wrong"),
    "a factor a head": (
        lambda x: x * torch.tensor([1.0, 2.0, 0.5]).view(1, 3, 1, 1),
        "a factor for each H, 0.5 to 2: the scale of another H is used, or a scale of each H is missing",
    ),
    "a factor a row": (
        lambda x: x * (2 + noise(2, 3, 130, 1) ** 2),
        "a factor for each S, 2 to 11.97: each row's own factor is wrong, such as the final division by its sum or the rescaling of "
        "its accumulator",
    ),
    "zeros": (lambda x: x * 0, "zeros where values belong: never accumulated, multiplied by a zero factor, or not stored"),
    "constant": (lambda x: x * 0 + 0.25, "one constant, 0.25: initialised and never computed, or one element broadcast"),
    "offset": (lambda x: x + 3, "off by the constant 3: a term added twice or left out, an accumulator that does not start at zero"),
    "mean of the rows": (
        lambda x: x.mean(dim=2, keepdim=True).expand_as(x).clone(),
        "the same for every S: the index along S does not reach the computation, or weights are all equal",
    ),
    "rows shifted": (lambda x: x.roll(1, 2), "shifted by -1 along S (got[i] = expected[i - 1]): a start index or a pointer off by 1"),
    "rows of the next tile": (
        lambda x: torch.cat([x[:, :, 32:], x[:, :, :32]], 2),
        "shifted by 32 along S (got[i] = expected[i + 32]): a start index or a pointer off by 32",
    ),
    "heads swapped": (lambda x: x[:, [1, 0, 2]], "values of another H (0 <- 1, 1 <- 0): a wrong index or offset along H"),
    "batch ignored": (lambda x: x[[0, 0]], "values of another B (1 <- 0): a wrong index or offset along B"),
    "another layout": (
        lambda x: x.permute(0, 2, 1, 3).reshape(SHAPE),
        "the right values in the layout B, S, H, D: strides of the store, or of the loads, in the wrong order",
    ),
    "transposed": (
        lambda x: x.transpose(2, 3).reshape(SHAPE),
        "the right values in the layout B, H, D, S: strides of the store, or of the loads, in the wrong order",
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_place(name: str) -> None:
    change, line, cause = PLACES[name]
    found = mapped(change)
    assert line is None or map_line(found) == line
    assert causes(found)[0] == cause


@pytest.mark.parametrize("name", LIKE)
def test_likeness(name: str) -> None:
    change, cause = LIKE[name]
    assert causes(mapped(change))[0] == cause


@pytest.mark.parametrize("relative", [None, 1e12])
def test_an_error_of_values_near_zero_has_no_share_of_them(relative: float | None) -> None:
    found = replace(mapped(PLACES["all of it"][0]), relative=relative)
    assert causes(found)[0].startswith("everything is off and no simple factor: ")


def test_an_output_of_one_axis() -> None:
    found = mapped(lambda x: x.roll(-1), (1000,), ())
    assert causes(found)[0] == "shifted by 1 along axis 0 (got[i] = expected[i + 1]): a start index or a pointer off by 1"
    assert map_line(mapped(at(slice(960, 1000)), (1000,), ())) == "axis 0 960-999: 40 of 1000 elements"


def test_a_single_number() -> None:
    found = mapped(lambda x: x + 1, (), ())
    assert map_line(found) == "everywhere: 1 of 1 elements" and len(found.first) == 1


def test_strays_do_not_blur_the_map() -> None:
    def change(x: torch.Tensor) -> torch.Tensor:
        x[0, 0, 3, 5] += 1
        return rows(list(range(64, 96)))(x)

    assert map_line(mapped(change)) == "S 64-95 of every B, H, D: 12289 of 49920 elements (1 stray ones elsewhere)"


def test_first_elements() -> None:
    found = mapped(at(1, 2, 7, slice(3, 12), value=0.5))
    assert [one.index for one in found.first] == [(1, 2, 7, column) for column in range(3, 8)]
    assert elements_line(found).startswith("[1, 2, 7, 3] 0.5 instead of ")
    assert mapped(at(1, 2, 7, 3, value=math.nan)).first[0].got == "nan"


def test_known_wrong_answers_are_named_and_made_only_for_a_wrong_output() -> None:
    want = noise(*SHAPE)
    asked = []

    def answer(name: str, values: torch.Tensor) -> Callable[[], torch.Tensor]:
        return lambda: asked.append(name) or values

    partly = torch.where(torch.arange(130).view(1, 1, 130, 1) % 2 == 0, want.flip(2), torch.nan)
    others = {"of another shape": answer("a", want[0]), "negated": answer("b", -want), "rows from the end": answer("c", partly)}
    found = mapped(lambda x: x.flip(2), others=others)
    assert asked == ["a", "b", "c"]
    assert causes(found)[0] == "the values are those of: rows from the end"
    assert error_map(want, want, torch.zeros(SHAPE, dtype=torch.bool), limit="", others=others) is None and len(asked) == 3


def test_a_wrong_answer_that_raises_is_passed_over() -> None:
    def broken() -> torch.Tensor:
        raise RuntimeError("shapes")

    assert causes(mapped(lambda x: -x, others={"broken": broken}))[0].startswith("scaled by -1:")


def test_schema_is_that_of_the_record() -> None:
    from make_schemas import _of

    path = schema_path("correctness")
    assert json.loads(path.read_text(encoding="utf-8"))["$defs"]["ErrorMap"] == _of(ErrorMap)


@pytest.mark.parametrize("wrong", [{"axes": []}, {"bad": 0}, {"nonfinite": 9}, {"likenesses": [{"kind": "magic", "residual": 0.0}]}])
def test_a_map_that_contradicts_itself_is_refused(wrong: dict[str, object]) -> None:
    want = noise(4, 4)
    good = error_map(want + 1, want, torch.eye(4).bool(), limit="x")
    with pytest.raises(GatesError):
        from_json(ErrorMap, {**good, **wrong}, "map")


def test_old_evidence_without_maps_still_loads() -> None:
    path = DATA / "runs" / "h100_stage2" / "correctness.json"
    evidence = from_json(CorrectnessEvidence, json.loads(path.read_text(encoding="utf-8")), "old")
    assert evidence.runner == "" and all(output.error_map is None for case in evidence.cases for output in case.outputs)


def test_a_wrong_stride_leaves_row_0_right() -> None:
    assert causes(mapped(lambda x: torch.where(torch.arange(130).view(1, 1, -1, 1) > 0, x + 10 + noise(*SHAPE), x)))[0].startswith(
        "right for S 0 only"
    )


def test_an_output_that_is_not_half_did_not_overflow_it() -> None:
    found = mapped(at(ALL, ALL, 5, 5, value=math.inf))
    assert "fp16" in causes(found)[0] and "fp16" not in causes(found, half=False)[0]


def test_nothing_is_told_after_a_known_answer_and_no_guess_after_a_race() -> None:
    everything = mapped(lambda x: x + noise(*SHAPE).flip(2))
    assert causes(everything, differs=True) == ("a race, or memory read before it is written: equal calls give different values",)
    broken = torch.arange(math.prod(SHAPE)).view(SHAPE).double()
    assert len(causes(mapped(lambda x: broken, others={"another answer": broken}))) == 1


def test_values_that_look_equal_get_more_digits() -> None:
    assert "4.401 instead of 4.403" in _both(4.401, 4.403) and _both(4.4010001, 4.4010002) == "4.4010001 instead of 4.4010002"
    assert _both(1.0, 1.0) == "1 instead of 1" and _both("nan", 4.4) == "nan instead of 4.4"
