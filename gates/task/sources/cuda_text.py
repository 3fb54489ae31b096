"""What a task's CUDA sources say, read as text: for what no launch could show on this machine."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gates.task.load import CUDA, EXTENSION, Task
from gates.task.sources import default_stream

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)
_DYNAMIC = re.compile(r"\bextern\b[^;{}]*(?:__shared__|\.shared\b)")  # the second in PTX written by hand
# Headers that define no kernel's shared memory: CUDA's own basic ones and CUB's without kernels, the C++ library's, and what bindings
# include of torch.
_PLAIN = re.compile(r"[^/]+|cub/(?:block|warp|thread)/.*|(?:cuda|nv|cooperative_groups|torch|c10|pybind11)/.*|ATen/(?!native/).*")


def texts(sources: Iterable[Path]) -> tuple[dict[Path, str], list[str]]:
    """The sources and the headers that they include from beside them, without comments, and the includes that lie elsewhere."""
    found: dict[Path, str] = {}
    elsewhere: dict[str, None] = {}
    waiting = [Path(source).resolve() for source in sources]
    while waiting:
        path = waiting.pop(0)
        if path in found:
            continue
        found[path] = _COMMENT.sub(_blank, path.read_text(encoding="utf-8", errors="replace"))
        for quoted, angled in _INCLUDE.findall(found[path]):
            name = quoted or angled
            beside = next((root / name for root in path.parents if (root / name).is_file()), None)
            if beside is not None:
                waiting.append(beside.resolve())
            elif not _PLAIN.fullmatch(name):
                elsewhere[name] = None
    return found, list(elsewhere)


def _blank(comment: re.Match[str]) -> str:
    return " " + "\n" * comment[0].count("\n")  # lines keep their numbers


def launches_without_stream(task: Task) -> list[str]:
    """Launches in the task's sources, and in what these include from beside them, that name no stream: ``file:line: kernel<<<…>>>``."""
    paths = texts(task.compiled)[0] if task.kind in (CUDA, EXTENSION) else task.sources
    names = {path: path.relative_to(task.folder).as_posix() if path.is_relative_to(task.folder) else path.name for path in paths}
    return default_stream.default_stream_launches(
        {name: path.read_text(encoding="utf-8", errors="replace") for path, name in names.items()}
    )


def declared_launches(task: Task) -> tuple[list[dict[str, Any]] | None, str]:
    """Launch records of the task's kernels where its sources leave no room for dynamic shared memory, and what that is known from.

    None, and what is missing, where a source declares dynamic shared memory or includes what can't be read: only a launch tells its size.
    """
    found, elsewhere = texts(task.compiled)
    for path, text in found.items():
        if match := _DYNAMIC.search(text):
            shown = " ".join(match[0].split())
            return None, f"{path.name} declares `{shown[-60:]}`, whose size only a launch shows: run the task on a CUDA device"
    if elsewhere:
        return (
            None,
            f"{', '.join(elsewhere[:3])} may declare dynamic shared memory, whose size only a launch shows: run the task on a CUDA device",
        )
    launch = {"block": None, "dynamic_smem_bytes": 0, "opt_in_smem_bytes": None, "static_smem_bytes": None}
    return [{"kernel": name, **launch} for name in task.kernels], "the sources declare no extern __shared__ memory, so there is none"
