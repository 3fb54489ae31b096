"""Helpers beside a task that have the names of Python's own modules: both work, each where it is meant."""

from __future__ import annotations

import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT, TASKS

from gates.core.errors import GatesError
from gates.diagnostics.lint import lint
from gates.task import problem

SHADOWS = ("random", "select", "types", "tempfile", "json", "copy", "socket")


def folder(tmp_path: Path) -> Path:
    """tests/tasks with files named like Python's modules beside saxpy_fast's problem and in its folder, and a helper that is imported."""
    tasks = tmp_path / "tasks"
    shutil.copytree(TASKS, tasks)
    for place in (tasks, tasks / "saxpy_fast"):
        for name in SHADOWS:
            (place / f"{name}.py").write_text("raise SystemError('not Python\\'s own')\n")
    (tasks / "levels.py").write_text("LEVEL = 3\n")
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "levels.py").write_text("LEVEL = 4\n")  # the task's own wins, as beside a script
    text = (tasks / "saxpy_problem.py").read_text()
    (tasks / "saxpy_problem.py").write_text(
        text.replace(
            "import torch\n", "import random\nimport levels\n\nimport torch\n\nassert levels.LEVEL == 3 and random.random() < 1\n", 1
        )
    )
    return tasks


def python(*arguments: str, cwd: Path, installed: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{installed}", "GATES_FORK": "0"}
    return subprocess.run([sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)


def test_a_fresh_process_finds_python_s_own_modules_and_the_task_s_helpers(tmp_path: Path) -> None:
    tasks = folder(tmp_path)
    code = (
        f"from pathlib import Path\nfrom gates.task import problem\nproblem.load('saxpy_problem', "
        f"Path({str(tasks / 'saxpy_fast')!r}))\nimport copy, select, socket"
    )
    done = python("-c", code, cwd=tmp_path, installed=tmp_path / "installed")
    assert done.returncode == 0, done.stderr


def test_the_command_works_in_a_folder_that_holds_them(tmp_path: Path) -> None:
    done = python("-m", "gates", "lint-task", ".", cwd=folder(tmp_path) / "saxpy_fast", installed=tmp_path / "installed")
    assert "hides Python's own module random" in done.stdout and "Traceback" not in done.stderr and done.returncode < 4, done.stderr


def test_lint_names_what_hides_a_module_and_nothing_else(tmp_path: Path) -> None:
    found = [line for line in lint(folder(tmp_path) / "saxpy_fast") if "hides Python's own" in line]
    assert len(found) == len(SHADOWS) and all("rename it" in line for line in found)
    assert not [line for line in lint(TASKS / "saxpy_fast") if "hides Python's own" in line]


def test_a_problem_named_like_one_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "random.py").write_text("SHAPES = {}\n")
    with pytest.raises(GatesError, match="problem 'random' has the name of a standard Python module"):
        problem.load("random", tmp_path)


def test_bytecode_beside_a_source_is_never_run(tmp_path: Path) -> None:
    """Python would take it, unchecked: of the module itself, of one in a package, and of one without a source."""
    for name in ("levels", "more/levels", "hidden"):
        path = tmp_path / "task" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("LEVEL = 4\n")
        py_compile.compile(str(path), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
        path.write_text("LEVEL = 3\n")
    py_compile.compile(str(path), str(path.with_suffix(".pyc")))
    path.unlink()
    (tmp_path / "task" / "more" / "__init__.py").touch()
    code = (
        f"from gates.core.python_path import add_folder\nadd_folder({str(tmp_path / 'task')!r})\nimport levels, "
        f"more.levels\nprint(levels.LEVEL, more.levels.LEVEL)\nimport hidden"
    )
    done = python("-c", code, cwd=tmp_path, installed=tmp_path / "task")
    assert done.stdout == "3 3\n" and "No module named 'hidden'" in done.stderr


@pytest.mark.parametrize("package", [None, "SIZE = 7\n"], ids=["no __init__.py", "with __init__.py"])
def test_a_task_s_folder_holds_its_problem_whatever_file_lies_beside_it(tmp_path: Path, package: str | None) -> None:
    """``relu.py``, of which the task was made, is no problem of ``relu/``. A package's own file still runs."""
    (tmp_path / "relu").mkdir()
    (tmp_path / "relu.py").write_text("SIZE = 7\n")
    size = "from relu import SIZE" if package else "SIZE = 7"
    (tmp_path / "relu" / "problem.py").write_text(f"{size}\nSHAPES = {{'one': {{'N': SIZE}}}}\nmake_inputs = reference = len\n")
    if package:
        (tmp_path / "relu" / "__init__.py").write_text(package)
    assert _sizes("relu.problem", tmp_path / "relu", tmp_path) == "7\n"


@pytest.mark.parametrize("inside", [False, True], ids=["the file itself", "an installed package"])
def test_a_folder_without_the_problem_is_not_its_package(tmp_path: Path, inside: bool) -> None:
    task, installed = tmp_path / "task", tmp_path / "installed"
    (task / "relu").mkdir(parents=True)
    (installed / "relu").mkdir(parents=True)
    place = installed / "relu" / "problem.py" if inside else task / "relu.py"
    place.write_text("SHAPES = {'one': {'N': 7}}\nmake_inputs = reference = len\n")
    (installed / "relu" / "__init__.py").write_text("")
    assert _sizes("relu.problem" if inside else "relu", task, installed) == "7\n"


def _sizes(name: str, at: Path, installed: Path) -> str:
    """The size of the problem's shape, as a process of its own loads it."""
    code = f"from pathlib import Path\nfrom gates.task import problem\nprint(problem.load({name!r}, Path({str(at)!r})).SHAPES['one']['N'])"
    done = python("-c", code, cwd=at, installed=installed)
    assert done.returncode == 0, done.stderr
    return done.stdout
