"""Edited evidence, signed anew with care, does not decide: what it says must fit together."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_pipeline import sign

from gates.compare import compare_runs
from gates.decide import decide_run
from gates.errors import GatesError
from gates.evidence import list_runs
from gates.verify import verify_run

ROOT = Path(__file__).resolve().parent.parent
RECORDED = ROOT / "results" / "recorded"
FULL = list_runs(RECORDED / "h100" / "stage2_wmma_pv")[-1]
OTHER = list_runs(RECORDED / "h100" / "stage3_cp_async")[-1]
CPU = list_runs(RECORDED / "cpu" / "stage2_wmma_pv")[-1]


def edited(tmp_path: Path, run: Path, name: str, change: Callable[[Any], Any]) -> Path:
    target = tmp_path / "run"
    shutil.copytree(run, target)
    data = json.loads((target / name).read_text(encoding="utf-8"))
    (target / name).write_text(json.dumps(change(data) or data), encoding="utf-8")
    sign(target)
    return target


def declare(data: dict, *gates: str) -> None:
    for result in data["gates"]:
        if result["gate"] in gates:
            result.update(status="not_applicable", code=f"{result['gate']}.not_applicable", checks=[])
    data.update(decision="merge", reason="every gate passed or is declared not applicable")


CHANGES: list[tuple[str, Path, str, Callable[[Any], Any], str]] = [
    ("gates declared away", CPU, "verdict.json", lambda d: declare(d, "performance", "ncu"), "there is no evidence of it"),
    ("a failed gate declared away", FULL, "verdict.json", lambda d: declare(d, "correctness"), "verdict.json says correctness: not_applicable"),
    ("no gates", FULL, "verdict.json", lambda d: d.update(gates=[]), "judges nothing"),
    ("a gate twice", FULL, "verdict.json", lambda d: d["gates"].append(d["gates"][0]), "not each gate once"),
    ("one arch left out", FULL, "ptxas.json", lambda d: d.update(archs=["sm_90"]), "ptxas.json covers sm_90"),
    ("one case only", FULL, "correctness.json", lambda d: d.update(cases=d["cases"][:1], asked=1), "holds 1 headline cases, run.json asks for 6"),
    ("a seed less", FULL, "run.json", lambda d: d["task"].update(seeds=[0, 1]), "holds 6 headline cases, run.json asks for 4"),
    ("no device", FULL, "run.json", lambda d: d.update(device=None), "full profile without a device"),
    ("no limits", FULL, "run.json", lambda d: d["task"].update(limits={}), "task.limits: 'correctness' is a required property"),
    ("a limit that is text", FULL, "run.json", lambda d: d["task"]["limits"]["correctness"].update(max_abs_err="x"), "max_abs_err"),
    ("no time zone", FULL, "run.json", lambda d: d.update(started="2026-11-01T01:30:00"), "started"),
    ("negative registers", FULL, "ptxas.json", lambda d: d["kernels"][0].update(registers=-5), "registers"),
    ("a larger error", FULL, "correctness.json", lambda d: d["cases"][0]["outputs"][0].update(max_abs_err=9.0), "correctness: pass"),
    ("a number out of range", FULL, "correctness.json", lambda d: d["cases"][0].update(launch_count=10**400), "out of range"),
    ("half a character", FULL, "run.json", lambda d: d["task"].update(title="\ud800"), "not Unicode"),
]


@pytest.mark.parametrize(("run", "name", "change", "expected"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_an_edit_is_found(tmp_path: Path, run: Path, name: str, change: Callable[[Any], Any], expected: str) -> None:
    target = edited(tmp_path, run, name, change)
    problems = verify_run(target)
    assert any(expected in problem for problem in problems), problems
    with pytest.raises(GatesError, match="is not sound"):
        decide_run(target)


@pytest.mark.parametrize("name", ["ptxas.json", "sass.json", "correctness.json", "sanitizer.json", "performance.json", "ncu.json"])
def test_evidence_of_another_run_is_found(tmp_path: Path, name: str) -> None:
    target = tmp_path / "run"
    shutil.copytree(FULL, target)
    shutil.copyfile(OTHER / name, target / name)
    sign(target)
    assert verify_run(target) != []


def test_evidence_that_was_taken_out(tmp_path: Path) -> None:
    target = tmp_path / "run"
    shutil.copytree(FULL, target)
    for name in ("performance.json", "correctness.json"):
        (target / name).unlink()
    assert verify_run(target) != []
    with pytest.raises(GatesError, match="is not sound"):
        compare_runs(list_runs(RECORDED / "h100" / "stage1_wmma_qk")[-1], target)
    sign(target)
    assert any("no evidence of it" in problem for problem in verify_run(target))


@pytest.mark.parametrize("make", [
    lambda path: os.mkfifo(path), lambda path: path.symlink_to("/etc/passwd"), lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 2**35),
], ids=["fifo", "link", "huge"])
def test_what_is_no_file_of_ours(tmp_path: Path, make: Callable[[Path], None]) -> None:
    target = tmp_path / "run"
    shutil.copytree(CPU, target)
    make(target / "extra.bin")
    assert any("extra.bin" in problem for problem in verify_run(target))


def test_a_closed_pipe_changes_no_exit_code() -> None:
    command = f"{sys.executable} -m gates decide {CPU} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "")
