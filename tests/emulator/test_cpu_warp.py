"""Warp's kernels on the CPU device: compiled to PTX without a GPU, launched by Warp's own function."""

from __future__ import annotations

import pytest
from cpu_kit import DATA, line_of
from jit_kit import Call, calls

pytest.importorskip("warp", reason="warp-lang is not installed")

CASES = """
cases = {
    "saxpy": ((x, y), 1.5 * x + y),
    "transpose_of_a_view": ((x,), x.reshape(40, 25)[:, :20].t()),
    "turned": ((x,), x[:999].reshape(333, 3)[:, [1, 0, 2]]),
    "sum_by_atomics": ((x,), x.sum()),
    "doubled_on_torch_s_stream": ((x,), 2 * x),
    **dict.fromkeys(("with_three_arguments_of_four", "of_halves"), ((x,), None)),
    **dict.fromkeys(("shifted_without_a_bound", "sum_by_stores", "sum_by_tiles", "adjoint", "arrays_in_a_structure"), ((x,), None)),
}
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Call]:
    return calls("warp", DATA / "warp_kernels.py", CASES, tmp_path_factory.mktemp("warp"))


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("saxpy", "saxpy_kernel"),
        ("transpose_of_a_view", "transpose_kernel"),
        ("turned", "vectors_kernel"),
        ("sum_by_atomics", "sum_kernel"),
        ("doubled_on_torch_s_stream", "saxpy_kernel"),
    ],
)
def test_a_right_function_runs(found: dict[str, Call], name: str, kernel: str) -> None:
    call = found[name]
    assert call.off < 1e-3 and not call.faults and call.kernels == [kernel] and not call.said


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("with_three_arguments_of_four", "passed 3 arguments but kernel requires 4"),
        ("of_halves", "argument 'x' expects an array with dtype=<class 'warp._src.types.float32'>"),
    ],
)
def test_a_mistake_in_a_launch_is_the_function_s(found: dict[str, Call], name: str, says: str) -> None:
    assert found[name].said.startswith("warp_kernels.py:") and says in found[name].said


@pytest.mark.parametrize(
    ("name", "fault", "line"),
    [("shifted_without_a_bound", "out_of_bounds", "# past the end"), ("sum_by_stores", "race_global", "# lost updates")],
)
def test_a_fault_is_found_at_its_line(found: dict[str, Call], name: str, fault: str, line: str) -> None:
    source = DATA / "warp_kernels.py"
    assert (found[name].faults, found[name].where) == ([fault], [f"{source}:{line_of(source, line)}"])


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("sum_by_tiles", "the emulator does not run Warp"),
        ("adjoint", "no adjoint"),
        ("arrays_in_a_structure", "no array in a structure"),
    ],
)
def test_what_is_not_emulated_is_named(found: dict[str, Call], name: str, what: str) -> None:
    assert found[name].said.startswith("not_emulated: ") and what in found[name].said
