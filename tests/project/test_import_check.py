"""The study of imported problems: its wrong solutions are wrong in what they say, and its table says what the gate said."""

from __future__ import annotations

import csv
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import import_check
import pytest
import torch
from click.testing import CliRunner
from places import DATA, ROOT

from gates.core.errors import GatesError
from gates.core.records import Status
from gates.importers import folder, kernelbench

sys.path.insert(0, str(ROOT / "scripts" / "docs"))

import imports_page  # noqa: E402

PROBLEMS = DATA / "imports" / "kernelbench"
RIGHT = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("zeros", [[0, 0, 0], [0, 0, 0]]),
        ("mean", [[2.5, 2.5, 2.5], [2.5, 2.5, 2.5]]),
        ("one_off", [[0, 1, 7], [3, 4, 5]]),
    ],
)
@pytest.mark.parametrize("several", [False, True])
def test_a_wrong_solution_is_the_right_one_changed(name: str, expected: list[list[float]], several: bool) -> None:
    module: dict[str, Any] = {"torch": torch, "run": lambda value: (value.T.contiguous().T, value) if several else value}
    exec(import_check.CHANGED.format(wrong=import_check.WRONG[name]), module)
    first, *others = module["run"](RIGHT.clone())
    assert first.tolist() == expected
    assert [other.tolist() for other in others] == ([RIGHT.tolist() if name == "one_off" else expected] if several else [])


def test_one_element_off_in_other_formats() -> None:
    module: dict[str, Any] = {"torch": torch, "run": lambda value: value}
    exec(import_check.CHANGED.format(wrong=import_check.WRONG["one_off"]), module)
    for kind in (torch.float8_e4m3fn, torch.float16, torch.int32):
        assert (module["run"](torch.ones(9).to(kind))[0].float() != 1).nonzero().tolist() == [[3]]
    assert module["run"](torch.ones(0))[0].numel() == 0


def evidence(status: str, digest: str) -> Any:
    return SimpleNamespace(cases=[SimpleNamespace(status=status, output_sha256=digest)])


@pytest.mark.parametrize(
    ("status", "code", "digest", "expected"),
    [
        (Status.PASS, "", "other", "pass"),
        (Status.PASS, "", "right", "same"),
        (Status.PASS, "", "", "pass"),
        (Status.FAIL, "correctness.x", "right", "fail correctness.x"),
        (Status.INCONCLUSIVE, "correctness.too_weak", "other", "hold correctness.too_weak"),
    ],
)
def test_a_value_is_what_the_gate_says(status: Status, code: str, digest: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_check, "judge", lambda *_: SimpleNamespace(status=status, code=code))
    own, right = evidence("ok", digest), evidence("ok", "right" if digest else "")
    assert import_check.value(own, right, {}) == expected
    assert all(import_check.value(evidence(late, ""), right, {}) == "time" for late in ("timeout", "missing"))


def test_a_right_solution_passes_and_wrong_ones_are_refused(tmp_path: Path) -> None:
    found = import_check.checked(kernelbench.load(PROBLEMS / "p_attr.py", None), "p_attr", 60)
    assert found.pop("reference") == "pass" and set(found) == set(import_check.WRONG)
    assert all(said.startswith("fail correctness.max_") for said in found.values()), found


def test_what_is_not_imported_is_told_and_what_has_no_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise GatesError("its reference differs\nfrom call to call")

    monkeypatch.setattr(folder, "write", refuse)
    imported = kernelbench.load(PROBLEMS / "p_attr.py", None)
    assert import_check.checked(imported, "p_attr", 60) == {"reference": "not imported: its reference differs from call to call"}
    assert import_check.checked(imported, "p_attr", 0) == {"reference": "time"}


def test_only_new_problems_are_judged_again_and_rows_are_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []
    monkeypatch.setattr(import_check, "checked", lambda _, label, limit_s: judged.append(label) or {"reference": "pass"})
    suite, out = tmp_path / "level1", tmp_path / "table.csv"
    suite.mkdir()
    for name in ("10_p_attr", "2_p_half"):
        shutil.copy(PROBLEMS / f"{name.partition('_')[2]}.py", suite / f"{name}.py")
    (suite / "3_broken.py").write_text("class Model: pass\n")
    command = ["kernelbench", str(suite), "--out", str(out)]
    assert CliRunner().invoke(import_check.main, command).exit_code == 0
    rows = import_check.read(out)
    assert [row.problem for row in rows] == ["2_p_half.py", "3_broken.py", "10_p_attr.py"] and len(judged) == 2
    assert rows[1].reference.startswith("not imported: ") and rows[0].reference == "pass"
    (suite / "10_p_attr.py").write_text((suite / "10_p_attr.py").read_text() + "\n")
    CliRunner().invoke(import_check.main, command)
    assert judged[2:] == ["level1_10_p_attr"] and import_check.read(out)[:2] == rows[:2]


def row(name: str, *values: str) -> import_check.Row:
    return import_check.Row(name, "0", *values)


def test_the_page_counts_what_passes_and_what_is_refused(tmp_path: Path) -> None:
    table, checked = tmp_path / "suite.csv", tmp_path / "checked"
    table.write_text("problem,status\na,imported\nb,imported\nc,imported\nd,refused\n")
    assert imports_page.suite(table) == "- suite: 3 of 4 problems."
    checked.mkdir()
    rows = [
        row("a", "pass", "fail x", "same", "fail x"),
        row("b", "fail x", "pass", "hold y", "fail x"),
        row("c", "time"),
        row("d", "not imported: no"),
    ]
    import_check.write(checked / "suite.csv", rows)
    told = "50 % of 2 right solutions pass, 75 % of 4 wrong ones fail, 6 are undecided."
    assert imports_page.suite(table) == f"- suite: 3 of 4 problems; {told}"


TABLES = sorted((ROOT / "studies" / "imports" / "checked").glob("*.csv"))


@pytest.mark.parametrize("checked", TABLES, ids=lambda path: path.stem)
def test_a_recorded_table_agrees_with_the_page_and_the_table_of_imports(checked: Path) -> None:
    rows = import_check.read(checked)
    with (checked.parent.parent / checked.name).open(encoding="utf-8", newline="") as file:
        known = {line["problem"]: line["sha256"] for line in csv.DictReader(file)}
    assert all(known[row.problem] in (row.sha256, "") for row in rows)
    right = [row.reference.split(" ")[0] for row in rows]
    wrong = [getattr(row, name).split(" ")[0] for row in rows for name in import_check.WRONG]
    assert "fail" not in right and "pass" not in wrong, "a defect of the importer or the gate"
    assert not [row for row in rows if "launch_error" in f"{row.zeros} {row.mean} {row.one_off}"], "a solution that does not run"
    page = (ROOT / "docs" / "start" / "import.md").read_text(encoding="utf-8")
    assert f"100 % of {right.count('pass')} right solutions pass, 100 % of {wrong.count('fail')} wrong ones fail" in page
