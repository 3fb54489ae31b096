"""What the hint of a failing check says of sizes: those of wrong and of right shapes, and the rule between them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gates.core.records import Check, Status
from gates.gate.correctness.evidence import Case, OutputErrors
from gates.gate.correctness.failing_sizes import sentence, with_sizes


def lengths(*sizes: int) -> list[dict[str, int]]:
    return [{"N": size} for size in sizes]


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        (lengths(1, 1021, 33), lengths(4, 1024, 64), "wrong where N is not a multiple of 4: 1, 33, 1021; right for 4, 64, 1024"),
        (lengths(36, 1, 36), lengths(64, 8), "wrong where N is not a multiple of 8: 1, 36; right for 8, 64"),
        (lengths(1, 33), lengths(2, 64), "wrong where N is not a multiple of 2: 1, 33; right for 2, 64"),
        (lengths(300, 1028), lengths(256, 512), "wrong where N is not a multiple of 8: 300, 1028; right for 256, 512"),
        (lengths(2048, 1025), lengths(1, 1024), "wrong where N is above 1024: 1025, 2048; right for 1, 1024"),
        (lengths(1, 4), lengths(33, 64), "wrong where N is below 33: 1, 4; right for 33, 64"),
        (lengths(64, 128), lengths(33, 1000001), "wrong where N is a multiple of 4: 64, 128; right for 33, 1000001"),
        (lengths(64, 7), lengths(33, 12), "wrong for N 7, 64; right for 12, 33"),
        (lengths(*range(1, 24, 2)), lengths(4), "wrong where N is not a multiple of 4: 1, 3, 5, 7, 9, 11, 13, 15 and 4 more; right for 4"),
        (
            [{"B": 1, "S": 33}, {"B": 2, "S": 17}],
            [{"B": 1, "S": 64}, {"B": 2, "S": 32}],
            "wrong where S is not a multiple of 4: 17, 33; right for 32, 64",
        ),
        (
            [{"R": 7, "C": 33}, {"R": 9, "C": 5}],
            [{"R": 8, "C": 64}, {"R": 512, "C": 4}],
            "wrong where R is not a multiple of 4 (7, 9; right for 8, 512) or where C is not a multiple of 4 (5, 33; right for 4, 64)",
        ),
        (lengths(500), lengths(32), "wrong where N is above 32: 500; right for 32"),
        (
            [{"B": 1, "S": 33}, {"B": 2, "S": 64}],
            [{"B": 1, "S": 64}, {"B": 2, "S": 33}],
            "wrong for B=1 S=33, B=2 S=64; right for B=1 S=64, B=2 S=33",
        ),
        (lengths(1), [], ""),
        ([], lengths(1), ""),
        ([{"N": 1}], [{"M": 4}], ""),
        ([{}], [{}], ""),
    ],
)
def test_the_sentence_names_the_sizes_and_the_rule(wrong: list[dict[str, int]], right: list[dict[str, int]], said: str) -> None:
    assert sentence(wrong, right) == said


def judged(
    size: int, status: Status = Status.PASS, code: str = "correctness.max_abs_err", seed: int = 0, **more: Any
) -> tuple[Case, list[Check]]:
    output = OutputErrors("out", "float32", size, 0, 0.0, 0.0, 0.0, (), None, None, 1.0, 1.0, 2.0**-24)
    case = Case(f"n{size}", seed, "headline", "ok", "", outputs=(output,), **{"sizes": {"N": size}, **more})
    figures = [
        Check(
            name, status, 1.0, 1.0, "", case.where, code if status is not Status.PASS else "", "it is off." if status is Status.FAIL else ""
        )
        for name in ("max_abs_err", "mean_abs_err")
    ]
    return case, figures


def hints(*cases: tuple[Case, list[Check]], weak: frozenset[Any] = frozenset()) -> list[str]:
    return [check.hint for _, found in with_sizes(list(cases), weak) for check in found if check.status is Status.FAIL]


def test_the_first_failing_check_of_each_wrong_case_has_it_beside_what_it_says() -> None:
    said = "it is off. In the judged cases it is wrong where N is not a multiple of 4: 33, 1021; right for 64."
    assert hints(judged(33, Status.FAIL), judged(64), judged(1021, Status.FAIL)) == [said, "it is off."] * 2


@pytest.mark.parametrize(
    "other",
    [
        judged(64, inputs="zero_rows"),
        judged(64, Status.INCONCLUSIVE),
        judged(64, sizes={}),
        judged(33, seed=1),
    ],
    ids=["other_inputs", "inconclusive", "an_earlier_run", "the_same_shape"],
)
def test_only_judged_cases_with_ordinary_inputs_count(other: tuple[Case, list[Check]]) -> None:
    assert hints(judged(33, Status.FAIL), other) == ["it is off."] * 2
    assert "right for 64" in hints(judged(33, Status.FAIL), judged(64), other)[0]


def test_a_weak_case_is_not_right_and_a_fault_of_another_kind_is_not_of_a_size() -> None:
    weak = judged(64)
    assert hints(judged(33, Status.FAIL), weak, weak=frozenset({weak[0].key})) == ["it is off."] * 2
    assert hints(judged(33, Status.FAIL, "correctness.stale_answer"), judged(64)) == ["it is off."] * 2
    zeros = judged(33, Status.FAIL, inputs="zeros")
    assert hints(zeros, judged(64)) == ["it is off."] * 2


def test_a_case_with_a_race_says_nothing_of_its_size() -> None:
    """A race may show at any size, and is not looked for in large buffers: another size is not right for that."""
    case, (first, second) = judged(33, Status.FAIL)
    race = replace(first, code="correctness.race_global")
    assert hints((case, [race, second]), judged(64)) == ["it is off."] * 2
    assert hints((case, [first, race]), judged(64)) == ["it is off."] * 2
