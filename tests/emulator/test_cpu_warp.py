"""Warp's kernels on the CPU device: compiled to PTX without a GPU, launched by Warp's own function."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from cpu_kit import DATA, line_of
from places import ROOT

from gates.emulator.cpu.build import runtime_library

pytest.importorskip("warp", reason="warp-lang is not installed")

# Calls each function in one process, as the gates do, and prints what came of it.
CALLS = """
import json, sys, torch
from gates.core.errors import NotHere
from gates.launch.c_launcher import KernelError
from gates.launch.emulated_kernel import EmulatedFunction

side = {"library": sys.argv[1], "runtime": sys.argv[2], "arch": ["sm_90"], "emulated": True, "kind": "warp"}
x, y = torch.randn(2, 1000, generator=torch.Generator().manual_seed(0))
right = {
    "saxpy": 1.5 * x + y,
    "transpose_of_a_view": x.reshape(40, 25)[:, :20].t(),
    "turned": x[:999].reshape(333, 3)[:, [1, 0, 2]],
    "sum_by_atomics": x.sum(),
}
others = ("shifted_without_a_bound", "sum_by_stores", "sum_by_tiles", "adjoint")
for name, wanted in {**right, **dict.fromkeys(others)}.items():
    function, said = EmulatedFunction({**side, "entry": name}), ""
    function.emulator.look_for_races()
    try:
        got = function(*((x, y) if name == "saxpy" else (x,)))
    except KernelError as error:
        got, said = None, str(error)
    except NotHere as error:
        got, said = None, f"{error.reason}: {error.what}"
    off = None if got is None or wanted is None else float((got - wanted).abs().max())
    kernels = [one["kernel"] for one in function.launches]
    print(json.dumps(["found", name, off, sorted({one["kind"] for one in function.findings}),
                      [one["where"] for one in function.findings][:1], kernels, said]))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list]:
    command = [sys.executable, "-c", CALLS, str(DATA / "warp_kernels.py"), str(runtime_library())]
    folder = tmp_path_factory.mktemp("warp")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "WARP_CACHE_PATH": str(folder)}
    child = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, cwd=folder)
    assert child.returncode == 0, child.stderr
    lines = [json.loads(line) for line in child.stdout.splitlines() if line.startswith('["found"')]  # Warp prints, too
    return {name: rest for _, name, *rest in lines}


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("saxpy", "saxpy_kernel"),
        ("transpose_of_a_view", "transpose_kernel"),
        ("turned", "vectors_kernel"),
        ("sum_by_atomics", "sum_kernel"),
    ],
)
def test_a_right_function_runs(found: dict[str, list], name: str, kernel: str) -> None:
    off, faults, _, kernels, said = found[name]
    assert off < 1e-3 and not faults and kernels == [kernel] and not said


@pytest.mark.parametrize(
    ("name", "fault", "line"),
    [("shifted_without_a_bound", "out_of_bounds", "# past the end"), ("sum_by_stores", "race_global", "# lost updates")],
)
def test_a_fault_is_found_at_its_line(found: dict[str, list], name: str, fault: str, line: str) -> None:
    source = DATA / "warp_kernels.py"
    assert found[name][1:3] == [[fault], [f"{source}:{line_of(source, line)}"]]


@pytest.mark.parametrize(("name", "what"), [("sum_by_tiles", "no tiles of Warp"), ("adjoint", "no adjoint")])
def test_what_is_not_emulated_is_named(found: dict[str, list], name: str, what: str) -> None:
    assert found[name][4].startswith("not_emulated: ") and what in found[name][4]
