"""The mutation study on a module of three lines: what is killed, what survives, what is tried again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import mutation
import pytest

SOURCE = "def half(value):\n    shown = value / 2\n    return shown\n"
CHANGES = {(2, 0): ("value / 2", "value * 2"), (2, 1): ("value / 2", "value / 2.0"), (3, 0): ("return shown", "return shown +")}


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with a package, its test and a plan; the changes are not cosmic-ray's."""
    for name, text in {
        "toy/__init__.py": "",
        "toy/halves.py": SOURCE,
        "tests/test_halves.py": "from toy.halves import half\n\n\ndef test_half() -> None:\n    assert half(3) == 1.5\n",
        "tests/test_wrong.py": "def test_that_fails() -> None:\n    assert not 'without any change'\n",
        "pyproject.toml": "[tool.pytest.ini_options]\n",
        "plan.yaml": "all: tests\ntests:\n  toy/halves.py: -k 'half or fails'\nreasons: {}\n",
    }.items():
        path = tmp_path / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    places = [mutation.Mutant("toy/halves.py", line, column, "an operator", 0) for line, column in CHANGES]
    monkeypatch.setattr(mutation, "mutants", lambda module, text: places)
    monkeypatch.setattr(mutation.Mutant, "source", lambda one, text: text.replace(*CHANGES[one.line, one.column]))
    monkeypatch.setattr(mutation, "PRELOADED", ())
    return tmp_path / "checkout"


def run(toy: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> int:
    arguments = ["run", "--root", toy, "--plan", toy / "plan.yaml", "--out", toy.parent / "record.json", "--jobs", "1", *more]
    monkeypatch.setattr(sys, "argv", ["mutation.py", *map(str, arguments)])
    return mutation.main()


def test_what_a_test_notices_is_killed(toy: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(toy, monkeypatch) == 1 and "3 changes, 1 survived, 1 of them without a reason" in capfd.readouterr().out
    data = json.loads((toy.parent / "record.json").read_text(encoding="utf-8"))
    assert {(row["line"], row["column"]): row["outcome"] for row in data["rows"]} == {
        (2, 0): "killed",
        (2, 1): "survived",
        (3, 0): "killed",
    }
    assert [row.get("change") for row in data["rows"] if row["column"] == 1] == ["shown = value / 2 -> shown = value / 2.0"]
    assert run(toy, monkeypatch) == 1
    tried = [line for line in capfd.readouterr().err.splitlines() if "toy/halves.py" in line]
    assert len(tried) == 1 and "survived" in tried[0], "only what survived is tried again"
    page = mutation.page(data, mutation.read_plan(toy / "plan.yaml"))
    assert "`toy` 2/3." in page and "66.7 %" in page and "For 0 of the 1 others `studies/mutation.yaml` says why" in page


def test_the_time_may_be_over(toy: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(toy, monkeypatch, "--budget-s", "0") == 1 and "0 changes, 0 survived" in capfd.readouterr().out


def test_the_modules_and_tests_of_the_plan_exist() -> None:
    for module, tests in mutation.read_plan(mutation.PLAN)["tests"].items():
        named = [module, *(name.partition("::")[0] for name in tests.partition(" -k ")[0].split())]
        assert all((mutation.ROOT / name).exists() for name in named), named


def test_cosmic_ray_s_changes_of_a_line() -> None:
    pytest.importorskip("cosmic_ray")
    found = mutation.mutants("a.py", "x = 1 + 2\n")
    assert found and all(one.source("x = 1 + 2\n") != "x = 1 + 2\n" for one in found)
    assert mutation.drawn(found, 2, 1) == mutation.drawn(found, 2, 1) and len({one.column for one in mutation.drawn(found, 9, 1)}) > 1
