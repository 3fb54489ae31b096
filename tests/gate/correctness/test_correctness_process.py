"""Crashes, hangs and lies of the runner process; each planted in a real process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import pytest
from correctness_kit import LIMITS, gate, side

from gates.core.errors import GatesError
from gates.core.records import Status, from_json, to_json
from gates.core.schema import schema_path
from gates.gate.correctness import evidence as parse
from gates.gate.correctness import judge
from gates.gate.correctness.collect import run_correctness
from gates.launch.replay import write_cases
from gates.worker.machine_fault import MachineFault

SCHEMA = schema_path("correctness")


def statuses(evidence: parse.CorrectnessEvidence) -> dict[str, str]:
    return {case.where: case.status for case in evidence.cases}


def test_a_crash_costs_one_case(library: Path, tmp_path: Path) -> None:
    evidence, result = gate(tmp_path, side(library, "crashes_in_seed_1"), shapes=("small",))
    assert statuses(evidence) == {
        "small seed 0": "ok",
        "small seed 1": "crash",
        "small seed 2": "ok",
        "tail seed 0 (odd)": "ok",
    }
    assert evidence.cases[1].message == "killed by SIGSEGV while running the kernel"
    assert len(evidence.processes) == 2
    assert result.status is Status.FAIL and result.code == "correctness.crash"
    assert next(check for check in result.checks if check.name == "cases").observed == "2/3"
    _check_schema(evidence)


@pytest.mark.parametrize(("line", "fault"), [("header", True), ("phase", False)])
def test_a_judge_that_is_killed_before_a_case_is_no_crash_of_the_kernel(tmp_path: Path, line: str, fault: bool) -> None:
    """Somebody else killed it: the kernel has a process of its own, and had not been asked."""
    told = {"header": {"cases": []}, "phase": {"index": 0, "phase": "kernel"}}[line]
    program = tmp_path / "python"
    program.write_text(
        f"""#!{sys.executable}
import json, os, sys
job = json.load(open(sys.argv[sys.argv.index("--job") + 1]))
open(job["result"], "a").write(json.dumps({{"type": {line!r}, "nonce": job["nonce"], **{told!r}}}) + "\\n")
os.kill(os.getpid(), 9)
"""
    )
    program.chmod(0o755)
    asked = {"work": tmp_path, "limit_s": 60.0, "python": str(program)}
    kernel = {"name": "mine", "folder": str(tmp_path), "emulated": True, "library": "", "kind": "cuda"}
    if fault:
        with pytest.raises(MachineFault, match="judges mine was killed by SIGKILL before a case began"):
            run_correctness(kernel, ["small"], [0], **asked)
    else:
        raw = run_correctness(kernel, ["small"], [0], **asked)
        assert raw["candidate"]["jobs"][0]["cause"] == "killed by SIGKILL"


def test_a_hang_is_killed_and_the_rest_is_tried(library: Path, tmp_path: Path) -> None:
    evidence, result = gate(tmp_path, side(library, "hangs_in_seed_1"), shapes=("small",), seeds=(0, 1), limit_s=8)
    assert statuses(evidence) == {"small seed 0": "ok", "small seed 1": "timeout", "tail seed 0 (odd)": "ok"}
    assert "time limit" in evidence.cases[1].message
    assert result.status is Status.FAIL and result.code == "correctness.timeout"


def test_endless_printing_is_killed_and_recorded(library: Path, tmp_path: Path) -> None:
    evidence, result = gate(tmp_path, side(library, "prints_without_end"), shapes=("small",), seeds=(0,), quick=False)
    assert evidence.cases[0].message == "killed: printed more than 256 MiB while running the kernel"
    assert result.status is Status.FAIL and result.code == "correctness.crash"
    assert all(path.stat().st_size < 17 * 2**20 for path in tmp_path.iterdir())


def test_exit_0_with_a_printed_pass_is_no_result(library: Path, tmp_path: Path) -> None:
    evidence, result = gate(tmp_path, side(library, "exits_with_0"), shapes=("small",), seeds=(0, 1), quick=False)
    assert {case.message for case in evidence.cases} == {"exit 0 while running the kernel"}
    assert result.status is Status.FAIL and result.code == "correctness.crash"


def test_five_of_six_is_not_six(library: Path, tmp_path: Path) -> None:
    evidence, result = gate(tmp_path, side(library, "drops_the_last"), shapes=("small", "tail"), quick=False)
    assert list(statuses(evidence).values()) == ["ok"] * 5 + ["crash"]
    assert result.status is Status.FAIL and result.code == "correctness.crash"
    assert next(check for check in result.checks if check.name == "cases").observed == "5/6"


def test_honest_kernel_in_a_real_process(library: Path, tmp_path: Path) -> None:
    evidence, result = gate(tmp_path, side(library, "honest"), extra_seeds=(9,))
    assert result.status is Status.PASS, result.sentence
    _check_schema(evidence)
    again = from_json(parse.CorrectnessEvidence, json.loads(json.dumps(to_json(evidence))), "correctness.json")
    assert again == evidence and judge.judge(again, LIMITS) == result


def test_cases_shared_out_to_processes_are_those_of_one(library: Path, tmp_path: Path) -> None:
    one, three = (gate(tmp_path / f"{count}", side(library, "honest"), extra_seeds=(9,), processes=count) for count in (1, 3))
    assert three[1] == one[1] and [(case.key, case.role) for case in three[0].cases] == [(case.key, case.role) for case in one[0].cases]
    assert [(case.inputs_sha256, case.output_sha256) for case in three[0].cases] == [
        (case.inputs_sha256, case.output_sha256) for case in one[0].cases
    ]
    assert (len(one[0].processes), len(three[0].processes)) == (1, 3)


def test_a_crash_in_one_share_costs_one_case(library: Path, tmp_path: Path) -> None:
    evidence, result = gate(tmp_path, side(library, "crashes_in_seed_1"), shapes=("small",), processes=2)
    assert list(statuses(evidence).items()) == [
        ("small seed 0", "ok"),
        ("small seed 1", "crash"),
        ("small seed 2", "ok"),
        ("tail seed 0 (odd)", "ok"),
    ]
    assert result.code == "correctness.crash" and len(evidence.processes) == 3, "the third does what the second left"


def limited_python(folder: Path, kib: int) -> str:
    """An interpreter that can write no file larger than ``kib``."""
    script = folder / "limited-python"
    script.write_text(f'#!/bin/sh\nulimit -f {kib * 2}\nexec {sys.executable} "$@"\n')  # dash counts in 512 bytes
    script.chmod(0o755)
    return str(script)


def test_a_result_file_that_can_t_be_written_is_no_verdict(library: Path, tmp_path: Path) -> None:
    with pytest.raises(GatesError, match="can't write .*candidate.0.jsonl: File too large") as caught:
        gate(tmp_path, side(library, "honest"), python=limited_python(tmp_path, 4))
    assert caught.value.exit_code == 2 and "ulimit -f" in (caught.value.hint or "")


def test_a_case_file_that_can_t_be_written_is_no_verdict(library: Path, tmp_path: Path) -> None:
    with pytest.raises(GatesError, match="can't write .*small.default.seed0.case: File too large"):
        write_cases(side(library, "honest"), ["small"], work=tmp_path, limit_s=60, python=limited_python(tmp_path, 4))


def _check_schema(evidence: parse.CorrectnessEvidence) -> None:
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(to_json(evidence))
