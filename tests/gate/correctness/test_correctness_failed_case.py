"""What a failing case shows: notes on its first failing check, and a command that replays just that case."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from correctness_kit import LIMITS, TASKS
from test_correctness_records import raw, result

from gates.core.records import Check, GateResult, Status
from gates.evidence.run_directory import portable
from gates.gate.correctness import evidence as parse
from gates.gate.correctness import judge
from gates.gate.correctness.runner.accuracy import figures
from gates.gate.correctness.runner.diagnose import with_maps
from gates.launch.side import Launched
from gates.render import console
from gates.render.compare import _faults
from gates.render.findings import findings
from gates.task.load import load_task
from gates.task.reproduce import runner_command
from gates.task.sources.files import project_root

WANT = torch.randn(8, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
ORDERS = ["forward", "reversed"]


def outputs_of(
    got: torch.Tensor,
    again: torch.Tensor | None = None,
    *,
    limits: dict[str, Any] = LIMITS,
    bound: float | None = None,
    case: dict[str, Any] | None = None,
    **problem: Any,
) -> list[dict[str, Any]]:
    """Figures and map of an output ``got``, of which a second call gave ``again``."""
    calls = [Launched({"out": value}, {}) for value in (got, got if again is None else again)]
    bounds = None if bound is None else torch.full_like(WANT, bound)
    if bound is not None:
        problem["error_bound"] = lambda inputs, shape: {"out": bounds}
    found = [figures("out", got, WANT, limits.get("bad_atol"), bounds)]
    return with_maps(
        SimpleNamespace(**problem),
        {},
        {},
        {"orders": ORDERS, "role": "headline", **(case or {})},
        calls,
        {"out": WANT},
        found,
        limits,
    )


def test_a_case_within_its_limits_has_no_map() -> None:
    assert outputs_of(WANT.float())[0]["error_map"] is None


def test_map_of_errors_above_the_limit() -> None:
    got = WANT.float()
    got[:, 32:] += 1
    found = outputs_of(got, AXES={"out": ("row", "column")})[0]["error_map"]
    assert found["limit"] == "error above 1e-05" and [axis["name"] for axis in found["axes"]] == ["row", "column"]
    assert found["axes"][1]["ranges"] == [[32, 39]] and found["bad"] == 64


def test_map_of_what_differs_between_calls() -> None:
    """The first call is right, so its errors show nothing."""
    again = WANT.float()
    again[2:4] = 7.0
    found = outputs_of(WANT.float(), again)[0]["error_map"]
    assert found["limit"] == "differs between the calls forward and reversed"
    assert found["axes"][0]["ranges"] == [[2, 3]] and found["first"][0]["got"] == 7.0


def test_only_the_bound_maps_special_inputs() -> None:
    got = WANT.float()
    got[0] += 5e-4
    limits = {"max_abs_err": 1e-2, "bad_atol": 1e-4, "max_err_over_bound": 1.0}
    special = outputs_of(got, limits=limits, bound=1e-4, case={"inputs": "zeros"})[0]["error_map"]
    assert special["limit"] == "error above 1 x what rounding explains" and special["axes"][0]["ranges"] == [[0, 0]]
    assert outputs_of(got, limits=limits, bound=1e-3, case={"inputs": "zeros"})[0]["error_map"] is None
    assert outputs_of(got, limits=limits, bound=1e-3)[0]["error_map"] is None


def test_map_of_what_is_not_finite_without_any_limit() -> None:
    got = WANT.float()
    got[5, 5] = torch.nan
    found = outputs_of(got, limits={})[0]["error_map"]
    assert found["limit"] == "not finite" and found["bad"] == found["nonfinite"] == 1


def test_mistakes_and_null_answers_of_the_problem_are_compared() -> None:
    problem = {"mistakes": lambda inputs, shape: {"rows reversed": lambda: {"out": WANT.flip(0)}}}
    found = outputs_of(WANT.flip(0).float(), **problem)[0]["error_map"]
    assert found["likenesses"][0]["kind"] == "equals" and found["likenesses"][0]["text"] == "rows reversed"
    problem = {"null_outputs": lambda inputs, shape: {"columns_reversed": {"out": WANT.flip(1)}}}
    found = outputs_of(WANT.flip(1).float(), **problem)[0]["error_map"]
    assert found["likenesses"][0]["text"] == "columns_reversed"


def failing(**changes: Any) -> parse.CorrectnessEvidence:
    """Evidence of two cases, the second of which is wrong in its last columns."""
    got = WANT.float()
    got[:, 32:] += 1
    lines = [
        {"type": "case", "index": 0, "result": result(0)},
        {"type": "case", "index": 1, "result": {**result(1), "outputs": outputs_of(got), **changes}},
        {"type": "done", "cases": 2},
    ]
    return dataclasses.replace(parse.parse(raw(lines)), runner="USE_X=1 python ../my\\ tasks/sum/runner.py")


def failed(evidence: parse.CorrectnessEvidence, limits: dict[str, Any] = LIMITS) -> GateResult:
    judged = judge.judge(evidence, limits)
    assert judged.status is Status.FAIL
    return judged


def test_the_first_failing_check_tells_the_story_and_every_one_the_command() -> None:
    bad = [check for check in failed(failing()).checks if check.status is Status.FAIL and check.where]
    assert len(bad) == 3 and [bool(check.notes) for check in bad] == [True, False, False]
    assert bad[0].notes[0] == "where: axis 1 32-39 of every axis 0: 64 of 320 elements; error above 1e-05"
    assert bad[0].notes[1].startswith("first: [0, 32] ") and bad[0].notes[1].count("instead of") == 5
    assert bad[0].notes[2].startswith("likely: ")
    assert {check.reproduce for check in bad} == {"USE_X=1 python ../my\\ tasks/sum/runner.py --shape small --seed 1 --device cuda"}


def test_a_race_is_named_first() -> None:
    bad = next(check for check in failed(failing(differences=5)).checks if check.notes)
    assert bad.notes[2] == "likely: a race, or memory read before it is written: equal calls give different values"


def test_inputs_and_emulator_are_in_the_command() -> None:
    evidence = failing()
    case = dataclasses.replace(evidence.cases[1], inputs="all_equal", role="family")
    told = [check for check in failed(dataclasses.replace(evidence, device="emulator", cases=(case,))).checks if check.reproduce]
    assert {check.reproduce.partition(".py ")[2] for check in told} == {"--shape small --seed 1 --inputs all_equal --device emulator"}


def test_evidence_without_a_runner_has_no_command() -> None:
    assert not any(check.reproduce for check in failed(dataclasses.replace(failing(), runner="")).checks)


def test_a_crash_has_the_command_too() -> None:
    evidence = failing()
    crash = parse.Case("small", 1, "headline", "crash", "killed by SIGSEGV while running the kernel")
    checks = failed(dataclasses.replace(evidence, cases=(evidence.cases[0], crash))).checks
    assert next(check for check in checks if check.code == "correctness.crash").reproduce.endswith("--seed 1 --device cuda")


def test_console_tells_a_case_once_and_shortly() -> None:
    verdict = SimpleNamespace(gates=(failed(failing()),))
    lines = console.failures(verdict)
    text = "\n".join(lines)
    assert len(lines) <= 12 and text.count("hint:") == 1
    assert text.count("where:") == text.count("reproduce:") == text.count("first:") == 1


def test_compare_tells_one_case_and_folds_the_rest() -> None:
    checks = tuple(
        Check(
            "max_abs_err",
            Status.FAIL,
            1.0,
            0.1,
            "",
            f"small seed {seed}",
            "correctness.max_abs_err",
            notes=(f"where: row <{seed}>",),
            reproduce=f"python runner.py --seed {seed}",
        )
        for seed in range(5)
    )
    text = "\n".join(_faults(findings((GateResult("correctness", Status.FAIL, "correctness.max_abs_err", "", checks),))))
    assert text.startswith(
        "## What is wrong\n\n1. **max_abs_err 1, limit 0.1** at small seed 0 and in 4 more places (correctness.max_abs_err)\n"
    )
    assert text.count("where: row &lt;0&gt;") == 2 and text.count("```sh\npython runner.py --seed 0\n```") == 1
    assert "<summary>5 failing cases</summary>" in text and "| small seed 4 | where: row &lt;4&gt; | python runner.py --seed 4 |" in text
    assert _faults([]) == []


def test_runner_command_is_relative_and_keeps_toggles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(TASKS, tmp_path / "my tasks", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    folder = tmp_path / "my tasks" / "saxpy_fast"
    assert runner_command(load_task(folder, environ={})) == "python '../my tasks/saxpy_fast/runner.py'"
    task = load_task(folder, {"USE_COALESCED": "0"}, environ={})
    assert runner_command(task) == "USE_COALESCED=0 python '../my tasks/saxpy_fast/runner.py'"
    (tmp_path / "here" / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "here" / ".venv" / "bin" / "python").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "here" / ".venv"))
    assert runner_command(task).startswith("USE_COALESCED=0 .venv/bin/python '../my")


def test_the_evidence_keeps_a_command_that_leads_out_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path ends like the absolute one, which evidence shortens."""
    shutil.copytree(TASKS, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir("/usr")
    monkeypatch.setenv("HOME", str(tmp_path))
    command = runner_command(load_task(tmp_path / "saxpy_fast", environ={}))
    assert command.startswith("python ../") and portable(command, project_root(tmp_path)) == command
    assert portable(f"g++ -I{tmp_path}/a", Path("/")) == "g++ -I~/a"


def test_the_printed_command_replays_the_case_of_a_task_elsewhere(tmp_path: Path) -> None:
    shutil.copytree(TASKS, tmp_path / "tasks", ignore=shutil.ignore_patterns("__pycache__"))
    source = tmp_path / "tasks" / "saxpy.cu"
    text = source.read_text(encoding="utf-8").replace("first + 4 <= n", "first + 44 <= n", 1)
    source.write_text(text.replace("out[i] = a * x[i] + y[i];", "out[i] = a * x[i];", 1), encoding="utf-8")
    (tmp_path / "here").mkdir()

    command = "python ../tasks/saxpy_fast/runner.py --shape small --seed 4711 --device emulator"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        shell=True,
        cwd=tmp_path / "here",
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PATH": path},
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert f"reproduce: {command}" in lines
    assert [line.split()[:3] for line in lines if " FAIL " in line] == [["small", "seed", "4711"]]
    assert any(line.startswith("where: axis 0 960-999: 40 of 1000 elements") for line in lines)
    assert any(line.startswith("likely: axis 0 960-999 is the partial last tile") for line in lines)


def test_the_case_whose_cause_is_known_is_told_first() -> None:
    """Whatever else fails before it, in another kind of failure."""
    checks = (
        Check(
            "non_finite", Status.FAIL, 3, 0, "", "single seed 0", "correctness.non_finite", notes=("where: everywhere", "likely: NaN: much")
        ),
        Check(
            "max_abs_err",
            Status.FAIL,
            1.0,
            0.1,
            "",
            "small seed 0",
            "correctness.max_abs_err",
            notes=("where: row 1", "likely: the values are those of: y"),
        ),
    )
    lines = console.failures(SimpleNamespace(gates=(GateResult("correctness", Status.FAIL, "correctness.non_finite", "", checks),)))
    assert "likely: the values are those of: y" in lines[4] and lines[5].startswith("  correctness: non_finite")
