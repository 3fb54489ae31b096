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
from gates.build.build import build
from gates.build.toolchain import find_toolchain
from gates.task.load import load_task

needs_numba = pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
needs_warp = pytest.mark.skipif(importlib.util.find_spec("warp") is None, reason="warp-lang is not installed")

LOCAL = "kept = cuda.local.array(64, 'float32')\n        for j in range(x.size % 64):\n            kept[j] = x[j]\n"


def changed(tmp_path: Path, old: str, new: str, example: str = "add_numba") -> tuple[Path, str]:
    """(kernel.py of a copy of an example, with ``new`` in place of ``old``; its text)."""
    shutil.copytree(ROOT / "examples" / "languages", tmp_path / "languages", ignore=shutil.ignore_patterns("__pycache__"))
    source = tmp_path / "languages" / example / "kernel.py"
    text = source.read_text()
    assert old in text
    source.write_text(text := text.replace(old, new))
    return source, text


def judged(tmp_path: Path, old: str = "", new: str = "", example: str = "add_numba") -> tuple[Run, str]:
    """(the run of an example with ``new`` in place of ``old``, its kernel.py)."""
    source, text = changed(tmp_path, old, new, example)
    run = gates.run(source.parent, profile="cpu", shapes=["small"], seeds=[0], results=tmp_path / "results", build_dir=tmp_path / "build")
    return run, text


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
    run, text = judged(tmp_path, "x[i] + y[i]", "x[i] + cuda.nowhere(y[i])")
    line = next(number for number, one in enumerate(text.splitlines(), 1) if "nowhere" in one)
    said = f"kernel.py:{line}: error: AttributeError: module 'numba.cuda' has no attribute 'nowhere'"
    for gate in ("ptxas", "sass", "correctness"):
        assert run.gates[gate].code == f"{gate}.build_failed" and said in run.gates[gate].sentence, run.report()


@needs_numba
@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("y.nowhere", "Unknown attribute 'nowhere'"),
        ("cuda.grid(4)", "ValueError: argument can only be 1, 2, 3"),
        ("cuda.syncthreads(3)", "TypeError: syncthreads() takes 1 positional argument"),
    ],
)
def test_an_error_of_numba_s_or_of_python_s_is_one_of_compilation(tmp_path: Path, expression: str, says: str) -> None:
    source, text = changed(tmp_path, "x[i] + y[i]", f"x[i] + {expression}")
    result = build(load_task(source.parent, environ={}), find_toolchain(), tmp_path / "build", want={"cubin"})
    line = next(number for number, one in enumerate(text.splitlines(), 1) if expression in one)
    failure = result.failure("cubin")
    assert failure is not None and not failure.missing_tool and f"kernel.py:{line}: error: {says}" in failure.sentence


@needs_numba
@pytest.mark.parametrize(
    "broken",
    [
        "import numpy\ndelattr(numpy, 'dty' + 'pe')",  # a name that another version of a package had
        "from numba.cuda import dispatcher\ndispatcher.compile_cuda = partial(dispatcher.compile_cuda, new_option=1)",
    ],
)
def test_a_numba_that_does_not_work_here_is_not_run(tmp_path: Path, broken: str) -> None:
    run, _ = judged(tmp_path, "from numba import cuda\n", f"from functools import partial\n\nfrom numba import cuda\n{broken}\n")
    assert run.decision == "hold", run.report()
    for gate in ("ptxas", "sass", "correctness", "sanitizer"):
        assert run.gates[gate].status.value == "not_run", run.report()


@needs_numba
def test_what_the_emulator_can_t_run_is_not_run(tmp_path: Path) -> None:
    run, _ = judged(tmp_path, "    i = cuda.grid(1)\n", "    i = cuda.grid(1)\n    cuda.cg.this_grid().sync()\n")
    assert run.decision == "hold", run.report()
    for gate in ("correctness", "sanitizer"):
        assert run.gates[gate].code == f"{gate}.not_emulated" and "all blocks at once" in run.gates[gate].sentence


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
