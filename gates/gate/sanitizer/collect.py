"""Run a kernel under memory checkers: the emulator build under AddressSanitizer and UBSan, or the device
library under compute-sanitizer's four tools. The engine's side: it never imports torch.

The cases are written once by a runner with torch; each checked process replays them without it, so
that nothing but the task's own kernel and buffers is looked at.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gates.core.errors import EXIT_CHECKER, GatesError
from gates.launch.replay import write_memory_cases
from gates.task.problem import DEFAULT_INPUTS
from gates.worker import process
from gates.worker.job import Attempt, attempt

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
ORDERS = ("forward", "reversed", "shuffled")
_LAUNCHES = 2
_MAX_LOG_CHARACTERS = 200_000
_REPORT, _MAX_REPORTS = re.compile(r"^.{0,1000}(?:runtime error: |ERROR: AddressSanitizer).{0,1000}$", re.MULTILINE), 100
# Settings of torch's allocator that make memcheck report addresses it does not know.
_NEUTRALISED = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")


def run_sanitizer_emulator(
    side: Mapping[str, Any],
    shapes: Sequence[str],
    *,
    work: Path,
    limit_s: float,
    compiler: str = "g++",
    cases: Sequence[Mapping[str, Any]] | None = None,
    python: str = sys.executable,
) -> dict[str, Any]:
    """Raw record of the sanitized emulator library ``side``, for ``gates.gate.sanitizer.evidence.parse``.

    The smallest of ``shapes`` and the odd shapes, in three thread orders, a process each, and structured values in one process; if
    that finds something, in a process each. ``cases`` are their files where ``write_memory_cases`` has made them already.
    """
    raw = _raw("emulator", side, compiler)
    runtime = _asan_runtime(compiler)
    if runtime is None:
        return {**raw, "unavailable": f"{compiler} has no libasan.so", "remedy": "install g++ with its sanitizer libraries"}
    work.mkdir(parents=True, exist_ok=True)
    cases = cases or write_memory_cases(side, shapes, on_device=False, work=work, limit_s=limit_s, python=python)
    env = {
        **_environment(),
        "LD_PRELOAD": runtime,
        # Python leaks by design; fibers switch stacks, which the use-after-return check does not follow.
        "ASAN_OPTIONS": f"detect_leaks=0:detect_stack_use_after_return=0:exitcode={EXIT_CHECKER}",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }

    def checked(of: Sequence[Mapping[str, Any]], order: str, name: str) -> dict[str, Any]:
        tried = _replay(side, of, work, f"asan.{name}.{order}", limit_s, python, order=order, env=env)
        return _run("asan", of, order, tried, _logs(work, f"asan.{name}.{order}.log"))

    structured = [case for case in cases if case.get("inputs", DEFAULT_INPUTS) != DEFAULT_INPUTS]
    raw["runs"] = [checked([case], order, case["shape"]) for case in cases if case not in structured for order in ORDERS]
    if structured:
        together = checked(structured, ORDERS[0], "values")
        clean = together["attempt"]["returncode"] == 0 and not _REPORT.search(together["log"])
        raw["runs"] += [together] if clean else [checked([case], ORDERS[0], f"{case['shape']}.{case['inputs']}") for case in structured]
    return raw


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
    LARGEST_ON_DEVICE_BYTES and the odd shapes, all in one process a tool; ``cases`` are their files where
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
    for name in TOOLS:
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
        raw["runs"].append(_run(name, cases, "", tried, _logs(work, log.name)))
    return raw


def _replay(
    side: Mapping[str, Any],
    cases: Sequence[Mapping[str, Any]],
    work: Path,
    name: str,
    limit_s: float,
    python: str,
    *,
    env: Mapping[str, str],
    prefix: Sequence[str] = (),
    order: str = "forward",
    device: str = "cuda:0",
) -> Attempt:
    job = {
        "kind": "case",
        "mode": "replay",
        "side": dict(side),
        "paths": [case["path"] for case in cases],
        "launches": _LAUNCHES,
        "order": order,
        "device": device,
    }
    return attempt(Path(side["folder"]), job, work, limit_s=limit_s, name=name, python=python, prefix=prefix, env=env)


def _raw(mode: str, side: Mapping[str, Any], tool: str | None) -> dict[str, Any]:
    return {
        "kind": "sanitizer",
        "mode": mode,
        "target": side["name"],
        "tool_version": _version(tool) if tool else "",
        "neutralised": [name for name in _NEUTRALISED if name in os.environ],
        "unavailable": "",
        "remedy": "",
        "runs": [],
    }


def _run(tool: str, cases: Sequence[Mapping[str, Any]], order: str, tried: Attempt, log: str) -> dict[str, Any]:
    shapes = [" ".join([case["shape"], *({case.get("inputs", DEFAULT_INPUTS)} - {DEFAULT_INPUTS})]) for case in cases]
    return {
        "tool": tool,
        "shapes": shapes,
        "order": order,
        "expected_launches": _LAUNCHES * len(cases),
        "attempt": tried.record(),
        "log": log,
    }


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _NEUTRALISED}


def _logs(work: Path, *patterns: str) -> str:
    """What the checker wrote, its files one after another, shortened in the middle if it is huge, but for lines that begin a report.

    AddressSanitizer and UBSan report where the kernel prints, too, from where nothing can be taken back: a kernel can only add findings.
    """
    paths = [path for pattern in patterns for path in sorted(work.glob(pattern))]
    text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in paths)
    if len(text) > _MAX_LOG_CHARACTERS:
        half = _MAX_LOG_CHARACTERS // 2
        reports = _REPORT.findall(text, half, len(text) - half)[:_MAX_REPORTS]
        text = "\n".join([text[:half], f"[… {len(text) - 2 * half} characters left out …]", *reports, text[-half:]])
    return text


def _asan_runtime(compiler: str) -> str | None:
    """The path of the compiler's libasan.so; the compiler echoes the bare name where it has none."""
    if shutil.which(compiler) is None:
        return None
    done = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, timeout=30)
    path = done.stdout.strip()
    return os.path.realpath(path) if os.path.isabs(path) else None


def _version(tool: str) -> str:
    """The line of ``tool --version`` that holds a number, or an empty string."""
    try:
        finished = process.run([tool, "--version"], limit_s=30)
    except GatesError:
        return ""
    lines = [line.strip() for line in finished.output.splitlines() if any(letter.isdigit() for letter in line)]
    versions = [line for line in lines if "version" in line.lower()] or lines
    return versions[0][:120] if versions else ""
