"""A Python kernel that is hostile: what it tries in its own process changes nothing in the one that judges it."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from correctness_kit import LIMITS, judge, parse, run
from places import DATA
from sandbox_kit import sandbox_here

from gates.core.errors import EXIT_HOLD, GatesError
from gates.core.records import GateResult, Status
from gates.worker import isolated, sandbox, syscall_filter, wire

HOSTILE = DATA / "hostile"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(HOSTILE, tmp_path / "hostile")
    return tmp_path / "hostile"


def judged(folder: Path, entry: str) -> tuple[dict[str, Any], GateResult]:
    """One case of the kernel ``entry`` in real processes, and the verdict on it."""
    side = {
        "name": entry,
        "library": str(folder / "kernel.py"),
        "entry": entry,
        "folder": str(folder),
        "problem": "doubled_problem",
        "emulated": True,
        "kind": "python",
        "arguments": [],
    }
    raw = run.run_correctness(side, ["small"], [0], work=folder / "work", limit_s=120, bad_atol=LIMITS["bad_atol"], limits=LIMITS)
    return raw, judge.judge(parse.parse(raw), LIMITS)


def test_a_wrong_answer_stays_wrong_whatever_the_kernel_does_to_its_process(folder: Path) -> None:
    if not sandbox_here(folder):
        pytest.skip("this system can't deny files and other processes, and the kernel would stop its judge")
    raw, verdict = judged(folder, "wrong")
    outcome = json.loads((folder / "work" / "scratch.wrong.candidate.0" / "attempts.json").read_text(encoding="utf-8"))
    assert len(outcome) == 10 and "worked" not in outcome.values(), outcome
    assert verdict.status is Status.FAIL
    assert any(check.code == "correctness.max_abs_err" for check in verdict.checks)
    (process,) = parse.parse(raw).processes
    assert "ran isolated: calls " in process and "memory limited to" in process
    assert "confined: calls" in raw["candidate"]["jobs"][0]["output_tail"], "the judging process is confined, too"


def test_an_honest_kernel_passes_and_what_it_prints_is_no_result(folder: Path) -> None:
    raw, verdict = judged(folder, "right")
    assert verdict.status is Status.PASS, verdict.checks
    assert len(raw["candidate"]["jobs"]) == 1


def test_a_kernel_language_keeps_what_it_compiled_where_it_may_write(folder: Path) -> None:
    _, verdict = judged(folder, "caching")
    assert verdict.status is Status.PASS, verdict.checks


def test_a_kernel_that_breaks_off_has_crashed(folder: Path) -> None:
    _, verdict = judged(folder, "leaves")
    assert verdict.status is Status.FAIL
    assert any(check.code == "correctness.crash" and "exit 0" in str(check.observed) for check in verdict.checks), verdict.checks


def test_an_answer_that_makes_no_sense_is_the_kernel_s_fault(folder: Path) -> None:
    _, verdict = judged(folder, "speaks_nonsense")
    crashes = [str(check.observed) for check in verdict.checks if check.code == "correctness.crash"]
    assert crashes and "the kernel's process answered with" in crashes[0], verdict.checks


@pytest.mark.parametrize("fork", ["1", "0"])
def test_a_kernel_may_use_processes_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch, fork: str) -> None:
    monkeypatch.setenv("GATES_FORK", fork)
    _, verdict = judged(folder, "spawns")
    assert verdict.status is Status.PASS, verdict.checks


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_a_function_that_needs_a_device_is_no_failure_where_there_is_none(folder: Path) -> None:
    with pytest.raises(GatesError, match="not compiled with CUDA|NVIDIA|dummy base class CUDAGraph") as raised:
        judged(folder, "asks_for_a_device")
    assert raised.value.exit_code == EXIT_HOLD


def test_values_travel_as_they_are() -> None:
    value = {"x": torch.tensor([[1.5, float("nan")]], dtype=torch.bfloat16), "n": (1, [None, True, "a"]), "empty": torch.zeros(0, 3)}
    stream = io.BytesIO()
    wire.send(stream, value)
    stream.seek(0)
    back = wire.receive(stream)
    assert back["n"] == value["n"] and back["empty"].shape == (0, 3)
    assert back["x"].dtype is torch.bfloat16 and back["x"].view(torch.int16).equal(value["x"].view(torch.int16))
    with pytest.raises(TypeError, match="function"):
        wire.send(io.BytesIO(), len)


@pytest.mark.parametrize(
    "frame",
    [
        b"\xff" * 64,
        (4).to_bytes(8, "little") + b"junk",
        b"\x02\0\0\0\0\0\0\0{}",
        *(
            len(text).to_bytes(8, "little") + text
            for text in (
                b'{"value": {"tensor": 0}, "tensors": []}',
                b'{"value": {"tensor": 0}, "tensors": [{"dtype": "load", "shape": []}]}',
                b'{"value": 1, "tensors": [{"dtype": "uint8", "shape": [-1]}]}',
                b'{"value": 1, "tensors": [{"dtype": "uint8", "shape": [99999999999999]}]}',
                b'{"value": {"exec": "1"}, "tensors": []}',
            )
        ),
    ],
)
def test_what_is_no_frame_is_refused(frame: bytes) -> None:
    with pytest.raises(wire.BadFrame):
        wire.receive(io.BytesIO(frame), most_bytes=2**20)


def test_what_a_system_cannot_deny_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def syscall(self, *arguments: object) -> int:
            return -1

        def prctl(self, *arguments: object) -> int:
            return -1

    files, others = sandbox._deny_files(Refusing(), [])
    assert files == others == "not denied: no Landlock here"
    assert syscall_filter.deny(Refusing(), local_sockets=False, processes=True).startswith("not denied: ")
    monkeypatch.setattr(sandbox.platform, "machine", lambda: "riscv64")
    assert syscall_filter.deny(Refusing(), local_sockets=False, processes=True) == "not denied: no filter for riscv64"
    monkeypatch.setattr(sandbox.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(sandbox.ctypes, "CDLL", lambda *arguments, **named: Refusing())
    assert set(sandbox.enter([]).values()) == {"not denied: Darwin has no means for it"}


def test_shared_memory_and_devices(tmp_path: Path) -> None:
    """Shared memory is for the kernel's use, but not where the results of its judge lie in it; no process changes another's limits."""
    if not sandbox_here(tmp_path):
        pytest.skip("this system can't deny files")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as shared:
        (Path(shared) / "scratch").mkdir()
        code = f"""
from gates.worker import sandbox; from pathlib import Path; import os, resource
def attempt(what):
    try:
        what(); return "done"
    except OSError as error:
        return type(error).__name__
for writable in ([Path({str(tmp_path)!r})], [Path({shared!r}) / "scratch"]):
    if os.fork() == 0:
        sandbox.enter(writable)
        Path("/dev/null").write_text("x"); (writable[0] / "own").write_text("x"); resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        print(attempt(lambda: Path({shared!r}, "result").write_text("x")), attempt(lambda: Path("/dev/loop-control").write_text("x")),
              attempt(lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (9, 9))),
              attempt(lambda: Path("/dev/made").write_text("x")), flush=True)
        os._exit(0)
    os.wait()
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = (line.split() for line in done.stdout.splitlines())
    assert (first[0], second[0]) == ("done", "PermissionError"), done.stderr
    assert {first[2], second[2], first[3], second[3]} == {"PermissionError"} and "done" not in (first[1], second[1])


def test_memory_is_limited_and_everything_is_told(tmp_path: Path) -> None:
    code = (
        "from gates.worker import sandbox; from pathlib import Path\n"
        f"held = sandbox.enter([Path({str(tmp_path)!r})], memory_bytes=2**30)\n"
        "try:\n    bytearray(2**31)\nexcept MemoryError:\n    print(sorted(held), held['memory'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['calls', 'files', 'memory', 'others', 'processes'] limited to 1 GiB"
    assert sandbox.default_memory_bytes() > 0


def test_a_confined_process_confines_another_within_its_own_bounds(tmp_path: Path) -> None:
    if not sandbox_here(tmp_path):
        pytest.skip("this system can't deny files")
    (tmp_path / "inner").mkdir()
    code = f"""
from gates.worker import sandbox; from pathlib import Path; import os
def attempt(what):
    try:
        what(); return "done"
    except OSError as error:
        return type(error).__name__
outer, inner = Path({str(tmp_path)!r}), Path({str(tmp_path)!r}) / "inner"
sandbox.enter([outer])
if os.fork() == 0:
    held = sandbox.enter([inner])
    tried = (lambda: os.listdir("/proc"), lambda: os.listdir("/usr"), lambda: (inner / "own").write_text("x"),
             lambda: (outer / "own").write_text("x"))
    print(held["files"], *map(attempt, tried), flush=True)
    os._exit(0)
os.wait()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["denied", "PermissionError", "done", "done", "PermissionError"], done.stderr


def test_jobs_side_by_side_have_scratch_folders_of_their_own(tmp_path: Path) -> None:
    first, second = (isolated.scratch({"result": str(tmp_path / f"candidate.{share}.0.jsonl")}, "kernel") for share in range(2))
    (second / "kept").touch()
    assert isolated.scratch({"result": str(tmp_path / "candidate.0.0.jsonl")}, "kernel") == first and (second / "kept").is_file()
