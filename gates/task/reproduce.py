"""What a failing case tells of its task: how a user starts the runner, and where the limits are."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from gates.task.load import DEBUG_FLAG, Task


def runner_command(task: Task) -> str:
    """``USE_X=1 python tasks/stage3/runner.py``: from the current folder, with the toggles that were set from outside, and as a debug build
    if it is one.

    The path is relative, so that it holds on another machine where the task lies in the same place; so is that of
    an interpreter in an environment of the current folder, and any other is ``python``.
    """
    toggles = [f"{name}={value}" for name, value in sorted(task.overrides.items())]
    if task.debug_build:
        toggles.append(f"NVCC_APPEND_FLAGS={DEBUG_FLAG}")
    return " ".join([*toggles, _python(), shlex.quote(os.path.relpath(task.folder / "runner.py"))])


def limit_places(task: Task) -> dict[str, str]:
    """Where task.yaml has each limit on errors: ``{"max_abs_err": "task.yaml:18"}``."""
    return {name: task.place("gates", "correctness", name) for name in task.gates["correctness"]}


def _python() -> str:
    found, here = Path(sys.prefix) / "bin" / "python", Path.cwd()
    environment = sys.prefix != sys.base_prefix and found.is_relative_to(here) and found.exists()
    return shlex.quote(str(found.relative_to(here))) if environment else "python"
