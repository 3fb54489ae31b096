"""Compiled launchers that attack their judge from the confined process that they run in; docs/internals/sandbox.md names each of these
tests.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
from pathlib import Path

import pytest
from correctness_kit import gate, side
from places import DATA, ROOT, TESTS

from gates.core.records import GateResult, Status
from gates.gate.correctness.evidence import CorrectnessEvidence
from gates.gate.sanitizer import evidence as parse
from gates.gate.sanitizer import judge
from gates.gate.sanitizer.collect import run_sanitizer_emulator
from gates.launch.replay import write_cases

SOURCE = DATA / "sandbox" / "attacks.cpp"
SEED = 10**9 + secrets.randbelow(10**9)  # a fresh one, of ten digits


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    mask, path = secrets.randbits(40), tmp_path_factory.mktemp("attacks") / "attacks.so"
    subprocess.run(
        [
            "g++",
            "-std=c++17",
            "-shared",
            "-fPIC",
            "-O1",
            "-w",
            f"-DMARK_A={SEED ^ mask}LL",
            f"-DMARK_B={mask}LL",
            f"-DPARENT={os.getpid()}",
            str(SOURCE),
            "-o",
            str(path),
            "-ldl",
        ],
        check=True,
        timeout=120,
    )
    return path


def attack(library: Path, folder: Path, entry: str) -> tuple[CorrectnessEvidence, GateResult, dict[str, set[str]]]:
    """The launcher ``entry`` judged in real processes, one known and one fresh seed: evidence, verdict, and what each attempt came to."""
    (folder / "kept").write_text("kept\n", encoding="utf-8")
    os.utime(folder / "kept", (10**9, 10**9))
    os.chmod(folder / "kept", 0o640)
    work = folder / "work"
    evidence, result = gate(work, side(library, entry), shapes=("small",), seeds=(0,), extra_seeds=(SEED,), quick=False)
    told = work / f"scratch.{entry}.candidate.0" / "attempts"
    outcome: dict[str, set[str]] = {}
    for line in told.read_text(encoding="utf-8").splitlines() if told.is_file() else ():
        outcome.setdefault(line.split()[0], set()).add(line.split()[1])
    about = (folder / "kept").stat()
    assert (about.st_mode & 0o777, about.st_mtime) == (0o640, 10**9) and (folder / "kept").read_text(encoding="utf-8") == "kept\n"
    assert not list(folder.glob("made")) and not list(work.glob("made"))
    if "ran isolated: calls denied, files denied, others denied" not in evidence.processes[0]:
        pytest.skip(f"this system can't confine a process: {evidence.processes[0]}")
    return evidence, result, outcome


def refused(library: Path, folder: Path, entry: str, *but: str, code: str = "correctness.max_abs_err") -> None:
    """The wrong answer of ``entry`` is told as wrong, and each of its attempts was refused, ``but`` those which are its own business."""
    _, result, outcome = attack(library, folder, entry)
    assert result.status is Status.FAIL and any(check.code == code for check in result.checks), result.checks
    assert outcome and {name for name, what in outcome.items() if "done" in what} == set(but), outcome


def test_the_same_launcher_without_an_attack_passes(library: Path, tmp_path: Path) -> None:
    _, result, _ = attack(library, tmp_path, "honest")
    assert result.status is Status.PASS, result.checks


def test_no_seed_is_in_the_memory_of_a_kernel_s_process(library: Path, tmp_path: Path) -> None:
    refused(library, tmp_path, "searches_its_memory", "searched")


def test_no_seed_is_in_a_file_or_in_the_environment(library: Path, tmp_path: Path) -> None:
    refused(library, tmp_path, "searches_files")


def test_no_other_process_can_be_read(library: Path, tmp_path: Path) -> None:
    refused(library, tmp_path, "reads_other_processes")


def test_no_descriptor_is_inherited_but_the_pipes_to_the_judge_and_a_log_to_write(library: Path, tmp_path: Path) -> None:
    refused(library, tmp_path, "uses_inherited_descriptors")


def test_no_file_outside_the_scratch_folder_is_written(library: Path, tmp_path: Path) -> None:
    refused(library, tmp_path, "writes_results")
    assert not Path("/tmp/gates-made").exists()


def test_no_file_s_mode_owner_times_or_attributes_are_changed(library: Path, tmp_path: Path) -> None:
    refused(library, tmp_path, "changes_attributes")


def test_the_interpreter_of_a_kernel_s_process_judges_nothing(library: Path, tmp_path: Path) -> None:
    refused(library, tmp_path, "calls_the_interpreter", "called")


def test_patched_machine_code_judges_nothing(library: Path, tmp_path: Path) -> None:
    refused(library, tmp_path, "patches_the_c_library", "patched", code="correctness.crash")  # nor its own process any more


def test_no_other_process_is_ended_stopped_or_limited(library: Path, tmp_path: Path) -> None:
    refused(library, tmp_path, "kills_others")


def test_limits_hold_and_can_t_be_raised(library: Path, tmp_path: Path) -> None:
    refused(library, tmp_path, "raises_limits")


def test_no_process_and_no_program_is_started_by_a_launcher_on_the_emulator(library: Path, tmp_path: Path) -> None:
    refused(library, tmp_path, "stays_behind")


def test_name_spaces_mounts_and_kernel_interfaces_are_refused(library: Path, tmp_path: Path) -> None:
    refused(library, tmp_path, "widens_its_rights")


def test_an_exit_of_a_kernel_s_process_is_its_case_s_result(library: Path, tmp_path: Path) -> None:
    evidence, result, _ = attack(library, tmp_path, "exits")
    assert result.status is Status.FAIL and [case.message for case in evidence.cases] == ["exit 0 while running the kernel"] * 2


def memory_checked(library: Path, folder: Path, entry: str) -> GateResult:
    """The verdict of the memory checks on the emulator."""
    candidate = side(library, entry)
    cases = write_cases(candidate, ["small"], work=folder, limit_s=60)
    return judge.judge(parse.parse(run_sanitizer_emulator(candidate, ["small"], work=folder, limit_s=60, cases=cases)))


@pytest.mark.parametrize(("entry", "status"), [("honest", Status.PASS), ("answers_its_replay", Status.NOT_RUN)])
def test_a_replay_s_result_is_the_judge_s(library: Path, tmp_path: Path, entry: str, status: Status) -> None:
    result = memory_checked(library, tmp_path, entry)
    assert result.status is status, result.checks
    found = list(tmp_path.glob(f"scratch.{entry}.*/attempts"))
    assert not any(" done" in told.read_text(encoding="utf-8") for told in found)


def test_each_line_of_the_page_names_tests_that_exist() -> None:
    page = (ROOT / "docs" / "internals" / "sandbox.md").read_text(encoding="utf-8")
    table = page.partition("## What it can't do")[2].partition("## What is not covered")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith(("| ---", "| it tries"))]
    assert len(rows) > 15
    for row in rows:
        named = re.findall(r"`(?:tests/(?:\w+/)*(test_\w+\.py)::)?(test_\w+)`", row.split("|")[3])
        assert named, f"no test is named: {row}"
        for file, name in named:
            assert f"def {name}(" in next(TESTS.rglob(file or "test_sandbox.py")).read_text(encoding="utf-8"), f"{file} has no {name}"
    named = set(re.findall(r"`(test_\w+)`", table))
    own = set(re.findall(r"^def (test_\w+)\(", Path(__file__).read_text(encoding="utf-8"), re.MULTILINE))
    assert own - named == {"test_the_same_launcher_without_an_attack_passes", "test_each_line_of_the_page_names_tests_that_exist"}
