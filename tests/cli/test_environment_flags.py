"""What the environment adds to a kernel's flags is an override: recorded, named, and never a merge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from runs_kit import RUN
from static_kit import make_task, stub_toolchain

from gates.build import compilers
from gates.comparison.within import override_notes
from gates.core import jsonio
from gates.core.records import Decision
from gates.evidence.judging import decision_of
from gates.evidence.run_directory import RunInfo, Verdict, read_record
from gates.pipeline.run import run_info
from gates.render.console import verdict_table
from gates.verify.run_record import self_contradictions

ALL = (
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "GCC_EXEC_PREFIX",
    "COMPILER_PATH",
    "PTXAS_OPTIONS",
    "CXX",
    "NVCC_CCBIN",
)


@pytest.fixture(autouse=True)
def _none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ALL:
        monkeypatch.delenv(name, raising=False)


def told(tmp_path: Path, **changes: Any) -> RunInfo:
    task = make_task(tmp_path, **changes)
    (tmp_path / "task.yaml").touch()
    return run_info(task, None, stub_toolchain(tmp_path / "cuda"), None, shapes=task.shapes, seeds=task.seeds, profile="cpu", why="")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NVCC_APPEND_FLAGS", "-maxrregcount=24"),
        ("NVCC_PREPEND_FLAGS", "-use_fast_math"),
        ("CPATH", "/somewhere"),
        ("CPLUS_INCLUDE_PATH", "/somewhere"),
        ("C_INCLUDE_PATH", "/x"),
    ],
)
def test_it_is_recorded_and_named_and_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    info = told(tmp_path)
    assert info.environment[name] == info.task.overrides[name] == value
    recorded: RunInfo = read_record(RunInfo, RUN, "run.json")
    verdict: Verdict = read_record(Verdict, RUN, "verdict.json")
    assert decision_of(recorded, verdict.gates)[0] is Decision.MERGE
    overridden = replace(
        recorded, environment={**recorded.environment, **info.environment}, task=replace(recorded.task, overrides=info.task.overrides)
    )
    assert decision_of(overridden, verdict.gates) == (Decision.HOLD, f"overridden from outside: {name}={value}")
    assert f"overridden from outside: {name}={value}" in list(override_notes(overridden))
    assert f"\noverridden from outside: {name}={value}\n" in verdict_table(overridden, verdict)
    assert list(self_contradictions(overridden, jsonio.read(RUN / "run.json"))) == []
    unsaid = replace(overridden, environment={})
    assert any(f"overrides set {name}={value}" in text for text in self_contradictions(unsaid, jsonio.read(RUN / "run.json")))


def test_flags_of_the_compiler_s_own_variable_are_an_override_and_its_place_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/usr/bin/g++")
    monkeypatch.setenv("CUDA_HOME", "/opt/cuda")
    monkeypatch.setenv("LIBRARY_PATH", "/opt/cuda/lib64/stubs")  # as NVIDIA's images set it
    assert told(tmp_path).task.overrides == {} and told(tmp_path).environment["LIBRARY_PATH"] == "/opt/cuda/lib64/stubs"
    monkeypatch.setenv("CXX", "g++ -O0")
    assert compilers.overriding("cuda") == {"CXX": "g++ -O0"}


def test_each_kind_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-lineinfo")
    monkeypatch.setenv("PTXAS_OPTIONS", "-O1")
    assert compilers.overriding("cuda") == compilers.overriding("torch-extension") == {"NVCC_APPEND_FLAGS": "-lineinfo"}
    assert compilers.overriding("triton") == {"PTXAS_OPTIONS": "-O1"} and compilers.overriding("python") == {}


def test_a_debug_build_by_the_environment_needs_the_mark() -> None:
    info: RunInfo = read_record(RunInfo, RUN, "run.json")
    info = replace(info, environment={**info.environment, "NVCC_APPEND_FLAGS": "-Xptxas -O0"})
    assert any("a debug build, and debug_build is false" in text for text in self_contradictions(info, jsonio.read(RUN / "run.json")))
