"""How a user starts a task's runner, as the beginning of a command that replays one case."""

from __future__ import annotations

import os
import shlex

from gates.task import Task


def runner_command(task: Task) -> str:
    """``USE_X=1 python tasks/stage3/runner.py``: from the current folder, with the toggles that were set from outside.

    The path is relative, so that it holds on another machine where the task lies in the same place.
    """
    toggles = [f"{name}={value}" for name, value in sorted(task.overrides.items())]
    return " ".join([*toggles, "python", shlex.quote(os.path.relpath(task.folder / "runner.py"))])
