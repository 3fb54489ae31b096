"""The emulator side of the sanitizer gate, with real AddressSanitizer and UBSan on plain C++ launchers."""

from __future__ import annotations

import array
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from correctness_kit import cases_here, compile_planted, side
from places import DATA, ROOT

from gates.core.errors import GatesError
from gates.core.records import Status, from_json, to_json
from gates.core.schema import schema_path
from gates.emulator.library import compile_library
from gates.gate.sanitizer import collect as run
from gates.gate.sanitizer import evidence as parse
from gates.gate.sanitizer.judge import judge
from gates.launch import case_file

SCHEMA = schema_path("sanitizer")
pytestmark = pytest.mark.skipif(
    shutil.which("g++") is None or run._asan_runtime("g++") is None, reason="g++ has no AddressSanitizer library"
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_planted(tmp_path_factory.mktemp("asan"), "-DGUARD=0", "-fsanitize=address,undefined", "-fno-omit-frame-pointer")


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


QUANTISED = ROOT / "studies" / "honest" / "cases" / "h_quant_int8"


@pytest.mark.parametrize(
    ("to_whole", "finding"),
    [
        ("__float2int_rn(in[i] * inv)", ""),
        ("int(rintf(in[i] / scale))", "small zero_rows forward"),  # 0 / 0
        ("min(max(int(in[i] * inv * 1e12f), -127), 127)", ""),  # a device saturates
        ("__float2int_rn(in[i] / scale)", ""),  # which makes 0 of NaN, and says so
    ],
    ids=["guarded", "nan", "saturates", "defined"],
)
def test_a_row_of_zeros_that_is_divided_by_its_scale(to_whole: str, finding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs look right: a conversion of NaN gives 0 on a device, as on this CPU. The language leaves it undefined."""
    shutil.copytree(
        QUANTISED.parent,
        tmp_path / "cases",
        ignore=lambda folder, names: [name for name in names if Path(folder, name).is_dir() and name != QUANTISED.name],
    )
    source = tmp_path / "cases" / QUANTISED.name / "kernel.cu"
    text = source.read_text(encoding="utf-8")
    assert text.count("__float2int_rn(in[i] * inv)") == 1
    source.write_text(text.replace("__float2int_rn(in[i] * inv)", to_whole), encoding="utf-8")
    library = compile_library([source], tmp_path / "quant.so", sanitize=True, work_dir=tmp_path / "build")
    candidate = side(library, "launch", source.parent, "quant_p")
    cases = cases_here(monkeypatch, candidate, ["small"], tmp_path / "written", values=True)
    assert {case["inputs"] for case in cases} >= {"default", "zero_rows", "one_hot"} and not {case["inputs"] for case in cases} & {
        "nan",
        "infinity",
    }
    evidence = parse.parse(run.run_sanitizer_emulator(candidate, ["small"], work=tmp_path / "work", limit_s=60, cases=cases))
    result = judge(evidence)
    failed = [check for check in result.checks if check.status is Status.FAIL]
    assert [(check.name, check.where) for check in failed] == ([("ubsan: NaN as a whole number", finding)] if finding else []), (
        result.checks
    )
    assert finding or result.status is Status.PASS and "kinds of structured values" in result.sentence
    assert not finding or f"kernel.cu:{text[: text.index('__float2int_rn(in')].count(chr(10)) + 1}" in failed[0].hint


def test_an_honest_kernel_is_clean(library: Path, cases: list[dict], tmp_path: Path) -> None:
    evidence, result = gate(library, "honest", tmp_path)
    assert result.status is Status.PASS, result.sentence
    assert [(r.shapes, r.order) for r in evidence.runs] == [(("small",), order) for order in run.ORDERS]
    assert all(r.seen and r.launches == r.expected_launches == 2 for r in evidence.runs)
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(to_json(evidence))
    assert from_json(parse.SanitizerEvidence, json.loads(json.dumps(to_json(evidence))), "s") == evidence


@pytest.mark.parametrize(
    ("entry", "tool", "kind", "line_of"),
    [
        ("past_the_heap", "asan", "heap-buffer-overflow", "ENTRY(past_the_heap)"),
        ("reads_past_input", "asan", "heap-buffer-overflow", "ENTRY(reads_past_input)"),
        ("before_the_start", "asan", "heap-buffer-overflow", "ENTRY(before_the_start)"),
        ("shifts_by_too_much", "ubsan", "undefined behaviour", "ENTRY(shifts_by_too_much)"),
        ("has_finding", "emulator", "barrier_divergence", None),
    ],
)
def test_planted_fault_is_found_with_its_line(library, cases, tmp_path, entry, tool, kind, line_of) -> None:
    evidence, result = gate(library, entry, tmp_path)
    assert result.status is Status.FAIL and result.code == "sanitizer.finding"
    finding = evidence.runs[0].findings[0]
    assert (finding.tool, finding.kind) == (tool, kind)
    if line_of is None:
        assert finding.where == "saxpy.cu:12"
    else:
        source = (DATA / "correctness/planted.cpp").read_text().splitlines()
        number = next(i for i, line in enumerate(source, start=1) if line.startswith(line_of))
        assert finding.where == f"planted.cpp:{number}"
        assert entry in finding.kernel
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(to_json(evidence))


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


def test_a_sanitizer_that_can_t_start_is_not_run(library, cases, tmp_path) -> None:
    limited = tmp_path / "limited-python"
    script = f'ulimit -v 1500000; LD_PRELOAD={run._asan_runtime("g++")} exec {sys.executable} "$@"'
    limited.write_text(f"#!/bin/sh\nunset LD_PRELOAD\n{script}\n")
    limited.chmod(0o755)
    raw = run.run_sanitizer_emulator(side(library, "honest"), ["small"], work=tmp_path, limit_s=60, python=str(limited))
    result = judge(parse.parse(raw))
    assert result.status is Status.NOT_RUN and result.code == "sanitizer.not_started", result
    assert "ulimit -v" in result.sentence


@pytest.mark.parametrize("name", ["a b,c:d", 'it\'s 100% "x#y"', "größe"])
def test_reports_are_found_in_any_folder(library, cases, tmp_path, name) -> None:
    evidence, result = gate(library, "past_the_heap", tmp_path / name)
    assert result.status is Status.FAIL and any(finding.where for run_ in evidence.runs for finding in run_.findings)


def test_last_words_that_are_not_about_memory_get_no_advice_about_it(library, cases, tmp_path) -> None:
    wrong = tmp_path / "wrong-python"
    wrong.write_text("#!/bin/sh\necho \"AddressSanitizer: ERROR: expected '=' in ASAN_OPTIONS\"; exit 1\n")
    wrong.chmod(0o755)
    result = judge(
        parse.parse(run.run_sanitizer_emulator(side(library, "honest"), ["small"], work=tmp_path, limit_s=60, python=str(wrong)))
    )
    assert result.code == "sanitizer.not_started" and "expected '='" in result.sentence and "ulimit" not in result.sentence


def test_without_libasan_it_is_not_run(library: Path, tmp_path: Path) -> None:
    evidence = parse.parse(run.run_sanitizer_emulator(side(library, "honest"), ["small"], work=tmp_path, limit_s=9, compiler="no-such-g++"))
    assert judge(evidence).status is Status.NOT_RUN and "install g++" in judge(evidence).sentence


def test_the_replay_imports_neither_torch_nor_numpy() -> None:
    code = "import sys, gates.worker.runner, gates.launch.replay; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
