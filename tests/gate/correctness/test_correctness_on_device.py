"""The device side of the correctness and sanitizer gates: planted faults in CUDA source on a real card."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from correctness_kit import DATA, gate, side, task_folder
from test_correctness_cuda_source import PROBLEM

from gates.build.toolchain import find_toolchain
from gates.core.records import Status
from gates.gate.sanitizer import collect as run
from gates.gate.sanitizer import evidence as parse
from gates.gate.sanitizer import judge
from gates.launch.device import probe

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    nvcc = find_toolchain().get("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc")
    folder = tmp_path_factory.mktemp("cuda")
    task_folder(folder, "row_sum_problem", PROBLEM)
    library = folder / "device.so"
    subprocess.run(
        [
            nvcc.path,
            "-shared",
            "-Xcompiler",
            "-fPIC",
            "-lineinfo",
            f"-arch={probe().devices[0].arch}",
            "-o",
            str(library),
            str(DATA / "planted.cu"),
        ],
        check=True,
        timeout=300,
    )
    return {"folder": folder, "library": library}


def candidate(built: dict[str, Path], entry: str) -> dict:
    return {**side(built["library"], entry, built["folder"], "row_sum_problem"), "emulated": False}


@pytest.mark.parametrize(
    ("entry", "codes"),
    [
        ("honest", set()),
        ("tail_write", {"guard"}),
        (
            "wrong_stream",
            {"other_stream"},
        ),  # also where loading the module at the first launch waits for the device, and only later calls go wrong
        ("too_many_threads", {"launch_error"}),
        ("too_many_threads_swallowed", {"unwritten"}),
    ],
)
def test_correctness(built: dict[str, Path], tmp_path: Path, entry: str, codes: set[str]) -> None:
    _, result = gate(tmp_path, candidate(built, entry), shapes=("small", "wide"), seeds=(0, 1), device="cuda:0")
    assert result.status is (Status.FAIL if codes else Status.PASS), result.sentence
    seen = {check.code.removeprefix("correctness.") for check in result.checks}
    assert not codes or codes & seen, seen


def test_a_launcher_of_the_default_stream_passes_where_the_task_says_so(built: dict[str, Path], tmp_path: Path) -> None:
    told = {**candidate(built, "wrong_stream"), "stream": "default"}
    _, result = gate(tmp_path, told, shapes=("small", "wide"), seeds=(0, 1), device="cuda:0")
    assert result.status is Status.PASS, result.sentence


def test_a_library_of_another_architecture_is_a_launch_error(built: dict[str, Path], tmp_path: Path) -> None:
    own = probe().devices[0].arch
    other = next(arch for arch in ("sm_90", "sm_80") if arch != own)  # neither's code runs on the other's card
    library = tmp_path / "other.so"
    subprocess.run(
        [
            find_toolchain().get("nvcc").path,
            "-shared",
            "-Xcompiler",
            "-fPIC",
            f"-gencode=arch=compute_{other[3:]},code={other}",
            "-o",
            str(library),
            str(DATA / "planted.cu"),
        ],
        check=True,
        timeout=300,
    )
    evidence, result = gate(tmp_path, candidate({**built, "library": library}, "honest"), shapes=("small",), seeds=(0,), device="cuda:0")
    assert result.status is Status.FAIL and {case.status for case in evidence.cases} == {"launch_error"}
    assert "no kernel image" in evidence.cases[0].message


def test_a_broken_context_costs_one_case_at_a_time(built: dict[str, Path], tmp_path: Path) -> None:
    evidence, result = gate(tmp_path, candidate(built, "illegal_in_wide"), shapes=("small", "wide"), seeds=(0, 1), device="cuda:0")
    assert [case.status for case in evidence.cases] == ["ok", "ok", "crash", "crash"]
    assert "illegal" in evidence.cases[2].message and result.status is Status.FAIL


@pytest.mark.parametrize(
    ("entry", "tool"),
    [
        ("honest", ""),
        ("tail_write", "memcheck"),
        ("tail_read", "memcheck"),
        ("no_barrier", "racecheck"),
        ("divergent_barrier", "synccheck"),
    ],
)
def test_sanitizer(built: dict[str, Path], tmp_path: Path, entry: str, tool: str) -> None:
    found = find_toolchain().get("compute-sanitizer")
    path = found.path if found else shutil.which("compute-sanitizer")
    if path is None:
        pytest.skip("no compute-sanitizer")
    raw = run.run_sanitizer_device(candidate(built, entry), ["wide", "small"], work=tmp_path, limit_s=120, compute_sanitizer=str(path))
    evidence = parse.parse(raw)
    result = judge.judge(evidence)
    assert result.status is (Status.FAIL if tool else Status.PASS), result.sentence
    findings = [finding for checked in evidence.runs if checked.tool == tool for finding in checked.findings]
    assert not tool or any(finding.where.startswith("planted.cu:") for finding in findings), findings
