"""The emulator side of the sanitizer gate, on launchers of a stand-in for the emulator and on planted CUDA kernels."""

from __future__ import annotations

import array
import json
import math
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from correctness_kit import cases_here, side

from gates.core.errors import GatesError
from gates.core.records import Status, from_json, to_json
from gates.core.schema import schema_path
from gates.gate.sanitizer import collect as run
from gates.gate.sanitizer import evidence as parse
from gates.gate.sanitizer.judge import judge
from gates.launch import case_file

SCHEMA = schema_path("sanitizer")


@pytest.fixture
def cases(library: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """Case files written by this process: saves a start of torch a test."""
    written = cases_here(monkeypatch, side(library, "honest"), ["mission", "small"], tmp_path_factory.mktemp("cases"))
    assert [case["shape"] for case in written] == ["small", "tail"]
    monkeypatch.setattr(run, "write_memory_cases", lambda *args, **options: written[:1])
    return written


def gate(library: Path, entry: str, work: Path, limit_s: float = 60):
    evidence = parse.parse(run.run_sanitizer_emulator(side(library, entry), ["small"], work=work, limit_s=limit_s))
    return evidence, judge(evidence)


def test_cases_hold_inputs_and_poisoned_outputs(library: Path, cases: list[dict]) -> None:
    assert cases[0]["bytes"] == 3 * 4000
    case = case_file.read(Path(cases[0]["path"]))
    assert [(a["name"], a["kind"]) for a in case.arguments] == [
        ("x", "buffer"),
        ("y", "buffer"),
        ("out", "buffer"),
        ("N", "int"),
        ("a", "float"),
    ]
    assert [a["output"] for a in case.arguments[:3]] == [False, False, True]
    outputs = array.array("f", case.content["out"])
    assert len(outputs) == 1000 and all(math.isnan(value) for value in outputs)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: b"no case at all",
        lambda data: data[:20] + b"\xff" * 8 + data[28:],
        lambda data: data.replace(b'"shape"', b"'shape'"),
    ],
)
def test_a_broken_case_file_is_refused(cases: list[dict], tmp_path: Path, change) -> None:
    path = tmp_path / "broken.case"
    path.write_bytes(change(Path(cases[0]["path"]).read_bytes()))
    with pytest.raises(GatesError, match="broken.case"):
        case_file.read(path)


def test_an_honest_kernel_is_clean(library: Path, cases: list[dict], tmp_path: Path) -> None:
    evidence, result = gate(library, "honest", tmp_path)
    assert result.status is Status.PASS, result.sentence
    assert [(r.tool, r.shapes, r.order) for r in evidence.runs] == [("emulator", ("small",), "")]
    assert all(r.seen and r.launches == r.expected_launches == 2 for r in evidence.runs)
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(to_json(evidence))
    assert from_json(parse.SanitizerEvidence, json.loads(json.dumps(to_json(evidence))), "s") == evidence


def test_a_finding_fails_and_names_kernel_and_line(library, cases, tmp_path) -> None:
    evidence, result = gate(library, "has_finding", tmp_path)
    assert result.status is Status.FAIL and result.code == "sanitizer.barrier_divergence"
    finding = evidence.runs[0].findings[0]
    assert (finding.tool, finding.kind, finding.kernel, finding.where) == ("emulator", "barrier_divergence", "saxpy", "saxpy.cu:12")
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(to_json(evidence))


def test_what_one_case_shows_is_told_of_that_case(library, cases, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(run, "write_memory_cases", lambda *args, **options: cases)
    evidence, result = gate(library, "has_finding", tmp_path)
    assert [one.shapes for one in evidence.runs] == [("small",), ("tail",)]
    assert [check.where for check in result.checks] == ["small", "tail"]
    evidence, result = gate(library, "honest", tmp_path)
    assert [one.shapes for one in evidence.runs] == [("small", "tail")] and result.status is Status.PASS


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ("returns_error", "sanitizer.launch_error"),
        ("exits_with_0", "sanitizer.kernel_not_seen"),
    ],
)
def test_a_kernel_that_is_not_checked_to_its_end_does_not_pass(library, cases, tmp_path, entry, code) -> None:
    _, result = gate(library, entry, tmp_path)
    assert result.status is not Status.PASS and result.code == code


def test_a_replay_that_can_t_start_is_not_run_and_its_last_words_are_told(library, cases, tmp_path) -> None:
    wrong = tmp_path / "wrong-python"
    wrong.write_text("#!/bin/sh\necho 'error: no python here'; exit 1\n")
    wrong.chmod(0o755)
    result = judge(
        parse.parse(run.run_sanitizer_emulator(side(library, "honest"), ["small"], work=tmp_path, limit_s=60, python=str(wrong)))
    )
    assert result.code == "sanitizer.not_started" and "no python here" in result.sentence


def test_the_replay_imports_neither_torch_nor_numpy() -> None:
    code = "import sys, gates.worker.runner, gates.launch.replay; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
