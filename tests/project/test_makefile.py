"""make's targets for stages and rungs follow the folders under tasks/."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest
from places import ROOT

TASKS = [path.parent.name for path in (ROOT / "tasks").glob("*/task.yaml")]


def make(*arguments: str) -> str:
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "ARGS")}  # as from a shell
    done = subprocess.run(
        ["make", "VENV=none", "PYTHON=python3", *arguments], cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_task_has_a_target_and_help_names_it() -> None:
    told = make("help")
    for task in TASKS:
        target = task if task.startswith("fp16_") else task.split("_")[0]
        assert make("-n", target, "ARGS=--profile cpu").split("\n")[-2] == f"'python3' -m gates run {target} --profile cpu"
        assert target in told or target.startswith("stage")
    stages = sorted(task.split("_")[0] for task in TASKS if task.startswith("stage"))
    assert f"{stages[0]} … {stages[-1]} " in told


def test_a_ladder_is_all_of_its_rungs_in_order() -> None:
    commands = make("-n", "fp16")
    rungs = sorted((task for task in TASKS if task.startswith("fp16_v")), key=lambda task: int(task.split("_")[1][1:]))
    assert f"for task in {' '.join(rungs)}; do 'python3' -m gates run $task" in commands
    assert "for task in stage0 stage1 stage2 stage3" in make("-n", "stages")


@pytest.mark.parametrize("folder", ["/x/a b", "/x/qu'o\"te", "/x/#;&|(ü)*", "/x/back`quote\\"])
def test_any_folder_is_one_word_of_the_shell(folder: str) -> None:
    commands = [shlex.split(line) for line in make("-n", "compare", f"VENV={folder}", f"BASE={folder}", "CAND=it's").splitlines()]
    assert commands[0] == ["python3", "scripts/setup_venv.py", "--venv", folder]
    assert commands[-1] == [f"{folder}/bin/python", "-m", "gates", "compare", folder, "it's"]


def test_check_is_lint_types_and_tests_and_ci_calls_it() -> None:
    commands = [line.split(" -m ")[1] for line in make("-n", "check").splitlines()]
    assert [command.split()[0] for command in commands] == ["ruff", "ruff", "mypy", "pytest"]
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").endswith("\nmake check\n")
