"""``gates evaluate --watch``: what is watched, when a change counts, and how it ends."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from places import TASKS

from gates.cli import evaluate
from gates.cli.main import cli
from gates.core.errors import GatesError
from gates.evaluation import watch
from gates.evaluation.watch import Watched


@pytest.fixture
def task(tmp_path: Path) -> Path:
    shutil.copytree(TASKS, tmp_path / "tasks", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "tasks" / "saxpy_fast"


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has the pauses of a wait make one edit each; Ctrl-C comes after the last."""

    def plan(*edits: Callable[[], object]) -> None:
        left = list(edits)

        def pause(_: float) -> None:
            if not left:
                raise KeyboardInterrupt
            left.pop(0)()

        monkeypatch.setattr(watch.time, "sleep", pause)

    return plan


def nothing() -> None:
    pass


@pytest.mark.parametrize("name", ["saxpy.cu", "saxpy_fast/task.yaml", "saxpy_problem.py"])
def test_a_file_of_the_task_that_is_saved_ends_the_wait(task: Path, between: Callable[..., None], name: str) -> None:
    path, watched = task.parent / name, Watched(str(task))
    assert path.is_file()
    between(nothing, lambda: path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8"), nothing)
    watched.wait()
    watched.read()
    between(nothing)
    with pytest.raises(KeyboardInterrupt):
        watched.wait()


def test_files_of_others_do_not(task: Path, between: Callable[..., None]) -> None:
    watched = Watched(str(task))
    between(lambda: (task.parent / "notes.txt").write_text("new", encoding="utf-8"), nothing)
    with pytest.raises(KeyboardInterrupt):
        watched.wait()


def test_a_file_that_is_written_in_steps_is_judged_when_it_is_whole(task: Path, between: Callable[..., None], tmp_path: Path) -> None:
    mine, seen = tmp_path / "mine.cu", list[str]()
    watched = Watched(str(task), [mine])
    steps = [lambda text=text: (mine.write_text(text, encoding="utf-8"), seen.append(text)) for text in ("a", "ab", "abc")]
    between(*steps, nothing, lambda: seen.append("too late"))
    watched.wait()
    assert seen == ["a", "ab", "abc"]


def test_a_change_during_a_judgement_is_not_lost(task: Path, between: Callable[..., None]) -> None:
    watched = Watched(str(task))
    (task.parent / "saxpy.cu").write_text("// other\n", encoding="utf-8")
    between(nothing)
    watched.wait()


def test_a_task_that_can_not_be_read_is_watched_until_it_can(task: Path, between: Callable[..., None]) -> None:
    watched, settings = Watched(str(task)), task / "task.yaml"
    whole = settings.read_text(encoding="utf-8")
    settings.write_text("kernel: [", encoding="utf-8")
    watched.read()
    between(lambda: settings.write_text(whole, encoding="utf-8"), nothing)
    watched.wait()


def test_a_file_that_the_task_names_before_it_is_there_ends_the_wait(task: Path, between: Callable[..., None]) -> None:
    watched, settings = Watched(str(task)), task / "task.yaml"
    settings.write_text(settings.read_text(encoding="utf-8").replace("[saxpy.cu]", "[new.cu]"), encoding="utf-8")
    watched.read()
    between(nothing, lambda: (task.parent / "new.cu").write_text("// new", encoding="utf-8"), nothing)
    watched.wait()


def test_saves_without_end_are_judged_all_the_same(task: Path, between: Callable[..., None]) -> None:
    source, watched = task.parent / "saxpy.cu", Watched(str(task))
    between(*[lambda number=number: source.write_text("/" * number, encoding="utf-8") for number in range(2, 30)])
    watched.wait()


def test_a_task_that_can_not_be_read_at_first_is_an_error(task: Path) -> None:
    (task / "task.yaml").write_text("kernel: [", encoding="utf-8")
    done = CliRunner().invoke(cli, ["evaluate", str(task), "--watch"])
    assert isinstance(done.exception, GatesError) and "task.yaml" in done.exception.what


def judged(monkeypatch: pytest.MonkeyPatch, *answers: int | GatesError) -> list[str]:
    """The texts that are judged, by a judge with these exit codes or errors."""
    texts, left = list[str](), list(answers)

    def judge(task: str, replacing: dict[str, Path], *_: Any) -> int:
        texts.append(replacing["saxpy.cu"].read_text(encoding="utf-8"))
        answer = left.pop(0)
        if isinstance(answer, GatesError):
            raise answer
        return answer

    monkeypatch.setattr(evaluate, "_judge", judge)
    return texts


def test_each_save_is_judged_and_the_last_answer_gives_the_exit_code(
    task: Path, tmp_path: Path, between: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine.cu"
    mine.write_text("first", encoding="utf-8")
    texts = judged(monkeypatch, 0, GatesError("no such thing", hint="make it"), 1)
    save = [lambda text=text: mine.write_text(text, encoding="utf-8") for text in ("second", "the third")]
    between(save[0], nothing, save[1], nothing)
    done = CliRunner().invoke(cli, ["evaluate", str(task), "--watch", "--source", f"saxpy.cu={mine}"])
    assert texts == ["first", "second", "the third"] and done.exit_code == 1
    assert done.stderr.count("error: no such thing\nhint: make it\n") == 1 and done.stderr.count("Ctrl-C to stop") == 3


def test_stdin_can_not_be_watched(task: Path) -> None:
    done = CliRunner().invoke(cli, ["evaluate", str(task), "--watch", "--source", "saxpy.cu=-"])
    assert isinstance(done.exception, GatesError) and "stdin" in done.exception.what
