"""``gates new``: what is written for each kind, what the next rung keeps, and that nothing is overwritten."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml
from places import ROOT, TASKS

from gates.cli.guard import guard
from gates.cli.main import cli
from gates.core.errors import GatesError
from gates.importers import folder
from gates.task.load import KINDS, WITHOUT_DEVICE, find_task, load_baseline, load_task
from gates.task.scaffold import TEMPLATES, new_task, next_rung, template


def command(arguments: list[str]) -> int:
    return guard(lambda: cli.main(arguments, standalone_mode=False))


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_a_whole_task_with_its_baseline(tmp_path: Path, kind: str) -> None:
    made = new_task("my_norm", kind, tmp_path)
    assert [path.name for path in made] == ["my_norm", "my_norm_eager", "my_norm_problem.py"]
    task = load_task(made[0], environ={})
    baseline = load_baseline(task)
    assert task.kind == kind and baseline.name == "my_norm_eager" and baseline.baseline is None
    assert task.problem_file() == baseline.problem_file() == made[2]
    assert task.shapes == baseline.shapes and task.seeds == baseline.seeds
    for path in tmp_path.rglob("*.*"):
        if path.is_file():
            assert "my_kernel" not in path.read_text(encoding="utf-8"), path


def test_every_kind_has_a_template() -> None:
    assert set(KINDS) == set(WITHOUT_DEVICE)
    assert set(KINDS) <= {path.name for path in TEMPLATES.iterdir()}


def test_files_of_a_new_task_say_what_to_change_first(tmp_path: Path) -> None:
    for kind in KINDS:
        task = load_task(new_task("a_" + kind.replace("-", "_"), kind, tmp_path)[0], environ={})
        for path in (task.folder / "task.yaml", *task.sources, task.problem_file()):
            assert "Change first" in path.read_text(encoding="utf-8"), path


def test_the_documented_toggle_is_that_of_a_new_task() -> None:
    page = (ROOT / "docs" / "start" / "your-kernel.md").read_text(encoding="utf-8")
    section = page.partition("## Toggles")[2].partition("\n## ")[0]
    files = template("cuda")
    for kind, file in (("yaml", "task.yaml"), ("cuda", "kernel.cu")):
        for line in re.search(rf"```{kind}\n(.*?)```", section, re.DOTALL)[1].splitlines():
            assert line in files[file], line


@pytest.mark.parametrize("name", ["My_norm", "1norm", "my-norm", "", "../norm", "a/b"])
def test_a_name_that_no_task_can_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(GatesError, match="can't be the name of a task"):
        new_task(name, "cuda", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["torch", "json", "yaml"])
def test_a_name_that_hides_a_module_is_refused(tmp_path: Path, name: str) -> None:
    first = load_task(new_task("my_norm", "cuda", tmp_path)[0], environ={})
    for make in (lambda: new_task(name, "cuda", tmp_path), lambda: next_rung(name, first), lambda: folder.task_name(name, "x")):
        with pytest.raises(GatesError, match=f"the name '{name}' is that of a Python module"):
            make()
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("there", ["my_norm", "my_norm_eager", "my_norm_problem.py"])
def test_nothing_is_overwritten(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine")
    with pytest.raises(GatesError, match="exists already"):
        new_task("my_norm", "triton", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [there] and (tmp_path / there).read_text() == "mine"


def test_a_folder_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GatesError, match="can't write"):
        new_task("my_norm", "cuda", tmp_path / "file" / "below")
    with pytest.raises(GatesError, match=r"can't write /proc: "):
        new_task("my_norm", "cuda", Path("/proc"))


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(GatesError, match=f"can't write {tmp_path}: No space left"):
        new_task("my_norm", "cuda", tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_next_rung_differs_in_name_title_and_baseline_alone(tmp_path: Path) -> None:
    first = load_task(new_task("my_norm", "cuda", tmp_path)[0], environ={})
    (first.folder / "__pycache__").mkdir()
    (first.folder / "helper.cuh").write_bytes(b"// caf\xe9 \xff\n")
    (made,) = next_rung("my_norm2", first)
    task = load_task(made, environ={})
    assert task.baseline == "my_norm" and load_baseline(task).name == "my_norm" and "say what it does" in task.title
    assert sorted(path.name for path in made.iterdir()) == ["build.py", "helper.cuh", "kernel.cu", "runner.py", "task.yaml"]
    for path in made.iterdir():
        if path.name != "task.yaml":
            assert path.read_bytes() == (first.folder / path.name).read_bytes()
    before, after = ((folder / "task.yaml").read_text().splitlines() for folder in (first.folder, made))
    changed = [re.split(r"\W", old)[0] for old, new in zip(before, after, strict=True) if old != new]
    assert changed == ["name", "title", "baseline"]


def test_the_rung_after_a_first_one_is_judged_by_speed_and_counters(tmp_path: Path) -> None:
    for name in ("saxpy.cu", "saxpy_problem.py"):
        (tmp_path / name).write_bytes((TASKS / name).read_bytes())
    first = tmp_path / "first"
    first.mkdir()
    text = (TASKS / "saxpy_slow" / "task.yaml").read_text().replace("saxpy_slow", "first")
    (first / "task.yaml").write_text(text.replace("gates:", "# budgets\ngates:").replace("  ncu: the", "  sanitizer: a reason\n  ncu: the"))
    task = load_task(next_rung("second", load_task(first, environ={}))[0], environ={})
    assert task.not_applicable == {"sanitizer": "a reason"} and task.baseline == "first"
    written = (task.folder / "task.yaml").read_text()
    assert "\n# budgets\n" in written and yaml.safe_load(written)["gates"] == yaml.safe_load(text)["gates"]
    third = load_task(next_rung("third", task)[0], environ={})
    assert third.not_applicable == task.not_applicable and third.baseline == "second"


@pytest.mark.parametrize("stage", ["stage0", "stage3", "fp16_v7_wmma_pv"])
def test_every_shipped_stage_can_be_the_rung_before(tmp_path: Path, stage: str) -> None:
    shipped = find_task(stage)
    copy = tmp_path / "tasks" / shipped.name
    copy.parent.mkdir()
    kernels = shipped.folder.parent.parent / "kernels"
    shutil.copytree(kernels, tmp_path / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    copy.mkdir()
    for name in ("task.yaml", "build.py", "runner.py"):
        (copy / name).write_bytes((shipped.folder / name).read_bytes())
    if shipped.baseline:
        (copy.parent / shipped.baseline).symlink_to(shipped.folder.parent / shipped.baseline)
    made, source = next_rung("next_one", load_task(copy, environ={}))
    task = load_task(made, environ={})
    assert task.baseline == shipped.name and task.gates == shipped.gates and task.toggles == shipped.toggles
    assert task.sources == (source,) and source == tmp_path / shipped.sources[0].relative_to(kernels.parent).with_name("next_one.cu")
    assert source.read_bytes() == shipped.sources[0].read_bytes()
    for script in ("build", "runner"):
        text = (made / f"{script}.py").read_text(encoding="utf-8")
        assert f"python -m tasks.next_one.{script}" in text and shipped.name not in text
    with pytest.raises(GatesError, match="exists already"):
        shutil.rmtree(made)
        next_rung("next_one", load_task(copy, environ={}))
    assert source.is_file() and not made.exists()
    assert not {"performance", "ncu"} & set(task.not_applicable)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(["new", "my_norm", "--kind", "triton", "--dir", "kernels"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "next: gates run ./kernels/my_norm"
    assert command(["new", "my_norm2", "--from", "kernels/my_norm"]) == 0
    assert load_task(tmp_path / "kernels" / "my_norm2", environ={}).baseline == "my_norm" and "shared" not in capsys.readouterr().out
    assert command(["new", "my_norm2", "--from", "kernels/my_norm"]) == 2
    assert "exists already" in capsys.readouterr().err


def test_a_source_that_both_rungs_have_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(TASKS, tmp_path / "tasks")
    assert command(["new", "saxpy_next", "--from", str(tmp_path / "tasks" / "saxpy_fast")]) == 0
    assert f"shared with saxpy_fast: {tmp_path}/tasks/saxpy.cu; to change it, copy it" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options", [[], ["--kind", "cuda", "--from", "stage2"], ["--kind", "hip"], ["--from", "no_such"], ["--from", "stage2", "--dir", "x"]]
)
def test_wrong_usage(tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["new", "x", *options]) == 2
    assert capsys.readouterr().err.startswith("error: ")
