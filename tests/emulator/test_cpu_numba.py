"""Numba-CUDA's kernels on the CPU device: compiled to PTX without a GPU, launched by Numba's own syntax."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from cpu_kit import DATA, line_of
from places import ROOT

from gates.emulator.cpu.build import runtime_library

pytest.importorskip("numba_cuda", reason="numba-cuda is not installed")

# Calls each function in one process, as the gates do, and prints what came of it.
CALLS = """
import json, sys, torch
from gates.core.errors import NotHere
from gates.launch.c_launcher import KernelError
from gates.launch.emulated_kernel import EmulatedFunction

side = {"library": sys.argv[1], "runtime": sys.argv[2], "arch": ["sm_90"], "emulated": True, "kind": "numba"}
x, y = torch.randn(2, 1000, generator=torch.Generator().manual_seed(0))
right = {
    "saxpy": 1.5 * x + y,
    "saxpy_for_all": 1.5 * x + y,
    "arrays_of_numba": 1.5 * x + y,
    "transpose_of_a_view": x.reshape(40, 25)[:, :20].t(),
    "matmul": x[:600].reshape(20, 30) @ x[:750].reshape(30, 25),
    "sum_by_atomics": x.sum(),
    "shuffles_and_constants": (x + 7).sum(),
    "reverse_in_dynamic_shared_memory": x[:64].flip(0),
    "halves_as_floats": 2 * x.half().float(),
}
faulty = ("sum_without_a_barrier", "double_without_a_bound", "sum_by_stores", "barrier_of_some", "barrier_of_half_a_warp")
others = ("double_halves", "all_blocks_at_once")
for name, wanted in {**right, **dict.fromkeys(faulty + others)}.items():
    function, said = EmulatedFunction({**side, "entry": name}), ""
    function.emulator.look_for_races()
    try:
        got = function(*((x, y) if name.startswith(("saxpy", "arrays")) else (x,)))
    except KernelError as error:
        got, said = None, str(error)
    except NotHere as error:
        got, said = None, f"{error.reason}: {error.what}"
    off = None if got is None or wanted is None else float((got - wanted).abs().max())
    kernels = [one["kernel"] for one in function.launches]
    print(json.dumps([name, off, sorted({one["kind"] for one in function.findings}), [one["where"] for one in function.findings][:1],
                      kernels, said]))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list]:
    command = [sys.executable, "-c", CALLS, str(DATA / "numba_kernels.py"), str(runtime_library())]
    folder = tmp_path_factory.mktemp("numba")
    child = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=folder)
    assert child.returncode == 0, child.stderr
    return {name: rest for name, *rest in map(json.loads, child.stdout.splitlines())}


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("matmul", "matmul_kernel"),
        ("shuffles_and_constants", "shuffle_kernel"),
        ("halves_as_floats", "half_to_float_kernel"),
        ("arrays_of_numba", "saxpy_kernel"),
        ("saxpy", "saxpy_kernel"),
        ("saxpy_for_all", "saxpy_kernel"),
        ("transpose_of_a_view", "transpose_kernel"),
        ("sum_by_atomics", "sum_kernel"),
        ("reverse_in_dynamic_shared_memory", "dynamic_kernel"),
    ],
)
def test_a_right_function_runs(found: dict[str, list], name: str, kernel: str) -> None:
    off, faults, _, kernels, said = found[name]
    assert off < 1e-3 and not faults and kernels == [kernel] and not said


@pytest.mark.parametrize(
    ("name", "fault", "line"),
    [
        ("double_without_a_bound", "out_of_bounds", "# past the end"),
        ("sum_by_stores", "race_global", "# lost updates"),
        ("sum_without_a_barrier", "race_shared", "# what another warp wrote"),
        ("barrier_of_some", "race_shared", "# of the other warp"),
        ("barrier_of_half_a_warp", "barrier_divergence", "# of half a warp"),
    ],
)
def test_a_fault_is_found_at_its_line(found: dict[str, list], name: str, fault: str, line: str) -> None:
    source = DATA / "numba_kernels.py"
    assert found[name][1:3] == [[fault], [f"{source}:{line_of(source, line)}"]]


@pytest.mark.parametrize(("name", "what"), [("double_halves", "other code"), ("all_blocks_at_once", "a launch of all blocks at once")])
def test_what_needs_more_than_its_ptx_is_not_emulated(found: dict[str, list], name: str, what: str) -> None:
    assert found[name][4].startswith("not_emulated: ") and what in found[name][4]
