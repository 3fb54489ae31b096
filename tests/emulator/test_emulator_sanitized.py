"""The emulator under AddressSanitizer and UBSan: what they find, and that they keep quiet otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from emulator_kit import DATA, line_of

from gates.emulator.library import compile_library

# Runs without torch and numpy, under the preloaded runtime; buffers come from malloc by exact size.
SCRIPT = """
import ctypes, json, sys
library, name, in_floats, out_floats, order = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
emulated = ctypes.CDLL(library)
emulated.gates_emulator_findings.restype = ctypes.c_char_p
emulated.gates_emulator_configure(b"order", ctypes.c_int64(order))
source, target = libc.malloc(4 * in_floats), libc.malloc(4 * out_floats)
(ctypes.c_float * in_floats).from_address(source)[:] = range(in_floats)
codes = [getattr(emulated, name)(ctypes.c_void_p(source), ctypes.c_void_p(target))]
findings = json.loads(emulated.gates_emulator_findings())
emulated.gates_emulator_reset()
codes.append(emulated.run_reduces(ctypes.c_void_p(source), ctypes.c_void_p(target)))
total = ctypes.c_float.from_address(target).value
print(json.dumps({"codes": codes, "findings": findings, "total": total}))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sanitized")
    return compile_library([DATA / "sanitized.cu"], folder / "asan.so", sanitize=True, work_dir=folder)


def run(library: Path, name: str, *, in_floats: int = 128, out_floats: int = 128, order: int = 0) -> subprocess.CompletedProcess[str]:
    runtime = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout.strip()
    environment = {**os.environ, "LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(library), name, str(in_floats), str(out_floats), str(order)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("order", [0, 1, 2])
def test_right_kernels_and_an_abandoned_block_give_no_report(library: Path, order: int) -> None:
    finished = run(library, "run_clean", order=order)
    assert finished.returncode == 0, finished.stderr
    result = json.loads(finished.stdout)
    assert result["codes"] == [719, 0] and result["total"] == sum(range(128))
    assert [finding["kind"] for finding in result["findings"]] == ["barrier_divergence"]


@pytest.mark.parametrize(
    ("name", "sizes", "says", "line"),
    [
        ("run_global_read", (32, 32), "heap-buffer-overflow", "line: global read"),
        ("run_shared_write", (32, 32), "use-after-poison", "line: shared write"),
        ("run_dynamic_write", (32, 32), "use-after-poison", "line: dynamic write"),
        ("run_copy", (102, 32), "heap-buffer-overflow", "line: copy"),
        ("run_row", (32, 32), "index 8 out of bounds for type 'float [8]'", "line: row"),
        ("run_vector_load", (32, 32), "misaligned address", "line: vector load"),
    ],
)
def test_faults_are_reported_with_the_line_of_the_source(library: Path, name: str, sizes: tuple[int, int], says: str, line: str) -> None:
    finished = run(library, name, in_floats=sizes[0], out_floats=sizes[1])
    assert finished.returncode != 0 and finished.stdout == ""
    assert says in finished.stderr
    assert line_of("sanitized.cu", line) in finished.stderr
