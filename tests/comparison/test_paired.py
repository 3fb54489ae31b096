"""Before and after of the kernel that was timed, whatever it is called on either side."""

from __future__ import annotations

import dataclasses

import pytest
from places import RECORDED

from gates.comparison import paired
from gates.evidence.judging import load_evidence
from gates.evidence.run_directory import list_runs
from gates.review.compare import compare_runs

V8, V9 = (list_runs(RECORDED / "h200" / task)[-1] for task in ("fp16_v8_tiles", "fp16_v9_pipeline"))


@pytest.fixture(scope="module")
def sides() -> tuple[dict, dict]:
    return load_evidence(V8), load_evidence(V9)


def rows(before: dict, after: dict) -> dict[str, tuple]:
    return {row.name: (row.baseline, row.candidate) for row in paired.rows(before, after, None)}


def test_two_stages_of_other_names_are_put_side_by_side_on_one_screen() -> None:
    text = compare_runs(V8, V9).markdown(folded=False)
    table = text.partition("## The timed kernel")[2]
    assert 12 <= table.count("\n| ") - 2 <= 16 and text.count("\n") < 62 and "missing" not in text
    assert "| registers | per thread | 126 | 163 | +37 |" in table and "| tensor pipe | % | 5.87 | 21.63 |" in table
    folded = compare_runs(V8, V9).markdown()
    assert "Compiled resources: 36 rows, 0 differ, 36 on one side only" in folded, [
        line for line in folded.splitlines() if "<summary>" in line
    ]


def test_without_counters_it_is_the_kernel_that_the_timed_shape_launched(sides: tuple[dict, dict]) -> None:
    before, after = ({**side, "ncu": None} for side in sides)
    assert rows(before, after) == {}, "several instances are launched, and nothing says by which shape"
    one = dataclasses.replace(sides[0]["ptxas"], kernels=tuple(k for k in sides[0]["ptxas"].kernels if "<64, false>" in k.demangled))
    found = rows({**before, "ptxas": one}, {**after, "ptxas": one})
    assert found["registers"] == (126, 126) and "tensor pipe" not in found
    assert rows({**before, "ptxas": one}, {**after, "ptxas": None}) == {}
