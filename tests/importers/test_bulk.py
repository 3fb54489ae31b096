"""A suite in one go: one table, resumed where it ended."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest
from places import DATA

from gates.core.errors import GatesError
from gates.importers import bulk, folder, kernelbench

PROBLEMS = DATA / "imports" / "kernelbench"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of tasks that would be written."""
    names: list[str] = []

    def write(imported: folder.Imported, directory: Path, name: str, limit_s: float) -> folder.Made:
        names.append(name)
        return folder.Made(
            directory / name, directory / f"{name}_reference", "", {}, {"given": "needs about 40 GiB"} if "half" in name else {}, []
        )

    monkeypatch.setattr(folder, "write", write)
    return names


def test_each_problem_has_a_line_and_only_new_ones_are_imported(tmp_path: Path, written: list[str]) -> None:
    suite, out = tmp_path / "level1", tmp_path / "out"
    suite.mkdir()
    for number, name in enumerate(("p_attr", "p_half"), start=2):
        shutil.copy(PROBLEMS / f"{name}.py", suite / f"{number}_{name}.py")
    (suite / "10_broken.py").write_text("class Model: pass\n")
    rows, table = bulk.run(kernelbench, suite, None, out, 60)
    assert [row.problem for row in rows] == ["2_p_attr.py", "3_p_half.py", "10_broken.py"] and written == [
        "level1_2_p_attr",
        "level1_3_p_half",
    ]
    assert [row.status for row in rows] == ["imported", "imported", "refused"] and rows[1].reason == "given needs about 40 GiB"
    assert "does not define get_inputs" in rows[2].reason
    assert [line["task"] for line in csv.DictReader(table.open())] == ["level1_2_p_attr", "level1_3_p_half", ""]
    (suite / "2_p_attr.py").write_text((suite / "2_p_attr.py").read_text() + "\n")
    assert [row.task for row in bulk.run(kernelbench, suite, None, out, 60)[0]] == ["level1_2_p_attr", "level1_3_p_half", ""]
    assert written[2:] == ["level1_2_p_attr"], "its bytes have changed"


def test_solutions_go_with_the_problem_of_their_name(tmp_path: Path, written: list[str]) -> None:
    for model in ("one", "two"):
        (tmp_path / model).mkdir()
        shutil.copy(PROBLEMS / "s_half.py", tmp_path / model / "p_half.py")
    rows, _ = bulk.run(kernelbench, PROBLEMS, tmp_path, tmp_path / "out", 60)
    assert [row.solution for row in rows] == ["one/p_half.py", "two/p_half.py"]
    assert written == ["kernelbench_p_half_one", "kernelbench_p_half_two"]
    said: list[str] = []
    bulk.run(kernelbench, PROBLEMS, tmp_path / "one", tmp_path / "out", 60, said.append)
    assert f"left out: p_attr.py has no solution of its name in {tmp_path / 'one'}" in said
    with pytest.raises(GatesError, match="no problem with a solution"):
        bulk.run(kernelbench, tmp_path / "one", tmp_path / "out", tmp_path / "more", 60)


def test_a_problem_that_cannot_be_handled_at_all_is_a_refused_row(
    tmp_path: Path, written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load, write = kernelbench.load, folder.write

    def fails(problem: Path, solution: Path | None) -> folder.Imported:
        return load(problem, solution) if problem.name != "p_attr.py" else [][problem]  # type: ignore[call-overload]

    def fails_to_write(imported: folder.Imported, directory: Path, name: str, limit_s: float) -> folder.Made:
        return write(imported, directory, name, limit_s) if "half" not in name else {}[name]

    monkeypatch.setattr(kernelbench, "load", fails)
    monkeypatch.setattr(folder, "write", fails_to_write)
    rows, _ = bulk.run(kernelbench, PROBLEMS, None, tmp_path / "out", 60)
    told = {row.problem: (row.status, row.reason) for row in rows}
    assert told["p_attr.py"][0] == told["p_half.py"][0] == "refused" and told["p_softmax_v0.py"] == ("imported", "")
    assert told["p_attr.py"][1].startswith("TypeError: list indices") and told["p_half.py"][1].startswith("KeyError: ")


def test_the_problems_own_model_is_its_solution() -> None:
    assert kernelbench.load(PROBLEMS / "p_half.py", None).candidate.kind == "python"


def test_solutions_are_found_as_kernelbench_s_runs_name_them(tmp_path: Path, written: list[str]) -> None:
    suite, run = tmp_path / "level1", tmp_path / "runs" / "mine"
    suite.mkdir()
    run.mkdir(parents=True)
    for number in (2, 12):
        shutil.copy(PROBLEMS / "p_half.py", suite / f"{number}_half.py")
    for level, number, sample in ((1, 2, 0), (1, 2, 1), (2, 2, 0), (1, 12, 0)):
        shutil.copy(PROBLEMS / "s_half.py", run / f"level_{level}_problem_{number}_sample_{sample}_kernel.py")
    bulk.run(kernelbench, suite, run.parent, tmp_path / "out", 60)
    assert written == [
        f"level1_{number}_half_mine_level_1_problem_{number}_sample_{sample}" for number, sample in ((2, 0), (2, 1), (12, 0))
    ]
