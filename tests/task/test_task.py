"""task.yaml: every fault is named with file, line and key; toggles come from outside as whole numbers only."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from places import TASKS
from task_kit import GOOD, write

from gates.cli.main import cli
from gates.core.errors import GatesError
from gates.task.load import find_task, load_baseline, load_task


def error_of(folder: Path, **options: object) -> GatesError:
    with pytest.raises(GatesError) as caught:
        load_task(folder, **options)
    assert caught.value.exit_code == 2
    return caught.value


def test_a_good_file_loads(tmp_path: Path) -> None:
    task = load_task(write(tmp_path), environ={})
    assert (task.name, task.toggles, task.seeds, task.overrides) == ("demo", {"USE_FAST": 0}, (0, 1), {})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"problme": "x"}, "unknown key 'problme' (did you mean problem?)"),
        ({"seeds": [0, 0]}, "seeds: [0, 0] has non-unique elements"),
        ({"seeds": [-1]}, "seeds.0: -1 is less than the minimum of 0"),
        ({"arch": ["sm89"]}, "arch.0: 'sm89' does not match"),
        ({"toggles": {"USE_FAST": "yes"}}, "toggles.USE_FAST: must be a whole number, not 'yes'"),
        ({"title": 12}, "title: must be text, not 12"),
        ({"title": True}, "title: must be text, not true"),
        ({"gates": {**GOOD["gates"], "performance": None}}, "gates.performance: must be keys with values, not an empty value"),
        ({"gates": {"ptxas": GOOD["gates"]["ptxas"]}}, "missing key 'gates.correctness'"),
        ({"sources": ["../k.cu"]}, "sources.0: '../k.cu' does not match"),
        ({"sources": ["/etc/passwd"]}, "sources.0: '/etc/passwd' does not match"),
        ({"nvcc_flags": ["-O3\n"]}, "nvcc_flags.0"),
        ({"not_applicable": {"correctness": "x"}}, "unknown key 'not_applicable.correctness'"),
        (
            {"gates": {**GOOD["gates"], "ncu": {"rises": ["tensor_pip"]}}},
            "gates.ncu.rises: unknown name 'tensor_pip' (did you mean tensor_pipe",
        ),
        ({"gates": {**GOOD["gates"], "sass": {"forbid": ["local_memry"]}}}, "unknown name 'local_memry'"),
        ({"name": "other"}, "name is 'other', but the folder is 'demo'"),
        ({"sources": ["absent.cu"]}, "source 'absent.cu' does not exist"),
        ({"not_applicable": {"speed": "x"}}, "unknown key 'not_applicable.speed'"),
    ],
)
def test_a_fault_names_file_line_and_key(tmp_path: Path, changes: dict, expected: str) -> None:
    error = error_of(write(tmp_path, "demo", **changes), environ={})
    assert expected in error.what
    assert "task.yaml:" in error.what


def test_a_folder_of_tasks_names_them(tmp_path: Path) -> None:
    write(tmp_path, "slow"), write(tmp_path, "fast")
    assert error_of(tmp_path).hint == "tasks in it: fast, slow"


def test_all_faults_of_a_file_are_named_at_once(tmp_path: Path) -> None:
    error = error_of(write(tmp_path, problme="x", seeds=[]), environ={})
    assert len(error.what.splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: [unclosed\n", "task.yaml:2:1: not valid YAML"),
        ("\tname: x\n", "task.yaml:1:1: not valid YAML"),
        ("- a\n- b\n", "the file: must be keys with values, not a list"),
        ("", "the file: must be keys with values, not an empty value"),
        ("name: a\ntitle: b\nname: c\n", "task.yaml:3: key 'name' appears twice, first at line 1"),
        ("name: a\ntoggles: {NULL: 0}\n", "task.yaml:2: the key NULL is not text"),
        ("name: &a [x, x]\ntitle: [*a, *a]\n", "holds an alias"),
        ("name: a\ntime_limit_s: .nan\n", "task.yaml:2: .nan is not a finite number"),
        ('name: a\ntitle: "\\ud800"\n', "task.yaml:2: text that is not Unicode"),
    ],
)
def test_broken_yaml(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in error_of(write(tmp_path, text=text), environ={}).what


def test_a_limit_given_twice_deep_down(tmp_path: Path) -> None:
    folder = write(tmp_path)
    text = (folder / "task.yaml").read_text().replace("max_smem_bytes: 65536", "max_smem_bytes: 65536\n    max_registers: 255")
    error = error_of(write(tmp_path, text=text), environ={})
    assert "key 'max_registers' appears twice" in error.what


@pytest.mark.parametrize("text", ["abc", "1.5", "-1", "9999999999", "true", "٣", "0x1", "1 2"])
def test_a_toggle_that_is_no_whole_number(tmp_path: Path, text: str) -> None:
    error = error_of(write(tmp_path), environ={"USE_FAST": text})
    assert f"environment variable USE_FAST={text!r}" in error.what
    assert "0 to 2147483647" in error.hint


def test_toggle_overrides(tmp_path: Path) -> None:
    folder = write(tmp_path)
    assert load_task(folder, environ={"USE_FAST": ""}).overrides == {}  # empty is unset
    assert load_task(folder, environ={"USE_FAST": " 1"}).overrides == {"USE_FAST": 1}
    assert load_task(folder, environ={"USE_FAST": "0"}).overrides == {}  # the task's own value
    assert load_task(folder, {"USE_FAST": "2"}, environ={"USE_FAST": "1"}).toggles == {"USE_FAST": 2}
    assert load_task(folder, {"USE_FAST": "2"}, environ={"USE_FAST": "junk"}).toggles == {"USE_FAST": 2}  # not asked
    with pytest.raises(GatesError, match="no such toggle") as caught:
        load_task(folder, {"USE_FSAT": "1"}, environ={})
    assert caught.value.hint == "did you mean USE_FAST?"
    with pytest.raises(GatesError, match="no such toggle") as caught:
        load_task(write(tmp_path, toggles={}), {"USE_FAST": "1"}, environ={})
    assert caught.value.hint == "it has none; `toggles: {USE_FAST: 1}` in it declares one, a macro for its CUDA sources"


def test_an_override_changes_the_digest(tmp_path: Path) -> None:
    folder = write(tmp_path)
    assert load_task(folder, environ={}).digest() != load_task(folder, {"USE_FAST": "1"}, environ={}).digest()


def test_baselines(tmp_path: Path) -> None:
    first, second = write(tmp_path, "first"), write(tmp_path, "second", baseline="first")
    assert load_baseline(load_task(first, environ={})) is None
    assert load_baseline(load_task(second, environ={})).name == "first"
    write(tmp_path, "first", baseline="second")
    with pytest.raises(GatesError, match="circular baselines: second -> first -> second"):
        load_baseline(load_task(second, environ={}))
    write(tmp_path, "second", baseline="frist")
    for command in ("run", "build"):
        with pytest.raises(GatesError, match=r"second/task.yaml:\d+: baseline 'frist' is not a task") as caught:
            CliRunner().invoke(cli, [command, str(second), "--build-dir", str(tmp_path / "build")], catch_exceptions=False)
        assert caught.value.hint == "did you mean first?"


def test_an_unknown_task_suggests_the_nearest() -> None:
    with pytest.raises(GatesError, match="no task called 'stagee2'") as caught:
        find_task("stagee2")
    assert "stage2" in caught.value.hint


def test_a_folder_of_tasks_lists_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(TASKS, tmp_path / "my_rows")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GatesError) as caught:
        find_task("my_rows")
    assert caught.value.hint.startswith("tasks in it: ") and "saxpy_fast, saxpy_slow" in caught.value.hint
