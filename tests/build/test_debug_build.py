"""Debug builds: compiled by nvcc -G, marked wherever their run is seen, and never a verdict on resources or speed."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from places import ROOT, TASKS
from runs_kit import RUN, sign
from static_kit import calls, make_task, stub_toolchain

from gates.build.build import build
from gates.cli.main import cli
from gates.core.errors import GatesError
from gates.core.records import Check, Decision, GateResult, Status
from gates.evidence.judging import decision_of, rejudge
from gates.evidence.run_directory import RunInfo, Verdict, list_runs, read_record
from gates.gate import session as steps
from gates.gate.registry import GATES, ROWS, Gate
from gates.pipeline import run as pipeline
from gates.review.history import entry_of
from gates.task.reproduce import runner_command
from gates.verify.run import verify_run

EVERY = [gate for gate in GATES if not ROWS[gate].optional]  # those that each task has
OF_OPTIMISED_CODE = [row.name for row in ROWS.values() if row.of_optimised_code and not row.optional]
RECORDED = list_runs(ROOT / "results" / "recorded" / "h100" / "stage2_wmma_pv")[-1]
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH")


def test_every_command_of_nvcc_gets_the_flag_and_the_folder_is_another(tmp_path: Path) -> None:
    toolchain, task = stub_toolchain(tmp_path), make_task(tmp_path)
    plain = build(task, toolchain, tmp_path / "build", want={"cubin", "device"})
    before = len(calls(tmp_path))
    debug = build(task.for_debugging(), toolchain, tmp_path / "build", want={"cubin", "device"})
    assert debug.folder != plain.folder and not debug.failures
    assert not any("-G" in line.split() for line in calls(tmp_path)[:before])
    assert all("-G" in line.split() for line in calls(tmp_path)[before:] if "-o" in line.split())


@pytest.mark.parametrize(
    ("flags", "variable", "expected"),
    [
        ((), "", False),
        (("-G",), "", True),
        (("--device-debug",), "", True),
        ((), "-lineinfo -G", True),
        (("-Gx", "-DG"), "-g", False),
        (("-Xptxas=-g",), "", True),
        (("-Xptxas", "-g"), "", True),
        (("--ptxas-options=-O0",), "", True),
        (("--ptxas-options", "-v,-O0"), "", True),
        ((), "-Xptxas '-O0'", True),
        ((), "-Xptxas=-v,--opt-level=0", True),
        (("-Xptxas", "-O", "-Xptxas", "0"), "", True),
        (("-Xcicc", "-O0"), "", True),
        (("-Xcicc=-O0",), "", True),
        (("--dopt=off",), "", True),
        (("--dopt", "off"), "", True),
        (("-Xnvlink=-O0",), "", True),
        (("--Ofast-compile=max",), "", True),
        (("-Xptxas=-O3,-v",), "-Xptxas -warn-spills", False),
        (("-O0",), "", False),
        (("-Xcompiler=-O0,-g",), "", False),
        (("--dopt=on",), "", False),
        (("-Xptxas", "-O1"), "", False),
        (("-DX=-Xptxas", "-O0"), "", False),
        (("-lineinfo", "-g"), "", False),
    ],
)
def test_a_debug_build_is_known_whoever_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], variable: str, expected: bool
) -> None:
    monkeypatch.setenv("NVCC_APPEND_FLAGS", variable)
    task = make_task(tmp_path, nvcc_flags=flags)
    assert task.debug_build is expected and task.for_debugging().debug_build
    assert ("NVCC_APPEND_FLAGS=-G" in runner_command(task)) is expected


def test_a_debug_build_by_a_file_of_options(tmp_path: Path) -> None:
    (tmp_path / "options").write_text("-lineinfo\n-Xptxas -O0\n")
    for flags in (("-optf", str(tmp_path / "options")), (f"--options-file={tmp_path / 'options'}",)):
        assert make_task(tmp_path, nvcc_flags=flags).debug_build
    (tmp_path / "options").write_text("-lineinfo\n")
    assert not make_task(tmp_path, nvcc_flags=flags).debug_build


def test_the_log_of_each_form_needs_the_mark(tmp_path: Path) -> None:
    for flag in ("-Xptxas=-g", "--ptxas-options -O0", "-Xcicc -O0"):
        run = Path(shutil.copytree(RECORDED, tmp_path / flag.replace(" ", "")))
        log = run / "build.log"
        log.write_text(log.read_text().replace(" -lineinfo ", f" -lineinfo {flag} ", 1))
        sign(run)
        assert "build.log shows a debug build (nvcc -G), run.json does not say so" in verify_run(run)


def test_what_nvcc_does_not_compile_has_no_debug_build(tmp_path: Path) -> None:
    task = make_task(tmp_path, kind="python", nvcc_flags=("-G",))
    assert not task.debug_build
    with pytest.raises(GatesError, match="--debug: demo is of kind python"):
        task.for_debugging()


@pytest.mark.parametrize("side", ["task", "baseline"])
def test_stored_figures_of_a_debug_build_are_not_judged(side: str) -> None:
    info: RunInfo = read_record(RunInfo, RUN, "run.json")
    before = [rejudge(RUN, info, gate) for gate in EVERY]
    info = replace(info, **{side: replace(getattr(info, side), debug_build=True)})
    results = [rejudge(RUN, info, gate) for gate in EVERY]
    assert [result.code for result in results if result.gate in OF_OPTIMISED_CODE] == [f"{gate}.debug_build" for gate in OF_OPTIMISED_CODE]
    kept = [EVERY.index(gate) for gate in ("correctness", "sanitizer")]
    assert [results[one] for one in kept] == [before[one] for one in kept]
    assert decision_of(info, before) == (Decision.HOLD, "debug build (nvcc -G): neither resources nor speed were judged")


@pytest.mark.parametrize("folder", ["", "baseline"])
def test_a_log_that_shows_a_debug_build_needs_the_mark(tmp_path: Path, folder: str) -> None:
    run = Path(shutil.copytree(RECORDED, tmp_path / "run"))
    log = run / folder / "build.log"
    log.write_text(log.read_text().replace(" -lineinfo ", " -lineinfo -G ", 1))
    sign(run)
    assert f"{folder}/build.log shows a debug build (nvcc -G), run.json does not say so".lstrip("/") in verify_run(run)


def run_debug(folder: Path) -> tuple[str, Path]:
    """What ``gates run --debug`` prints for a copy of saxpy_fast, and its run directory."""
    task = shutil.copytree(TASKS, folder / "tasks") / "saxpy_fast"
    done = CliRunner().invoke(
        cli,
        [
            "run",
            str(task),
            "--debug",
            "--profile",
            "cpu",
            "--results",
            str(folder / "results"),
            "--build-dir",
            str(folder / "build"),
        ],
    )
    assert done.exit_code == 3, done.output
    (run,) = list_runs(folder / "results" / "saxpy_fast")
    return done.stdout, run


def test_a_debug_run_says_so_at_the_top_and_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def passed(row: Gate):
        assert row.name in ("correctness", "sanitizer")  # no other gate is tried
        return lambda session: GateResult(row.name, Status.PASS, f"{row.name}.pass", "as if", (Check("one", Status.PASS, 1, 1, ""),))

    monkeypatch.setattr(Gate, "collecting", passed)
    monkeypatch.setattr(steps.Session, "build", lambda session: None)
    monkeypatch.setattr(pipeline, "_built", lambda info, session: info)
    monkeypatch.setattr(pipeline, "describe", lambda *_, **__: {})
    printed, run = run_debug(tmp_path)
    assert "saxpy_fast against saxpy_slow · profile cpu (asked for) · DEBUG BUILD (nvcc -G)\n" in printed
    assert "decision: hold (debug build (nvcc -G)" in printed
    data = json.loads((run / "run.json").read_text())
    assert (data["task"]["debug_build"], data["baseline"]["debug_build"]) == (True, False)
    verdict = json.loads((run / "verdict.json").read_text())
    assert [gate["status"] for gate in verdict["gates"]] == ["not_run", "not_run", "pass", "pass", "not_run", "not_run"]
    assert {gate["code"] for gate in verdict["gates"] if gate["status"] == "not_run"} == {
        f"{gate}.debug_build" for gate in OF_OPTIMISED_CODE
    }
    report = (run / "COMPARE.md").read_text().splitlines()
    assert report[2] == "debug build (nvcc -G): neither resources nor speed were judged."
    assert any("- note: debug build (nvcc -G) of saxpy_fast" in line for line in report[:8])
    assert entry_of(run).overridden == ("nvcc -G",)


@pytest.mark.slow
@needs_nvcc
def test_a_debug_run_is_sound_and_its_kernels_are_judged_for_correctness(tmp_path: Path) -> None:
    _, run = run_debug(tmp_path)
    assert verify_run(run) == [] and "-G" in (run / "build.log").read_text().split()
    assert [result.status for result in read_record(Verdict, run, "verdict.json").gates[2:4]] == [Status.PASS, Status.PASS]
