"""Run a kernel under memory checkers: on the emulator with every check, or the device library under
compute-sanitizer's four tools. The engine's side: it never imports torch.

The cases are written once by a runner with torch; each checked process replays them without it, so
that nothing but the task's own kernel and buffers is looked at.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from gates.core import jsonio
from gates.core.errors import EXIT_CHECKER, GatesError
from gates.gate.sanitizer.evidence import EMULATOR
from gates.launch.replay import write_memory_cases
from gates.task.problem import DEFAULT_INPUTS
from gates.worker import process
from gates.worker.job import FinishedJob, run_job

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
_LAUNCHES = 2
_MAX_LOG_CHARACTERS = 200_000
# Settings of torch's allocator that make memcheck report addresses it does not know.
_NEUTRALISED = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


def run_sanitizer_emulator(
    side: Mapping[str, Any],
    shapes: Sequence[str],
    *,
    work: Path,
    limit_s: float,
    cases: Sequence[Mapping[str, Any]] | None = None,
    python: str = sys.executable,
) -> dict[str, Any]:
    """Raw record of the emulator's library ``side`` with every check, for ``gates.gate.sanitizer.evidence.parse``.

    The smallest of ``shapes``, the odd shapes and structured values in one process; if that finds something or ends early, in a process
    each. ``cases`` are their files where ``write_memory_cases`` has made them already.
    """
    raw = _raw("emulator", side, None)
    work.mkdir(parents=True, exist_ok=True)
    cases = cases or write_memory_cases(side, shapes, on_device=False, work=work, limit_s=limit_s, python=python)

    def checked(of: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
        tried = _replay(side, of, work, f"checks.{name}", limit_s, python)
        return _run(EMULATOR, of, tried, "")

    together = checked(cases, "all")
    if len(cases) == 1 or _clean(together):
        raw["runs"] = [together]
    else:
        raw["runs"] = [checked([case], f"{case['shape']}.{case.get('inputs', DEFAULT_INPUTS)}") for case in cases]
    return raw


def _clean(run: Mapping[str, Any]) -> bool:
    lines = jsonio.carrying(run["job"]["nonce"], run["job"]["lines"])
    found = [line for line in lines if line.get("type") == "case" and (line["findings"] or line["error"])]
    return not found and any(line.get("type") == "done" for line in lines)


def run_sanitizer_device(
    side: Mapping[str, Any],
    shapes: Sequence[str],
    *,
    work: Path,
    limit_s: float,
    compute_sanitizer: str | None = None,
    device: str = "cuda:0",
    cases: Sequence[Mapping[str, Any]] | None = None,
    python: str = sys.executable,
) -> dict[str, Any]:
    """Raw record of the device library ``side`` under compute-sanitizer, for ``gates.gate.sanitizer.evidence.parse``.

    ``compute_sanitizer`` is the tool's path; None looks in PATH. The smallest of ``shapes``, the largest of at most
    LARGEST_ON_DEVICE_BYTES and the odd shapes, all in one process per tool, the tools side by side; ``cases`` are their files where
    ``write_memory_cases`` has made them already.
    """
    tool = compute_sanitizer or shutil.which("compute-sanitizer")
    raw = _raw("device", side, tool)
    if tool is None:
        return {
            **raw,
            "unavailable": "compute-sanitizer is not found",
            "remedy": "install the CUDA toolkit's compute-sanitizer, or the wheel nvidia-cuda-sanitizer-api",
        }
    work.mkdir(parents=True, exist_ok=True)
    cases = cases or write_memory_cases(side, shapes, on_device=True, work=work, limit_s=limit_s, python=python)

    def checked(name: str) -> dict[str, Any]:
        log = work / f"{name}.report"
        log.unlink(missing_ok=True)
        prefix = [
            tool,
            "--tool",
            name,
            "--error-exitcode",
            str(EXIT_CHECKER),
            "--log-file",
            str(log),
            "--print-limit",
            "0",
            "--report-api-errors",
            "explicit",
        ]
        if name == "memcheck":
            prefix += ["--padding", "512"]  # so that the byte after a buffer never belongs to the next one
        tried = _replay(side, cases, work, name, limit_s, python, prefix=prefix, env=_environment(), device=device)
        return _run(name, cases, tried, _logs(work, log.name))

    with process.ToolThreads(len(TOOLS)) as together:  # each is a process of its own that mostly waits for the device or one core
        raw["runs"] += together.map(checked, TOOLS)
    return raw


def _replay(
    side: Mapping[str, Any],
    cases: Sequence[Mapping[str, Any]],
    work: Path,
    name: str,
    limit_s: float,
    python: str,
    *,
    env: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    device: str = "cuda:0",
) -> FinishedJob:
    job = {
        "kind": "case",
        "mode": "replay",
        "side": dict(side),
        "paths": [case["path"] for case in cases],
        "launches": _LAUNCHES,
        "checked": True,
        "device": device,
    }
    return run_job(Path(side["folder"]), job, work, limit_s=limit_s, name=name, python=python, prefix=prefix, env=env)


def _raw(mode: str, side: Mapping[str, Any], tool: str | None) -> dict[str, Any]:
    return {
        "kind": "sanitizer",
        "mode": mode,
        "target": side["name"],
        "tool_version": _version(tool, os.stat(tool).st_mtime_ns) if tool else "",
        "neutralised": [name for name in _NEUTRALISED if tool and name in os.environ],
        "unavailable": "",
        "remedy": "",
        "runs": [],
    }


def _run(tool: str, cases: Sequence[Mapping[str, Any]], tried: FinishedJob, log: str) -> dict[str, Any]:
    shapes = [" ".join([case["shape"], *({case.get("inputs", DEFAULT_INPUTS)} - {DEFAULT_INPUTS})]) for case in cases]
    return {
        "tool": tool,
        "shapes": shapes,
        "order": "",
        "expected_launches": _LAUNCHES * len(cases),
        "job": tried.record(),
        "log": log,
    }


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _NEUTRALISED}


def _logs(work: Path, *patterns: str) -> str:
    """What the checker wrote, its files one after another, shortened in the middle if it is huge."""
    paths = [path for pattern in patterns for path in sorted(work.glob(pattern))]
    text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in paths)
    if len(text) > _MAX_LOG_CHARACTERS:
        half = _MAX_LOG_CHARACTERS // 2
        text = "\n".join([text[:half], f"[… {len(text) - 2 * half} characters left out …]", text[-half:]])
    return text


@cache
def _version(tool: str, _changed: int) -> str:
    """The line of ``tool --version`` that holds a number, or an empty string; asked once in this process for each state of its file."""
    try:
        finished = process.run([tool, "--version"], limit_s=30)
    except GatesError:
        return ""
    lines = [line.strip() for line in finished.output.splitlines() if any(letter.isdigit() for letter in line)]
    versions = [line for line in lines if "version" in line.lower()] or lines
    return versions[0][:120] if versions else ""
