"""Scalars of task.yaml are those of YAML 1.2's core schema; what is no number where one is wanted is an error with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from task_kit import write

from gates.core import yamlio
from gates.core.errors import GatesError
from gates.review.rejudge import changed_limits
from gates.task.load import load_task

VALUES = [
    ("1e-3", 0.001),
    ("1E5", 1e5),
    ("2.e-3", 0.002),
    ("-.5e1", -5.0),
    ("+.25", 0.25),
    ("1.", 1.0),
    ("010", 10),
    ("-007", -7),
    ("0o10", 8),
    ("0x1F", 31),
    ("1_000", "1_000"),
    ("1:30", "1:30"),
    ("0b11", "0b11"),
    ("no", "no"),
    ("Yes", "Yes"),
    ("on", "on"),
    ("y", "y"),
    ("True", True),
    ("FALSE", False),
    ("tRUE", "tRUE"),
    ("~", None),
    ("null", None),
    ("", None),
    ("nULL", "nULL"),
    ("2001-01-01", "2001-01-01"),
    ("1e", "1e"),
    ("1.2.3", "1.2.3"),
    ("0o8", "0o8"),
    ("'010'", "010"),
    ("<<", "<<"),
    ("=", "="),
    ("１", "１"),
]


@pytest.mark.parametrize(("text", "expected"), VALUES)
def test_scalars(tmp_path: Path, text: str, expected: object) -> None:
    (tmp_path / "x.yaml").write_text(f"a: {text}\nb: [{text or 'null'}]\n", encoding="utf-8")
    data, _ = yamlio.load(tmp_path / "x.yaml")
    assert data == {"a": expected, "b": [expected]} and type(data["a"]) is type(expected)
    assert yamlio.value(text) == expected


def test_a_task_with_numbers_as_people_write_them(tmp_path: Path) -> None:
    folder = write(tmp_path)
    text = (folder / "task.yaml").read_text().replace("max_abs_err: 0.1", "max_abs_err: 1e-3").replace("- 1\n", "- 010\n")
    task = load_task(write(tmp_path, text=text), environ={})
    assert task.gates["correctness"]["max_abs_err"] == 0.001 and task.seeds == (0, 10)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("max_registers: 128", "max_registers: 1_28", "gates.ptxas.max_registers: must be a whole number, not '1_28'"),
        ("- 1\n", "- 1:30\n", "seeds.1: must be a whole number, not '1:30'"),
        ("USE_FAST: 0", "USE_FAST: no", "toggles.USE_FAST: must be a whole number, not 'no'"),
        ("bad_pct: 1.0", "bad_pct: 1,0", "gates.correctness.bad_pct: must be a number, not '1,0'"),
        ("max_registers: 128", "max_registers: !!int 1_28", "'1_28' is not a whole number"),
        ("bad_pct: 1.0", "<<: {bad_pct: 1.0}", "unknown key 'gates.correctness.<<'"),
    ],
)
def test_what_is_no_number_is_an_error_with_its_line(tmp_path: Path, before: str, after: str, expected: str) -> None:
    text = (write(tmp_path) / "task.yaml").read_text()
    assert before in text
    line = text[: text.index(before)].count("\n") + 1
    with pytest.raises(GatesError) as caught:
        load_task(write(tmp_path, text=text.replace(before, after)), environ={})
    assert expected in caught.value.what and (f"task.yaml:{line}" in caught.value.what or "!!int" in after), caught.value.what


def test_a_task_named_no_is_named_so(tmp_path: Path) -> None:
    text = (write(tmp_path, "no") / "task.yaml").read_text().replace("name: 'no'", "name: no")
    assert load_task(write(tmp_path, "no", text=text), environ={}).name == "no"


def test_a_setting_is_read_by_the_same_rules() -> None:
    limits = {"correctness": {"max_abs_err": 1.0, "mean_abs_err": 1.0, "bad_pct": 0.0, "bad_atol": 1.0}}
    assert changed_limits(limits, ["correctness.max_abs_err=1e-3"])[0]["correctness"]["max_abs_err"] == 0.001
    for text in ("1_0", "1:30", "*x", "[", ".nan", "no"):
        with pytest.raises(GatesError, match="--set correctness.max_abs_err"):
            changed_limits(limits, [f"correctness.max_abs_err={text}"])
