"""What the tests of the correctness and sanitizer gates share: planted libraries, and a runner without a process."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from places import TASKS, TESTS

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.core.records import GateResult
from gates.gate.correctness import collect as run
from gates.gate.correctness import evidence as parse
from gates.gate.correctness import judge
from gates.launch import replay as cases
from gates.worker.job import KINDS, FinishedJob

DATA = TESTS / "data" / "correctness"
LIMITS = {"max_abs_err": 1e-5, "mean_abs_err": 1e-6, "bad_pct": 0.0, "bad_atol": 1e-5}


def compile_planted(folder: Path, *flags: str) -> Path:
    """planted.cpp as a library in ``folder``; it knows the first input element of seeds 0, 1 and 2."""
    import torch

    first = [float(torch.randn(1000, generator=torch.Generator().manual_seed(seed))[0]) for seed in range(3)]
    library = folder / "planted.so"
    subprocess.run(
        [
            "g++",
            "-shared",
            "-fPIC",
            "-O1",
            "-g",
            "-w",
            f"-DSEED_VALUES={','.join(f'{value!r}f' for value in first)}",
            f"-DSEED_1={first[1]!r}f",
            f"-DSEED_2={first[2]!r}f",
            *flags,
            str(DATA / "planted.cpp"),
            "-o",
            str(library),
        ],
        check=True,
        timeout=120,
    )
    return library


def side(library: Path, entry: str, folder: Path = TASKS / "saxpy_fast", problem: str = "saxpy_problem") -> dict[str, Any]:
    """A side of a job, as the engine would make it."""
    return {"name": entry, "library": str(library), "entry": entry, "folder": str(folder), "problem": problem, "emulated": True}


def task_folder(folder: Path, problem: str, text: str) -> Path:
    """A task folder with a runner and a problem module of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{problem}.py").write_text(text, encoding="utf-8")
    sys.modules.pop(problem, None)
    return folder


def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let jobs run in this process: quicker by torch's import, for kernels that don't crash."""

    def run_job(folder: Path, job: dict[str, Any], work: Path, *, name: str, **_: Any) -> FinishedJob:
        work.mkdir(parents=True, exist_ok=True)
        result = work / f"{name}.jsonl"
        path = work / f"{name}.job.json"
        jsonio.write(path, {**job, "nonce": "n0", "result": str(result)})
        code, cause = 0, "exit 0"
        try:
            importlib.import_module(KINDS[job["kind"]].module).execute(jsonio.read(path), folder)
        except GatesError as error:
            code, cause = error.exit_code, f"exit {error.exit_code}"
        return FinishedJob("n0", code, cause, False, 0.1, tuple(result.read_text().splitlines()), "")

    monkeypatch.setattr(run, "run_job", run_job)


def cases_here(
    monkeypatch: pytest.MonkeyPatch,
    candidate: dict[str, Any],
    shapes: list[str],
    folder: Path,
    most_bytes: int = 0,
    values: bool = False,
) -> list[dict[str, Any]]:
    """Case files to check the memory of, written by this process."""
    with monkeypatch.context() as patch:
        in_process(patch)
        patch.setattr(cases, "run_job", run.run_job)
        return cases.write_cases(candidate, shapes, work=folder, limit_s=60, smallest=True, most_bytes=most_bytes, values=values)


def gate(
    work: Path,
    candidate: dict[str, Any],
    *,
    limits: dict[str, Any] = LIMITS,
    shapes: tuple[str, ...] = ("small", "tail"),
    seeds: tuple[int, ...] = (0, 1, 2),
    **options: Any,
) -> tuple[parse.CorrectnessEvidence, GateResult]:
    """Run, parse and judge."""
    end = limits.get("end_to_end", {})
    raw = run.run_correctness(
        candidate,
        shapes,
        seeds,
        work=work,
        bad_atol=limits.get("bad_atol"),
        end_to_end_bad_atol=end.get("bad_atol"),
        **{"limit_s": 60, **options},
    )
    evidence = parse.parse(raw)
    return evidence, judge.judge(evidence, limits)
