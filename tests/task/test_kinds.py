"""The contract of each kind of task: what an entry may be called with, may give back, and what is said where it can't be judged."""

from __future__ import annotations

import importlib.util
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from torch_kit import stub_torch  # noqa: F401

import gates
from gates.build.build import build
from gates.build.toolchain import find_toolchain
from gates.gate.correctness import evidence
from gates.gate.correctness.collect import run_correctness
from gates.gate.correctness.judge import judge
from gates.task.load import load_task
from gates.task.scaffold import new_task

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
LIMITS = {"max_abs_err": 1e-5, "mean_abs_err": 1e-6, "bad_pct": 0.0, "bad_atol": 1e-5}
INPUTS = """
import torch
SHAPES = {"small": {"N": 300}}
def make_inputs(shape, seed, device):
    made = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape["N"], generator=made).to(device) for name in ("x", "y")}
"""
TENSOR = "def reference(inputs):\n    return inputs['x'].double() + inputs['y'].double()\n"
TUPLE = "def reference(inputs):\n    x, y = inputs['x'].double(), inputs['y'].double()\n    return x + y, x - y\n"
NAMED = "def reference(inputs):\n    x, y = inputs['x'].double(), inputs['y'].double()\n    return {'total': x + y, 'less': x - y}\n"
GIVEN = "ARGUMENTS = ('x', 'y', 'out')\ndef make_outputs(shape, device):\n    return torch.empty(shape['N'], device=device)\n"
IN_PLACE = "IN_PLACE = ('x',)\ndef reference(inputs):\n    return {'x': inputs['x'].double() + inputs['y'].double()}\n"
CHECKED = "def check(outputs, expected):\n    return 'the sum is off' if abs(outputs.sum() - expected.sum()) > 1e-3 else True\n"


def result_of(tmp_path: Path, problem: str, function: str, entry: str = "add") -> tuple[Any, Any]:
    """The correctness gate's verdict and evidence of a Python function."""
    (tmp_path / "it").mkdir()
    (tmp_path / "it" / "its_problem.py").write_text(INPUTS + problem)
    (tmp_path / "it" / "kernel.py").write_text(textwrap.dedent(function))
    (tmp_path / "it" / "runner.py").write_text("from gates.task_script import run\n\nrun(__file__)\n")
    side = {
        "name": "it",
        "library": str(tmp_path / "it" / "kernel.py"),
        "entry": entry,
        "folder": str(tmp_path / "it"),
        "problem": "its_problem",
        "emulated": True,
        "kind": "python",
        "arguments": [],
    }
    raw = run_correctness(side, ("small",), (0,), work=tmp_path / "work", limit_s=100, device="cpu", bad_atol=1e-5, limits=LIMITS)
    found = evidence.parse(raw)
    return judge(found, LIMITS), found


@pytest.mark.parametrize(
    ("problem", "function"),
    [
        (TENSOR, "def add(x, y): return x + y"),
        (TUPLE, "def add(x, y): return x + y, x - y"),
        (NAMED, "def add(x, y): return {'less': x - y, 'total': x + y}"),
        (TENSOR + GIVEN, "def add(x, y, out): out.copy_(x + y)"),
        (IN_PLACE, "def add(x, y): x += y"),
        (TENSOR + CHECKED, "def add(x, y): return x + y"),
    ],
    ids=["tensor", "tuple", "dict", "written", "in_place", "checked"],
)
def test_what_a_function_may_give_back(tmp_path: Path, problem: str, function: str) -> None:
    result, _ = result_of(tmp_path, problem, function)
    assert result.status.value == "pass", result.sentence


@pytest.mark.parametrize(
    ("problem", "function", "text"),
    [
        (TENSOR, "def add(x, y): raise ValueError('no such tile')", "ValueError: no such tile"),
        (TENSOR, "def add(x, y):\n    x += y\n    return x.clone()", "x: 300 elements"),
        (TENSOR + CHECKED, "def add(x, y): return x + y + 9e-6", "the sum is off"),
        (TENSOR + GIVEN, "def add(x, y, out): out[1:].copy_((x + y)[1:])", ""),
        (TUPLE, "def add(x, y): return x - y, x + y", ""),
    ],
    ids=["exception", "changes_an_input", "check_refuses", "leaves_one_out", "wrong_order"],
)
def test_what_fails_and_says_so(tmp_path: Path, problem: str, function: str, text: str) -> None:
    result, found = result_of(tmp_path, problem, function)
    assert result.status.value == "fail" and text in f"{result}{found}"


def test_a_wrong_entry_is_named(tmp_path: Path) -> None:
    result, _ = result_of(tmp_path, TENSOR, "def add(x, y): return x + y", entry="plus")
    assert result.code == "correctness.launch_error" and "kernel.py:1: AttributeError: no function 'plus'" in result.sentence


# Triton ------------------------------------------------------------------------------------------------------------------


def triton_run(tmp_path: Path, *changes: tuple[str, str]) -> Any:
    folder = new_task("mine", "triton", tmp_path)[0]
    text = (folder / "kernel.py").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "kernel.py").write_text(text)
    if changes:  # one variant is enough for what is planted
        limits = (folder / "task.yaml").read_text().replace("[sm_89, sm_90]", "[sm_90]").replace("[small, mission]", "[small]")
        (folder / "task.yaml").write_text(limits)
    return gates.run(folder, profile="cpu", shapes=["small"], seeds=[0], results=tmp_path / "results", build_dir=tmp_path / "build")


@needs_triton
def test_triton_is_judged_for_two_architectures_and_on_the_emulator(tmp_path: Path) -> None:
    run = triton_run(tmp_path)
    assert {gate: run.gates[gate].status.value for gate in ("ptxas", "sass", "correctness", "sanitizer")} == {
        "ptxas": "pass",
        "sass": "pass",
        "correctness": "pass",
        "sanitizer": "pass",
    }, run.report()
    assert {kernel.arch for kernel in run.evidence["ptxas"].kernels} == {"sm_89", "sm_90"}
    assert all(kernel.base_name == "silu_mul_kernel" and kernel.registers for kernel in run.evidence["ptxas"].kernels)


@needs_triton
@pytest.mark.slow
def test_planted_spills_and_a_planted_wrong_mask_are_red(tmp_path: Path) -> None:
    run = triton_run(
        tmp_path,
        ("inside = at < n", "inside = at < n - 1"),  # the last element is left out
        ("1024", "8192"),
        ("BLOCK=8192)", "BLOCK=8192, num_warps=1)"),  # 256 elements of each input a thread
        ("x / (1 + tl.exp(-x)) * y", "tl.sum(x) + x / (1 + tl.exp(-x)) * y - tl.sum(x)"),  # so that all of them are held at once
    )
    assert run.gates["ptxas"].status.value == "fail" and "ptxas.spills" in {check.code for check in run.gates["ptxas"].checks}, run.report()
    assert run.gates["correctness"].status.value == "fail"


@needs_triton
def test_autotuned_kernels_that_ask_for_a_device_are_compiled_in_each_configuration_and_run_in_turn(tmp_path: Path) -> None:
    run = triton_run(
        tmp_path,
        ("@triton.jit", '@triton.autotune([triton.Config({"BLOCK": size}) for size in (256, 512)], key=["n"])\n@triton.jit'),
        ("(triton.cdiv(x.numel(), 1024),)", 'lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)'),
        (", BLOCK=1024)", ")"),
        (
            "    out = torch.empty_like(x)",
            "    assert x.is_cuda and x.device.type == 'cuda'\n    out = torch.empty(x.shape, device='cuda')",
        ),
    )
    assert run.gates["ptxas"].status.value == run.gates["correctness"].status.value == "pass", run.report()
    assert len(run.evidence["ptxas"].kernels) == 2, "one for each configuration"


# Torch extensions --------------------------------------------------------------------------------------------------------


def test_an_extension_is_judged_by_its_source_and_says_why_it_is_not_run(tmp_path: Path, stub_torch: None) -> None:  # noqa: F811
    folder = new_task("mine", "torch-extension", tmp_path)[0]
    run = gates.run(folder, profile="cpu", results=tmp_path / "results", build_dir=tmp_path / "build")
    assert run.gates["ptxas"].status.value == run.gates["sass"].status.value == "pass", run.report()
    assert (
        run.gates["correctness"].status.value == "not_run"
        and "a torch extension runs on a CUDA device alone" in run.gates["correctness"].sentence
    )


def test_a_header_that_is_not_there_is_named(tmp_path: Path) -> None:
    task = load_task(new_task("mine", "torch-extension", tmp_path)[0], environ={})
    (task.folder / "kernel.cu").write_text("#include <not_there_at_all.h>\n" + (task.folder / "kernel.cu").read_text())
    failure = build(task, find_toolchain(), tmp_path / "build", want={"cubin"}).failure("cubin")
    assert failure is not None and "not_there_at_all.h" in failure.sentence


def documented_launcher(tmp_path: Path) -> Path:
    """The extension of the template and, beside it, the task that docs/start/your-kernel.md makes of its kernel."""
    extension_folder = new_task("my_norm", "torch-extension", tmp_path)[0]
    page = (ROOT / "docs" / "start" / "your-kernel.md").read_text(encoding="utf-8")
    section = page.partition("## A C launcher for an extension")[2].partition("\n## ")[0]
    source, lines = (re.search(rf"```{kind}\n(.*?)```", section, re.DOTALL)[1] for kind in ("cuda", "yaml"))
    folder = tmp_path / "my_norm_launcher"
    folder.mkdir()
    for name in ("build.py", "runner.py"):
        (folder / name).write_text((extension_folder / name).read_text())
    (folder / "launcher.cu").write_text(source)
    text = re.sub(r"^(kind|arguments): .*\n", "", (extension_folder / "task.yaml").read_text(), flags=re.MULTILINE)
    for line in lines.splitlines():
        text = re.sub(rf"^{line.partition(':')[0]}: .*$", line, text, flags=re.MULTILINE)
    (folder / "task.yaml").write_text(text)
    return folder


def test_the_documented_launcher_is_a_task_that_the_emulator_builds(tmp_path: Path) -> None:
    task = load_task(documented_launcher(tmp_path), environ={})
    assert (task.kind, task.entry, task.kernels) == ("cuda", "launch", ("silu_mul_kernel",))
    assert build(task, find_toolchain(), tmp_path / "build", want={"emulator"}).failures == ()


@pytest.mark.slow
def test_the_documented_launcher_is_judged_without_a_device(tmp_path: Path) -> None:
    run = gates.run(
        documented_launcher(tmp_path),
        profile="cpu",
        shapes=["small"],
        seeds=[0],
        results=tmp_path / "results",
        build_dir=tmp_path / "build",
    )
    assert run.gates["correctness"].status.value == run.gates["sanitizer"].status.value == "pass", run.report()
