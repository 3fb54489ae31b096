"""What a shell completes: tasks, runs, reason codes."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner
from places import ROOT

from gates.cli.main import cli
from gates.cli.options import task_names
from gates.core.errors import GatesError


def completed(*words: str) -> list[str]:
    *before, incomplete = words
    return [item.value for item in BashComplete(cli, {}, "gates", "_GATES_COMPLETE").get_completions(before, incomplete)]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("run", "stage2"), "stage2_wmma_pv"),
        (("run", "stage"), "stage2"),
        (("decide", "recorded:h200/stage4"), "recorded:h200/stage4_mma"),
        (("explain", "performance.too"), "performance.too_slow"),
        (("explain", "ptx"), "ptxas"),
        (("selft",), "selftest"),
    ],
)
def test_names_are_completed(words: tuple[str, ...], wanted: str) -> None:
    assert wanted in completed(*words)


def test_runs_of_another_results_folder(tmp_path: Path) -> None:
    (tmp_path / "my_norm" / "20260101T000000Z-cpu").mkdir(parents=True)
    (tmp_path / "my_norm" / ".being-written").mkdir()
    found = completed("decide", "--results", str(tmp_path), "")
    assert found[0] == "latest:my_norm" and str(tmp_path / "my_norm" / "20260101T000000Z-cpu") in found
    assert not any("being-written" in name for name in found)


def test_every_task_and_run_argument_is_completed() -> None:
    named = {"task", "tasks", "run_directory", "run_directories", "runs", "code"}
    for name, command in cli.commands.items():
        for argument in command.params:
            if isinstance(argument, click.Argument) and argument.name in named and not isinstance(argument.type, click.Path):
                assert argument._custom_shell_complete is not None, f"gates {name} {argument.name}"


def test_a_folder_without_tasks_says_how_to_make_one_and_lists_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def listed() -> str:
        return CliRunner().invoke(cli, ["list"], catch_exceptions=False).output

    monkeypatch.chdir(tmp_path)
    shipped = listed()
    assert "stage2_wmma_pv" in shipped and "./" not in shipped
    monkeypatch.setattr("gates.task.load.task_folders", lambda: [])
    with pytest.raises(GatesError, match="no task folder in") as caught:
        listed()
    command = caught.value.hint.partition(" makes a task here")[0].split()
    assert CliRunner().invoke(cli, command[1:]).exit_code == 0
    assert [line.split()[:2] for line in listed().splitlines()] == [["./my_norm", "my_norm_eager"], ["./my_norm_eager", "-"]]
    assert {*task_names(None, None, "my_")} == {"my_norm", "my_norm_eager"}
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert listed().splitlines()[2:] == shipped.splitlines()
    Path("my_norm", "task.yaml").write_text("name: [")
    broken = CliRunner().invoke(cli, ["list"])
    assert isinstance(broken.exception, GatesError) and broken.output.splitlines()[1:] == shipped.splitlines()
    monkeypatch.chdir(ROOT / "tasks")
    assert [line.split()[0].removeprefix("./") for line in listed().splitlines()] == [line.split()[0] for line in shipped.splitlines()]
