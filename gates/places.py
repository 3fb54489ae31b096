"""Where in this checkout the kernels of a recorded task are defined."""

from __future__ import annotations

import re
from pathlib import Path

from gates.errors import GatesError
from gates.evidence import TaskInfo, project_root
from gates.task import Task, find_task


def source_places(info: TaskInfo) -> tuple[dict[str, tuple[str, int]], dict[str, str]]:
    """({kernel: (path, line)}, {file name: path}), relative to the project; empty where the checkout has another stage.

    Only the stage that was judged counts: its lines are those of a checkout with the same digest.
    """
    try:
        task = find_task(info.name, {name: str(value) for name, value in info.toggles.items()})
        if task.digest() != info.digest:
            return {}, {}
    except GatesError:
        return {}, {}
    root = project_root(task.folder)
    files = {path.name: _relative(path, root) for path in task.files() if path.suffix in (".cu", ".cuh", ".h", ".hpp")}
    return {name: place for name in task.kernels if (place := _definition(task, name, root))}, files


def _definition(task: Task, kernel: str, root: Path) -> tuple[str, int] | None:
    """The line on which ``kernel`` follows a __global__."""
    pattern = re.compile(rf"__global__[^;{{}}]*?\b({re.escape(kernel)})\s*\(")
    for path in task.files():
        if path.suffix in (".cu", ".cuh") and (found := pattern.search(path.read_text(encoding="utf-8", errors="replace"))):
            return _relative(path, root), found.string.count("\n", 0, found.start(1)) + 1
    return None


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
