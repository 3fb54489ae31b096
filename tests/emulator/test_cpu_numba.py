"""Numba-CUDA's kernels on the CPU device: compiled to PTX without a GPU, launched by Numba's own syntax."""

from __future__ import annotations

import pytest
from cpu_kit import DATA, line_of
from jit_kit import Call, calls

pytest.importorskip("numba_cuda", reason="numba-cuda is not installed")

CASES = """
right = {
    "saxpy": 1.5 * x + y,
    "saxpy_for_all": 1.5 * x + y,
    "arrays_of_numba": 1.5 * x + y,
    "arrays_that_are_filled": 1.5 * x + y,
    "transpose_of_a_view": x.reshape(40, 25)[:, :20].t(),
    "matmul": x[:600].reshape(20, 30) @ x[:750].reshape(30, 25),
    "sum_by_atomics": x.sum(),
    "shuffles_and_constants": (x + 7).sum(),
    "reverse_in_dynamic_shared_memory": x[:64].flip(0),
    "halves_as_floats": 2 * x.half().float(),
    "doubled_on_a_stream_of_numba": 2 * x,
}
faulty = ("sum_without_a_barrier", "double_without_a_bound", "sum_by_stores", "barrier_of_some", "barrier_of_half_a_warp")
others = (
    "double_halves",
    "all_blocks_at_once",
    "memory_of_the_host",
    "with_two_arguments_of_four",
    "without_a_launch_configuration",
    "on_a_part_of_a_block",
)
two = ("saxpy", "saxpy_for_all", "arrays_of_numba", "arrays_that_are_filled")
cases = {name: ((x, y) if name in two else (x,), wanted) for name, wanted in {**right, **dict.fromkeys(faulty + others)}.items()}
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Call]:
    return calls("numba", DATA / "numba_kernels.py", CASES, tmp_path_factory.mktemp("numba"))


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("matmul", "matmul_kernel"),
        ("shuffles_and_constants", "shuffle_kernel"),
        ("halves_as_floats", "half_to_float_kernel"),
        ("arrays_of_numba", "saxpy_kernel"),
        ("arrays_that_are_filled", "saxpy_kernel"),
        ("saxpy", "saxpy_kernel"),
        ("saxpy_for_all", "saxpy_kernel"),
        ("transpose_of_a_view", "transpose_kernel"),
        ("sum_by_atomics", "sum_kernel"),
        ("reverse_in_dynamic_shared_memory", "dynamic_kernel"),
        ("doubled_on_a_stream_of_numba", "saxpy_kernel"),
    ],
)
def test_a_right_function_runs(found: dict[str, Call], name: str, kernel: str) -> None:
    call = found[name]
    assert call.off < 1e-3 and not call.faults and call.kernels == [kernel] and not call.said


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
def test_a_fault_is_found_at_its_line(found: dict[str, Call], name: str, fault: str, line: str) -> None:
    source = DATA / "numba_kernels.py"
    assert (found[name].faults, found[name].where) == ([fault], [f"{source}:{line_of(source, line)}"])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("with_two_arguments_of_four", "TypeError: Signature mismatch: 2 argument types given, but function takes 4 arguments"),
        ("without_a_launch_configuration", "ValueError: Kernel launch configuration was not specified"),
        ("on_a_part_of_a_block", "TypeError: griddim must be a sequence of integers"),
    ],
)
def test_a_mistake_in_a_launch_is_the_function_s(found: dict[str, Call], name: str, says: str) -> None:
    assert found[name].said.startswith("numba_kernels.py:") and says in found[name].said


@pytest.mark.parametrize(
    ("name", "what"),
    [("double_halves", "other code"), ("all_blocks_at_once", "a launch of all blocks at once"), ("memory_of_the_host", "memhostalloc")],
)
def test_what_needs_more_than_its_ptx_is_not_emulated(found: dict[str, Call], name: str, what: str) -> None:
    assert found[name].said.startswith("not_emulated: ") and what in found[name].said
