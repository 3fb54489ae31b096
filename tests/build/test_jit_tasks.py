"""Tasks of the kinds numba and warp without a GPU: a planted defect is refused, and a compile error names the task's line."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest
from places import ROOT

import gates
from gates.api import Run
from gates.build import python_kinds

needs_numba = pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
needs_warp = pytest.mark.skipif(importlib.util.find_spec("warp") is None, reason="warp-lang is not installed")

LOCAL = "kept = cuda.local.array(64, 'float32')\n        for j in range(x.size % 64):\n            kept[j] = x[j]\n"


def judged(tmp_path: Path, old: str = "", new: str = "", example: str = "add_numba") -> tuple[Run, str]:
    """(the run of an example with ``new`` in place of ``old``, its kernel.py)."""
    shutil.copytree(ROOT / "examples" / "languages", tmp_path / "languages", ignore=shutil.ignore_patterns("__pycache__"))
    source = tmp_path / "languages" / example / "kernel.py"
    text = source.read_text()
    assert old in text
    source.write_text(text.replace(old, new))
    run = gates.run(source.parent, profile="cpu", shapes=["small"], seeds=[0], results=tmp_path / "results", build_dir=tmp_path / "build")
    return run, source.read_text()


@needs_numba
@pytest.mark.parametrize(
    ("old", "new", "gate", "code"),
    [
        ("if i < out.size:", "if i < x.size + 5:", "correctness", "correctness.out_of_bounds"),
        ("x[i] + y[i]", "x[i] + y[i] * 1.001", "correctness", "correctness.max_abs_err"),
        ("out[i] = x[i] + y[i]", f"{LOCAL}        out[i] = x[i] + y[i] + 0 * kept[int(x[i]) % 64]", "sass", "sass.forbidden"),
    ],
)
def test_a_planted_defect_is_refused(tmp_path: Path, old: str, new: str, gate: str, code: str) -> None:
    run, _ = judged(tmp_path, old, new)
    assert run.decision == "reject" and run.gates[gate].code == code, run.report()


@needs_numba
def test_a_compile_error_names_the_line_and_says_what_numba_says(tmp_path: Path) -> None:
    run, text = judged(tmp_path, "x[i] + y[i]", "x[i] + y.nowhere")
    line = next(number for number, one in enumerate(text.splitlines(), 1) if "nowhere" in one)
    for gate in ("ptxas", "sass", "correctness"):
        found = run.gates[gate]
        assert found.code == f"{gate}.build_failed" and f"kernel.py:{line}: error: Unknown attribute 'nowhere'" in found.sentence


@needs_warp
def test_a_defect_in_warp_is_refused(tmp_path: Path) -> None:
    run, _ = judged(tmp_path, "y[i]", "y[i + 1]", "add_warp")
    assert run.decision == "reject" and run.gates["correctness"].code == "correctness.out_of_bounds", run.report()


@needs_warp
def test_a_compile_error_names_the_line_and_says_what_warp_says(tmp_path: Path) -> None:
    run, text = judged(tmp_path, "x[i] + y[i]", "x[i] + wp.nowhere(y[i])", "add_warp")
    line = next(number for number, one in enumerate(text.splitlines(), 1) if "nowhere" in one)
    for gate in ("ptxas", "sass", "correctness"):
        found = run.gates[gate]
        assert found.code == f"{gate}.build_failed" and f"kernel.py:{line}: error: Could not find function wp.nowhere" in found.sentence


def test_a_package_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_kinds.importlib.util, "find_spec", lambda name: None)
    run, _ = judged(tmp_path)
    assert run.decision == "hold"
    assert {gate: run.gates[gate].status.value for gate in ("ptxas", "sass", "correctness")} == dict.fromkeys(
        ("ptxas", "sass", "correctness"), "not_run"
    )
    assert "numba-cuda is not installed" in run.gates["ptxas"].sentence
