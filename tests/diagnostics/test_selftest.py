"""`gates selftest`: every gate refuses what is planted, and a gate that does not is found out."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from places import ROOT

from gates.build.toolchain import Toolchain, find_toolchain
from gates.core.records import Check, GateResult, Status
from gates.diagnostics import selftest
from gates.gate.ncu import judge as ncu
from gates.gate.performance import judge as performance
from gates.gate.ptxas import judge as ptxas
from gates.gate.registry import GATES

STORED = {
    ("ptxas", "log without the kernel"): "ptxas.kernel_missing",
    ("ptxas", "log cut short"): "ptxas.log_incomplete",
    ("ptxas", "spilled registers"): "ptxas.spills",
    ("sass", "scalar code where tensor cores are required"): "sass.required",
    ("sass", "no disassembly"): "sass.no_dump",
    ("size", "code that grew by a byte more than the task allows"): "size.grew",
    ("size", "code a byte larger than the task allows"): "size.too_large",
    ("size", "a baseline without code"): "size.no_baseline",
    ("correctness", "one NaN in the output"): "correctness.non_finite",
    ("correctness", "nothing but NaN"): "correctness.non_finite",
    ("correctness", "zeros"): "correctness.max_abs_err",
    ("sanitizer", "log without a summary"): "sanitizer.no_summary",
    ("sanitizer", "an invalid write"): "sanitizer.out_of_bounds",
    ("performance", "the same kernel twice, simulated device, threshold 0 %"): "performance.bar_within_interval",
    ("performance", "that candidate slowed by 5 %: 1.143x against 15 %"): "performance.too_slow",
    ("performance", "the same kernel twice, the baseline made slower beside the candidate"): "performance.inconsistent",
    ("performance", "candidate slower than its baseline by 5 %, threshold 0 %"): "performance.too_slow",
    ("performance", "the same kernel twice, the candidate's times divided by four"): "performance.inconsistent",
    ("ncu", "empty counter report"): "ncu.no_kernel",
    ("ncu", "a counter that is NaN"): "ncu.absent",
    ("ncu", "a throughput of 108.9 %"): "ncu.out_of_range",
    ("ncu", "no permission to read counters"): "ncu.no_permission",
    ("ncu", "a counter that should rise and falls"): "ncu.not_risen",
}


def stored_only(monkeypatch) -> list[selftest.Outcome]:
    monkeypatch.setattr(selftest, "_compiled", lambda *_: iter(()))
    return list(selftest.selftest([]))


def test_each_stored_fault_is_refused_for_its_own_reason(monkeypatch) -> None:
    outcomes = stored_only(monkeypatch)
    found = {(o.gate, o.fault): o.result.code for o in outcomes if not o.sound}
    assert found == STORED, f"STORED in tests/diagnostics/test_selftest.py differs in {dict(found.items() ^ STORED.items())}"
    assert set(GATES) == {o.gate for o in outcomes if o.sound}, "each gate's planted.py must yield sound evidence, too"
    assert all(o.result.code == f"{o.gate}.pass" for o in outcomes if o.sound)
    assert selftest.whole(outcomes)


@pytest.mark.parametrize("module", [ptxas, performance, ncu])
def test_a_gate_that_passes_everything_is_found_out(monkeypatch, module) -> None:
    name = module.__name__.split(".")[2]
    yes = GateResult(name, Status.PASS, f"{name}.pass", "fine", (Check("x", Status.PASS, 1, 1, ""),))
    monkeypatch.setattr(module, "judge", lambda *_, **__: yes)
    outcomes = stored_only(monkeypatch)
    assert not selftest.whole(outcomes)
    assert {o.good for o in outcomes if o.gate == name and not o.sound} == {False}


def test_a_gate_that_refuses_everything_is_found_out(monkeypatch) -> None:
    no = GateResult("ncu", Status.NOT_RUN, "ncu.no_tool", "no")
    monkeypatch.setattr(ncu, "judge", lambda *_, **__: no)
    outcomes = stored_only(monkeypatch)
    assert not selftest.whole(outcomes) and [o.gate for o in outcomes if not o.good] == ["ncu"]


def test_not_applicable_is_no_refusal() -> None:
    slipped = selftest.Outcome("ncu", "fault", GateResult("ncu", Status.NOT_APPLICABLE, "ncu.not_applicable", "why"))
    assert not slipped.good


def test_a_gate_without_a_control_or_without_a_fault_is_no_success(monkeypatch) -> None:
    outcomes = stored_only(monkeypatch)
    assert not selftest.whole([o for o in outcomes if not (o.gate == "sass" and o.sound)])
    assert not selftest.whole([o for o in outcomes if o.gate != "sass" or o.sound])
    assert not selftest.whole([])


def without(*tools: str) -> Toolchain:
    real = find_toolchain()
    found = {name: None if name in tools else tool for name, tool in real.tools.items()}
    return dataclasses.replace(real, tools=found, remedies={**dict.fromkeys(tools, "install it"), **real.remedies})


def test_without_compilers_the_stored_part_runs_and_says_what_it_left_out(monkeypatch) -> None:
    monkeypatch.setattr(selftest, "find_toolchain", lambda: without("nvcc", "g++"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    left_out: list[str] = []
    outcomes = list(selftest.selftest(left_out))
    assert selftest.whole(outcomes) and len(outcomes) == len(STORED) + len(GATES)
    assert [text.split(":")[0] for text in left_out] == [
        "faults compiled by this machine's nvcc",
        "faulty kernels run on the emulator",
        "one library timed against itself on a device",
    ]


def test_the_command_here_within_a_minute(tmp_path) -> None:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "gates", "selftest"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    took = time.monotonic() - started
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "every gate refused its faults" in lines[-1] and "no CUDA device" in lines[-2]
    assert all(line.endswith((", refused: yes", ", passed: yes")) for line in lines[:-1] if not line.startswith("left out"))
    assert list(tmp_path.iterdir()) == []
    assert shutil.which("g++") is None or any("under the sound library of another build" in line for line in lines)
    if (os.getloadavg()[0] or 0) < (os.cpu_count() or 1):
        assert took < 60


def test_it_needs_nothing_from_the_tests() -> None:
    text = (Path(selftest.__file__)).read_text()
    assert "import pytest" not in text and "from tests" not in text


def test_the_data_is_in_the_wheel(tmp_path) -> None:
    source = tmp_path / "source"  # the build leaves files behind
    shutil.copytree(ROOT / "gates", source / "gates", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(source)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode != 0:
        pytest.skip(f"no wheel can be built here: {done.stderr.strip().splitlines()[-1:]}")
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    data = [path for path in (source / "gates").rglob("*") if path.is_file()]
    assert len(data) > 250 and {path.relative_to(source).as_posix() for path in data} - names == set()


@pytest.mark.gpu
def test_one_library_twice_on_the_device_does_not_pass() -> None:
    left_out: list[str] = []
    outcomes = list(selftest.selftest(left_out))
    assert selftest.whole(outcomes), [o for o in outcomes if not o.good]
    assert left_out == []
    twice, forged = (o.result for o in outcomes if o.fault.startswith("one library twice"))
    assert twice.status in (Status.INCONCLUSIVE, Status.FAIL), twice  # a copy may be slower by what two loads differ
    assert (forged.status, forged.code) == (Status.INCONCLUSIVE, "performance.inconsistent"), forged
