"""compute-sanitizer: its reports in old and new formats, and a stub of the tool that lies in all the known ways."""

from __future__ import annotations

import dataclasses
import json
import stat
from pathlib import Path

import jsonschema
import pytest
from correctness_kit import cases_here, side

from gates.core.records import Status, to_json
from gates.core.schema import schema_path
from gates.gate.sanitizer import collect as run
from gates.gate.sanitizer import evidence as parse
from gates.gate.sanitizer import log
from gates.gate.sanitizer.judge import judge
from gates.launch import replay

SCHEMA = schema_path("sanitizer")

MEMCHECK = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at void store_tile<(int)64>(float *, int)+0x160 in /src/kernels/tile.cu:34
=========     by thread (0,0,0) in block (3,0,0)
=========     Access at 0x7f6510c00001 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f6510c00000 of size 4000 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: [0x2c9f]
=========                in /lib/x86_64-linux-gnu/libcuda.so.1
=========
========= Invalid __global__ write of size 4 bytes
=========     at void store_tile<(int)64>(float *, int)+0x160 in /src/kernels/tile.cu:34
=========     by thread (1,0,0) in block (3,0,0)
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call to cudaDeviceSynchronize.
=========
========= ERROR SUMMARY: 3 errors
"""
MEMCHECK_OLD = """========= COMPUTE-SANITIZER
========= Invalid __shared__ read of size 16 bytes
=========     at 0xd0 in /src/kernels/tile.cu:10:oob(int *)
=========     by thread (0,0,0) in block (0,0,0)
========= ERROR SUMMARY: 1 error
"""
RACECHECK = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at sum_kernel(int *, int *)+0x2f0 in sum.cu:47
=========     and Read access at sum_kernel(int *, int *)+0x3d0 in sum.cu:62 [508 hazards]
=========
========= Warning: Race reported between Read access at 0x1f20 in /src/reduce.hpp:249:reduce(double *)
=========     and Write access at 0x14b0 in /src/reduce.hpp:349:reduce(double *) [4 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""
WARNING_ONLY = """========= COMPUTE-SANITIZER
========= Warning: Race reported between Read access at warp_sum(float *)+0x10 in w.cu:9
=========     and Write access at warp_sum(float *)+0x20 in w.cu:9 [4 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)
"""
INITCHECK = """========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at add(float *)+0x70 in add.cu:8
=========     by thread (31,0,0) in block (0,0,0)
========= ERROR SUMMARY: 1 error
"""
SYNCCHECK = """========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in warp
=========     at divergent(int *)+0x90 in d.cu:34
=========     by thread (37,0,0) in block (0,0,0)
========= ERROR SUMMARY: 16 errors
"""


@pytest.mark.parametrize(
    ("text", "tool", "kind", "kernel", "where", "severity", "total"),
    [
        (MEMCHECK, "memcheck", "out_of_bounds", "void store_tile<(int)64>(float *, int)", "tile.cu:34", "error", 3),
        (MEMCHECK_OLD, "memcheck", "shared_out_of_bounds", "oob(int *)", "tile.cu:10", "error", 1),
        (RACECHECK, "racecheck", "race_shared", "sum_kernel(int *, int *)", "sum.cu:47", "error", 1),
        (WARNING_ONLY, "racecheck", "race_shared", "warp_sum(float *)", "w.cu:9", "warning", 0),
        (INITCHECK, "initcheck", "uninitialised_global", "add(float *)", "add.cu:8", "error", 1),
        (SYNCCHECK, "synccheck", "barrier_divergence", "divergent(int *)", "d.cu:34", "error", 16),
    ],
)
def test_reports_are_read(text, tool, kind, kernel, where, severity, total) -> None:
    for form in (text, text.replace("\n", "\r\n")):
        first = log.device_findings(form, tool)[0]
        assert (first.kind, first.kernel, first.where, first.severity) == (kind, kernel, where, severity)
        assert log.summary(form, tool)[0] == total


def test_all_findings_of_a_log_are_read() -> None:
    found = log.device_findings(RACECHECK, "racecheck")
    assert [(f.severity, f.where) for f in found] == [("error", "sum.cu:47"), ("warning", "reduce.hpp:249")]
    found = log.device_findings(MEMCHECK, "memcheck")
    assert [f.kind for f in found] == ["out_of_bounds"] * 2 + ["cudaerrorlaunchfailure"]
    assert log.summary("========= ERROR SUMMARY: x errors\n", "memcheck") == (None, None)
    assert log.summary(INITCHECK, "racecheck") == (None, None)


STUB = """#!/bin/bash
log=; while [ "$1" != "${{1#--}}" ]; do
  case "$1" in --version) echo "Version 2025.3.1"; exit 0;; --log-file) log="$2";; --tool) tool="$2";; esac; shift 2
done
{body}
"""
CLEAN = '[ $tool = racecheck ] && s="RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)" || s="ERROR SUMMARY: 0 errors"\n'
HONEST = CLEAN + '"$@"; code=$?; printf "========= COMPUTE-SANITIZER\\n========= %s\\n" "$s" > "$log"; exit $code'


@pytest.fixture
def gate(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    written = cases_here(monkeypatch, side(library, "honest"), ["small"], tmp_path / "cases")
    monkeypatch.setattr(run, "write_memory_cases", lambda *args, **options: written)

    def call(body: str, entry: str = "honest", limit_s: float = 60):
        tool = tmp_path / "compute-sanitizer"
        tool.write_text(STUB.format(body=body), encoding="utf-8")
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        raw = run.run_sanitizer_device(
            side(library, entry), ["small"], work=tmp_path / "work", limit_s=limit_s, compute_sanitizer=str(tool)
        )
        evidence = parse.parse(raw)
        jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(to_json(evidence))
        return evidence, judge(evidence)

    return call


def test_four_clean_tools_pass(gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    evidence, result = gate('[ -z "$PYTORCH_CUDA_ALLOC_CONF" ] || exit 9\n' + HONEST)
    assert result.status is Status.PASS, result.sentence
    assert result.sentence == "no findings (memcheck, racecheck, initcheck, synccheck; small, tail)"
    assert evidence.tool_version == "Version 2025.3.1" and evidence.neutralised == ("PYTORCH_CUDA_ALLOC_CONF",)
    assert [r.launches for r in evidence.runs] == [4, 4, 4, 4]


@pytest.mark.parametrize(
    ("most_bytes", "shapes"),
    [
        (0, ["small", "tail"]),  # as on the emulator
        (2**16 - 1, ["small", "tail"]),
        (2**16, ["small", "mission", "tail"]),  # 4 bytes x 2^14: loops come round again
        (4000, ["small", "tail"]),  # the smallest is the largest
    ],
)
def test_a_larger_shape_is_checked_too_if_it_is_not_too_large(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_bytes, shapes
) -> None:
    written = cases_here(monkeypatch, side(library, "honest"), ["mission", "small"], tmp_path, most_bytes)
    assert [case["shape"] for case in written] == shapes


def test_on_a_device_it_is_asked_for(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = cases_here(monkeypatch, side(library, "honest"), ["small"], tmp_path / "cases")
    asked: list[int] = []
    monkeypatch.setattr(replay, "write_cases", lambda *args, most_bytes, **options: asked.append(most_bytes) or written)
    run.run_sanitizer_device(side(library, "honest"), ["small"], work=tmp_path / "work", limit_s=60, compute_sanitizer="/bin/true")
    assert asked == [replay.LARGEST_ON_DEVICE_BYTES]


def test_one_tool_less_is_no_pass(gate) -> None:
    evidence, _ = gate(HONEST)
    result = judge(dataclasses.replace(evidence, runs=evidence.runs[:3]))
    assert result.status is Status.NOT_RUN and result.code == "sanitizer.tool_missing"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        # the program was never started, and the tool says that all is well
        (CLEAN + 'echo "========= $s" > $log; exit 0', Status.NOT_RUN, "sanitizer.kernel_not_seen"),
        ('"$@"', Status.NOT_RUN, "sanitizer.no_summary"),
        (
            'echo "========= Error: Device not supported. Please refer to the documentation." > $log; exit 1',
            Status.NOT_RUN,
            "sanitizer.not_supported",
        ),
        ('"$@"; cat > $log <<EOF\n' + MEMCHECK + "EOF\nexit 0", Status.FAIL, "sanitizer.out_of_bounds"),
        (CLEAN.replace("0 errors", "4 errors") + '"$@"; echo "========= $s" > $log; exit 86', Status.FAIL, "sanitizer.finding"),
        (CLEAN + '"$@"; echo "========= $s" > $log; exit 255', Status.INCONCLUSIVE, "sanitizer.exit_code"),
        (CLEAN + '"$@"; echo "========= $s" > $log; kill -SEGV $$', Status.FAIL, "sanitizer.crash"),
        ('"$@"; sleep 60', Status.INCONCLUSIVE, "sanitizer.timeout"),
    ],
)
def test_a_tool_that_checked_nothing_or_found_something(gate, body: str, status: Status, code: str) -> None:
    _, result = gate(body, limit_s=3 if "sleep" in body else 60)
    assert (result.status, result.code) == (status, code), result.sentence


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            'echo "compute-sanitizer: unrecognised option \'--padding\'"; echo "Usage: compute-sanitizer [options] app"; exit 1',
            "unrecognised option '--padding'",
        ),
        ('echo "========= Error: Unknown option --report-api-errors" > $log; exit 1', "Unknown option --report-api-errors"),
        (CLEAN + 'echo "========= $s" > $log; kill -SEGV $$', "killed by SIGSEGV"),
        ("kill -KILL $$", "killed by SIGKILL"),
        ("sleep 60", "time limit"),
        (
            'echo "========= Error: Failed to inject into the target process" > $log; echo "========= ERROR SUMMARY: 0 errors" >> '
            "$log; exit 255",
            "Failed to inject",
        ),
        ('echo "terminate called without an active exception"; kill -ABRT $$', "killed by SIGABRT"),
    ],
)
def test_a_tool_that_ends_before_the_replay_begins_is_not_run_in_its_own_words(gate, body: str, said: str) -> None:
    evidence, result = gate(body, limit_s=1 if "sleep" in body else 60)
    assert (result.status, result.code) == (Status.NOT_RUN, "sanitizer.not_started") and said in result.sentence, result.sentence
    assert not any(run_.findings for run_ in evidence.runs) and "last tile" not in result.checks[0].hint and "ulimit" not in result.sentence


def test_a_tool_that_gives_up_later_is_not_run_and_its_findings_count(gate) -> None:
    complaint = "========= Internal Sanitizer Error: The Sanitizer encountered an error when instrumenting\n"
    clean = "========= ERROR SUMMARY: 0 errors\n"
    _, result = gate(HONEST + f"\ncat > $log <<EOF\n{complaint}{clean}EOF\nexit 255".replace("exit $code", ":"))
    assert result.status is not Status.FAIL
    _, result = gate(f'"$@"; cat > $log <<EOF\n{complaint}{clean}EOF\nexit 255')
    assert (result.status, result.code) == (Status.NOT_RUN, "sanitizer.not_started") and "Internal Sanitizer Error" in result.sentence
    _, result = gate(f"cat > $log <<EOF\n{complaint}{MEMCHECK}EOF\nexit 86")  # a place in a kernel shows that it ran
    assert (result.status, result.code) == (Status.FAIL, "sanitizer.out_of_bounds")


MISSING_WAIT = """========= COMPUTE-SANITIZER
========= Barrier error detected. Missing wait.
=========     at {function}+0x5a0 in {file}:{line}
=========     by thread (0,0,0) in block (1,0,0)
=========
========= ERROR SUMMARY: 16 errors
"""
LIBCUDACXX = MISSING_WAIT.format(
    function="copy_kernel(const float *, float *)", file="/usr/local/cuda/include/cuda/std/__barrier/barrier.h", line=120
)
NVIDIA_WHEEL = LIBCUDACXX.replace("/usr/local/cuda/include/", "/v/site-packages/nvidia/cu13/include/cccl/")
WITHOUT_LINES = MISSING_WAIT.replace(" in {file}:{line}", "").format(function="cuda::__4::barrier<(cuda::thread_scope)2>::arrive(long)")


def synccheck_says(text: str, ending: str = "exit 86") -> str:
    clean = CLEAN + '\nif [ $tool != synccheck ]; then echo "========= $s" > $log; exit 0; fi\n'
    return f'"$@"\n{clean}cat > $log <<EOF\n{text}EOF\n{ending}'


@pytest.mark.parametrize("text", [LIBCUDACXX, NVIDIA_WHEEL, WITHOUT_LINES])
def test_a_missing_wait_inside_a_library_is_shown_and_does_not_reject(gate, text: str) -> None:
    evidence, result = gate(synccheck_says(text))
    assert result.status is Status.PASS and "shown, not counted (synccheck: barrier error" in result.sentence, result.sentence
    assert [finding.severity for run_ in evidence.runs for finding in run_.findings] == ["library"]
    assert [check.name for check in result.checks if "library" in check.name] == ["synccheck inside a library: barrier error"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        # the kernel's own line
        (LIBCUDACXX.replace("/usr/local/cuda/include/cuda/std/__barrier/barrier.h", "/src/kernels/copy.cu"), "finding"),
        # who called it from a branch is the caller
        (LIBCUDACXX.replace("Missing wait.", "Divergent thread(s) in block"), "barrier_divergence"),
        (
            LIBCUDACXX.replace("/cuda/include/cuda/std/__barrier/", "/cuda/include/cooperative_groups/").replace(
                "Missing wait.", "Divergent thread(s) in warp"
            ),
            "barrier_divergence",
        ),
        # one of each
        (LIBCUDACXX.partition("=========\n")[0] + SYNCCHECK.partition("\n")[2], "barrier_divergence"),
    ],
)
def test_what_is_the_caller_s_in_a_library_rejects(gate, text: str, code: str) -> None:
    assert gate(synccheck_says(text))[1].code == f"sanitizer.{code}"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("memcheck", MEMCHECK.replace("/src/kernels/tile.cu", "/usr/local/cuda/include/cub/block/block_load.cuh")),
        (
            "racecheck",
            RACECHECK.replace("in sum.cu:47", "in /usr/local/cuda/include/cub/block/a.cuh:4").replace(
                "in sum.cu:62", "in /usr/local/cuda/include/cub/block/a.cuh:9"
            ),
        ),
    ],
)
def test_other_findings_inside_a_library_are_errors(tool: str, text: str) -> None:
    assert log.device_findings(text, tool)[0].severity == "error"


def test_a_launch_error_under_the_tool_fails(gate) -> None:
    _, result = gate(HONEST, entry="returns_error")
    assert (result.status, result.code) == (Status.FAIL, "sanitizer.launch_error")


def racecheck_says(text: str, ending: str) -> str:
    """A stub whose other tools are clean."""
    return (
        '"$@"\nif [ $tool != racecheck ]; then echo "========= ERROR SUMMARY: 0 errors" > $log; exit 0; fi\n'
        f"cat > $log <<EOF\n{text}EOF\n{ending}"
    )


@pytest.mark.parametrize("code", [0, 86])  # with --error-exitcode 86, by version
def test_warnings_are_shown_and_do_not_fail(gate, code: int) -> None:
    evidence, result = gate(racecheck_says(WARNING_ONLY, f"exit {code}"))
    assert result.status is Status.PASS and result.sentence.endswith("; 1 warning shown, not counted (racecheck: race_shared at w.cu:9)")
    assert evidence.runs[1].findings[0].severity == "warning" and evidence.tool_version == "Version 2025.3.1"
    shown = next(check for check in result.checks if check.name == "racecheck warning: race_shared")
    assert (shown.status, shown.observed, shown.unit) == (Status.PASS, 1, "warnings") and "w.cu:9 in warp_sum(float *)" in shown.hint


@pytest.mark.parametrize(
    ("text", "ending", "status", "code"),
    [
        (RACECHECK, "exit 86", Status.FAIL, "sanitizer.race_shared"),
        (WARNING_ONLY, "exit 1", Status.INCONCLUSIVE, "sanitizer.exit_code"),  # not the tool's own code: something else broke
        (WARNING_ONLY.rpartition("========= RACECHECK")[0], "exit 86", Status.NOT_RUN, "sanitizer.no_summary"),
        (
            "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n",
            "exit 86",
            Status.INCONCLUSIVE,
            "sanitizer.exit_code",
        ),
        (WARNING_ONLY.replace("0 errors", "2 errors"), "exit 86", Status.FAIL, "sanitizer.finding"),
    ],
)
def test_warnings_hide_nothing_else(gate, text: str, ending: str, status: Status, code: str) -> None:
    _, result = gate(racecheck_says(text, ending))
    assert (result.status, result.code) == (status, code), result.sentence


def test_a_missing_tool_is_not_run_with_the_remedy(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = judge(parse.parse(run.run_sanitizer_device(side(library, "honest"), ["small"], work=tmp_path, limit_s=9)))
    assert result.status is Status.NOT_RUN and "nvidia-cuda-sanitizer-api" in result.sentence
