"""A kernel that Triton refuses is a finding with its line and Triton's own words; a Triton that does not work here is none."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import gates
from gates.build.build import build
from gates.build.jit import record
from gates.build.result import BuildResult
from gates.build.toolchain import find_toolchain
from gates.task.load import load_task
from gates.task.scaffold import new_task
from gates.verify.run import verify_run

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="no triton")
KERNEL = "x / (1 + tl.exp(-x)) * y"


def written(tmp_path: Path, *changes: tuple[str, str]) -> tuple[Path, str]:
    """(the folder of a Triton task for one shape and architecture, its kernel.py)."""
    folder = new_task("mine", "triton", tmp_path)[0]
    text = (folder / "kernel.py").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "kernel.py").write_text(text)
    limits = (folder / "task.yaml").read_text().replace("[sm_89, sm_90]", "[sm_90]").replace("[small, mission]", "[small]")
    (folder / "task.yaml").write_text(limits)
    return folder, text


def built(folder: Path, tmp_path: Path) -> BuildResult:
    return build(load_task(folder, environ={}), find_toolchain(), tmp_path / "build", want={"cubin", "emulator"})


def line_of(text: str, what: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if what in line)


@needs_triton
@pytest.mark.parametrize(
    ("changes", "at", "says"),
    [
        (
            [("    inside = at < n\n", "    inside = at < n\n    tl.static_assert(BLOCK == 3, 'three only')\n")],
            "static_assert",
            "three only",
        ),
        (
            [
                ("@triton.jit\n", "@triton.jit\ndef helper(x):\n    y = x + 1\n    return y @ 3\n\n\n@triton.jit\n"),
                (KERNEL, f"helper({KERNEL})"),
            ],
            "y @ 3",
            "MatMult",
        ),
        ([("@triton.jit\n", "@triton.heuristics({})\n@triton.jit\n"), ("tl.arange(0, BLOCK)", "tl.arange(0, 1000)")], "1000", "power of 2"),
        ([(KERNEL, f"{KERNEL} + tl.sum(x, axis=7)")], "axis=7", "invalid axis 7"),  # found within Triton's own library
    ],
)
def test_the_line_is_the_task_s_and_the_words_are_triton_s(tmp_path: Path, changes: list[tuple[str, str]], at: str, says: str) -> None:
    folder, text = written(tmp_path, *changes)
    result = built(folder, tmp_path)
    for kind in ("cubin", "emulator"):
        failure = result.failure(kind)
        assert failure is not None and not failure.missing_tool
        assert f"kernel.py:{line_of(text, at)}: error: " in failure.sentence and says in failure.sentence
    assert len(result.failures) == 1


@needs_triton
def test_a_compile_error_fails_every_gate_and_is_named_once(tmp_path: Path) -> None:
    folder, text = written(tmp_path, (KERNEL, f"{KERNEL} + nowhere"))
    found = gates.run(folder, profile="cpu", shapes=["small"], seeds=[0], results=tmp_path / "results", build_dir=tmp_path / "build")
    place = f"kernel.py:{line_of(text, '+ nowhere')}: error: "
    for gate in ("ptxas", "sass", "correctness"):
        assert found.gates[gate].status.value == "fail" and found.gates[gate].code == f"{gate}.build_failed", found.report()
        assert place in found.gates[gate].sentence and "nowhere is not defined" in found.gates[gate].sentence
    assert found.report().partition("failed checks:")[2].count(place) == 1
    assert not verify_run(found.path)


@needs_triton
def test_a_host_function_that_fails_before_its_launch_is_no_compile_error(tmp_path: Path) -> None:
    folder, _ = written(tmp_path, ("    out = torch.empty_like(x)\n", "    out = torch.empty_like(x)\n    assert False, 'never'\n"))
    result = built(folder, tmp_path)
    failure = result.failure("cubin")
    assert failure is not None and failure.missing_tool and "never" in failure.sentence
    assert result.failure("emulator") is None  # the correctness gate runs it, and finds the same


@needs_triton
@pytest.mark.parametrize(
    "broken", ["raise FileNotFoundError('no ptxas here')", "raise RuntimeError('Cannot find ptxas')", "raise ImportError('libfoo')"]
)
def test_a_triton_that_does_not_work_here_is_not_run(tmp_path: Path, broken: str) -> None:
    planted = f"from triton.backends.nvidia import compiler\n\n\ndef gone(*arguments):\n    {broken}\n\n\ncompiler.get_ptxas = gone\n"
    folder, _ = written(tmp_path, ("import triton.language as tl\n", f"import triton.language as tl\n{planted}"))
    failure = built(folder, tmp_path).failure("cubin")
    assert failure is not None and failure.missing_tool, failure


# What Triton's tutorials do to launch as many programs as a device holds.
FULL = """    utils = triton.runtime.driver.active.utils
    made = silu_mul_kernel.warmup(x, y, out, x.numel(), BLOCK=1024, grid=(1,))
    made._init_handles()
    registers = utils.get_device_properties(triton.runtime.driver.active.get_current_device())["max_num_regs"]
    made[(registers // made.n_regs, 1, 1)](x, y, out, x.numel(), 1024)
    return out
"""


@needs_triton
@pytest.mark.parametrize("changes", [[], [("    return out\n", FULL)]], ids=["plain", "full"])
def test_a_right_kernel_is_built(tmp_path: Path, changes: list[tuple[str, str]]) -> None:
    result = built(written(tmp_path, *changes)[0], tmp_path)
    assert result.failure("cubin") is None and result.failure("emulator") is None


@pytest.mark.parametrize(
    "told",
    [
        None,
        {},
        {"file": "../k.py"},
        {"line": "3"},
        {"line": True},
        {"kind": "a b"},
        {"message": 3},
        {"arch": "sm_1"},
    ],
)
def test_an_error_that_can_t_be_so_is_no_record(told: Any) -> None:
    good = {"file": "kernel.py", "line": 3, "kind": "CompilationError", "message": "what\x1b[0m", "arch": "sm_90"}
    assert record.wrong(good, ["sm_90"], "") == ("CompilationError", "kernel.py:3: error: what\\x1b[0m (sm_90)")
    with pytest.raises(record.NoRecord):
        record.wrong({**good, **told} if told else told, ["sm_90"], "")


def test_a_pass_of_the_compiler_leaves_its_reason_in_what_it_printed() -> None:
    told = {"file": "kernel.py", "line": 3, "kind": "RuntimeError", "message": "PassManager::run failed", "arch": "sm_90"}
    printed = "/tmp/x/kernel.py:11:14: error: operand #0 must be smaller\n"
    assert record.wrong(told, ["sm_90"], printed)[1] == "kernel.py:11: error: operand #0 must be smaller (sm_90)"
    said = {
        **told,
        "kind": "PTXASError",
        "message": "`ptxas` failed\n`ptxas` stderr:\nptxas error   : Entry function 'k' uses too much shared data\n",
    }
    assert (
        record.wrong(said, ["sm_90"], "")[1] == "kernel.py:3: error: ptxas error   : Entry function 'k' uses too much shared data (sm_90)"
    )
