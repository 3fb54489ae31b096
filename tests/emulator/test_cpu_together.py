"""Threads that work together on the CPU device: asynchronous copies and their waits, barriers, cooperative groups, CUB, warp operations."""

from __future__ import annotations

from pathlib import Path

import cpu_kit
import numpy as np
import pytest
from conftest import OnceASession

from gates.core.errors import GatesError
from gates.emulator.cpu.loading import CpuDevice, Launcher

SOURCE = cpu_kit.DATA / "together.cu"
X = np.arange(128, dtype=np.float32)


@pytest.fixture(scope="module")
def library(kept: OnceASession) -> Path:
    return kept("cpu-together", lambda folder: cpu_kit.kernel_library([SOURCE], folder / "together.so")) / "together.so"


@pytest.fixture
def cpu() -> CpuDevice:
    return cpu_kit.device()


@pytest.mark.parametrize(
    ("entry", "line", "copy"),
    [("copy", "];  // copied", "cp.async.ca.shared.global"), ("bulk", "];  // bulk copied", "unsigned(sizeof tile)")],
)
def test_a_copy_is_there_after_its_wait_and_not_before(library: Path, cpu: CpuDevice, entry: str, line: str, copy: str) -> None:
    launch, x, out = Launcher(library, entry), cpu.array(X), cpu.empty((128,), np.float32)
    launch(x, out, 0)
    assert np.array_equal(out.get(), X[::-1]) and not cpu.findings()
    launch(x, out, 1)
    found = [finding for finding in cpu.findings() if finding.code == "cpu.copy_not_awaited"]
    assert found and {one.where for one in found} == {f"{SOURCE}:{cpu_kit.line_of(SOURCE, copy)}"}
    assert {one.other for one in found} == {f"{SOURCE}:{cpu_kit.line_of(SOURCE, line)}"}
    assert {finding.code for finding in cpu.findings()} <= {"cpu.copy_not_awaited", "cpu.race_shared"}


def test_two_copies_on_their_way_to_one_place(library: Path, cpu: CpuDevice) -> None:
    Launcher(library, "copy")(cpu.array(X), cpu.empty((128,), np.float32), 2)
    (found,) = cpu.findings()
    assert found.code == "cpu.race_shared" and found.where == f"{SOURCE}:{cpu_kit.line_of(SOURCE, '// once more')}"
    assert found.other == f"{SOURCE}:{cpu_kit.line_of(SOURCE, 'cp.async.ca.shared.global')}"
    cpu.reset()
    out = cpu.empty((128,), np.float32)
    Launcher(library, "copy")(cpu.array(X), out, 3)  # the same bytes, as cooperative_groups::memcpy_async does
    assert np.array_equal(out.get(), X[::-1]) and not cpu.findings()


def test_bytes_that_never_come(library: Path, cpu: CpuDevice) -> None:
    with pytest.raises(GatesError):
        Launcher(library, "bulk")(cpu.array(X), cpu.empty((128,), np.float32), 2)
    (found,) = cpu.findings()
    assert found.code == "cpu.deadlock" and "wait for an mbarrier" in found.message
    assert found.where == f"{SOURCE}:{cpu_kit.line_of(SOURCE, ';  // waits')}" or "together.cu" in (found.where or "")


def test_a_barrier_and_copy_of_libcu(library: Path, cpu: CpuDevice) -> None:
    out = cpu.empty((128,), np.float32)
    Launcher(library, "libcu")(cpu.array(X), out)
    assert np.array_equal(out.get(), X[::-1]) and not cpu.findings()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_pipeline_whose_barriers_count_copies(library: Path, seed: int) -> None:
    cpu = cpu_kit.device(seed=seed)
    launch, x, out = Launcher(library, "staged"), cpu.array(X), cpu.empty((64,), np.float32)
    launch(x, out, 0)
    assert np.array_equal(out.get(), 2 * (X[:64] + X[64:]).reshape(-1, 2)[:, ::-1].ravel()) and not cpu.findings()
    launch(x, out, 1)
    found = cpu.findings()[0]
    assert found.code == "cpu.copy_not_awaited" and found.where == f"{SOURCE}:{cpu_kit.line_of(SOURCE, '// fetches')}"
    assert found.other == f"{SOURCE}:{cpu_kit.line_of(SOURCE, '// of a stage')}"
    cpu.reset()
    with pytest.raises(GatesError):
        launch(x, out, 2)
    assert [finding.code for finding in cpu.findings()] == ["cpu.deadlock"]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_flag_in_shared_memory_needs_a_fence(library: Path, seed: int) -> None:
    for mode in range(5):
        cpu = cpu_kit.device(seed=seed)
        out = cpu.empty((32,), np.float32)
        Launcher(library, "flagged")(cpu.array(X), out, mode)
        assert np.array_equal(out.get(), X[:32][::-1])
        found = cpu.findings()
        assert [finding.code for finding in found] == (["cpu.race_shared"] if mode else []), found
        places = {place for finding in found for place in (finding.where, finding.other)}
        assert places <= {f"{SOURCE}:{cpu_kit.line_of(SOURCE, text)}" for text in ("// takes over", "// hands over")}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_arrival_tells_of_its_own_lane(library: Path, seed: int) -> None:
    for mode in range(2):
        cpu = cpu_kit.device(seed=seed)
        out = cpu.empty((32,), np.float32)
        Launcher(library, "arrived")(cpu.array(X), out, mode)
        assert np.array_equal(out.get(), X[:32][::-1])
        assert [finding.code for finding in cpu.findings()] == ["cpu.race_shared"] * mode, cpu.findings()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_flag_tells_of_its_own_lane_and_is_taken_by_a_fence_or_a_barrier(library: Path, seed: int) -> None:
    for mode, races in enumerate([False, True, True, False, False]):
        cpu = cpu_kit.device(seed=seed)
        out = cpu.empty((32,), np.float32)
        Launcher(library, "handed_over")(cpu.array(X[:32]), cpu.empty((32,), np.float32), out, mode)
        assert np.array_equal(out.get(), X[:32][::-1])
        found = cpu.findings()
        assert [finding.code for finding in found] == (["cpu.race_global"] if races else []), (mode, found)
        places = {place for finding in found for place in (finding.where, finding.other)}
        assert places <= {f"{SOURCE}:{cpu_kit.line_of(SOURCE, text)}" for text in ("// takes of a block", "// hands to a block")}
    cpu = cpu_kit.device(seed=seed)
    Launcher(library, "each_tells")(cpu.array(X[:32]), cpu.empty((32,), np.float32), out := cpu.empty((32,), np.float32))
    assert np.array_equal(out.get(), X[:32][::-1]) and not cpu.findings()


@pytest.mark.parametrize(
    ("entry", "honest", "racy", "code", "expected"),
    [
        ("last_block", [0], [1, 2, 3], "cpu.race_global", X[:64]),
        ("lane_lock", [0], [1, 2], "cpu.race_shared", np.full(32, 32)),
        ("far_flag", [0], [1, 2], "cpu.race_shared", X[:32][::-1]),
        ("vector_flag", [0, 1], [2], "cpu.race_global", X[1:2]),
        ("semaphore", [0], [1], "cpu.race_global", X[:64][::-1]),
        ("lane_sleeps", [0], [1], "cpu.race_global", np.full(32, X[3])),
        ("turns", [0], [1], "cpu.barrier_divergence", X[:64]),
        ("block_scope", [0], [1], "cpu.race_global", X[1:2]),
        ("ended_lanes", [0], [1], "cpu.race_shared", X[1:2]),
    ],
)
def test_what_orders_threads_and_what_does_not(
    library: Path, entry: str, honest: list[int], racy: list[int], code: str, expected: np.ndarray
) -> None:
    for seed in range(3):
        for mode in honest + racy:
            cpu = cpu_kit.device(seed=seed)
            out = cpu.array(np.zeros(64, np.float32))
            Launcher(library, entry)(cpu.array(X), cpu.array(np.zeros(256, np.float32)), out, mode)
            assert np.array_equal(out.get()[: len(expected)], expected), (seed, mode)
            assert {finding.code for finding in cpu.findings()} == ({code} if mode in racy else set()), (seed, mode, cpu.findings())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_guess_is_excused_for_the_lanes_that_swap(library: Path, seed: int) -> None:
    for mode, codes in enumerate([set(), {"cpu.race_global"}]):
        cpu = cpu_kit.device(seed=seed)
        total = cpu.array(np.zeros(1, np.int32))
        Launcher(library, "odd_guess")(total, cpu.empty((128,), np.int32), mode)
        assert total.get()[0] == (64 if mode else 128)
        found = cpu.findings()
        assert {finding.code for finding in found} == codes, found
        line = f"{SOURCE}:{cpu_kit.line_of(SOURCE, '// all guess')}"
        assert all(line in (finding.where, finding.other) for finding in found)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_guess_that_only_larger_values_swap(library: Path, seed: int) -> None:
    values = np.random.default_rng(seed).permutation(128).astype(np.int32)
    for mode, codes in enumerate([set(), {"cpu.race_global"}]):
        cpu = cpu_kit.device(seed=seed)
        out = cpu.array(np.full(1, -1, np.int32))
        Launcher(library, "largest")(cpu.array(values), out, mode)
        assert {finding.code for finding in cpu.findings()} == codes
        assert mode == 1 or out.get()[0] == 127


def test_a_grid_meets(library: Path, cpu: CpuDevice) -> None:
    values, out = np.arange(1000, dtype=np.float32), cpu.empty((1,), np.float32)
    Launcher(library, "grid")(cpu.array(values), cpu.empty((6,), np.float32), out, 1000)
    assert out.get()[0] == values.sum() and not cpu.findings()


def test_sort_and_scan_of_cub(library: Path, cpu: CpuDevice) -> None:
    values = np.random.default_rng(0).integers(-1000, 1000, 512).astype(np.int32)
    ordered, sums = cpu.empty((512,), np.int32), cpu.empty((512,), np.int32)
    Launcher(library, "sort")(cpu.array(values), ordered, sums)
    assert np.array_equal(ordered.get(), np.sort(values)) and np.array_equal(sums.get(), np.cumsum(np.sort(values)))
    assert not cpu.findings()


def test_operations_of_a_warp(library: Path, cpu: CpuDevice) -> None:
    values, out = np.random.default_rng(1).integers(0, 100, 64).astype(np.int32), cpu.empty((64, 4), np.int32)
    Launcher(library, "warps")(cpu.array(values), out)
    got = out.get()
    assert not cpu.findings() and (got[:, 0] == (values > 50).sum() * 4 + 2).all()
    for first in (0, 32):
        lanes, part = values[first : first + 32], got[first : first + 32]
        odd = lanes & 1 == 1
        assert (part[odd, 1] == lanes[odd].sum()).all() and (part[~odd, 1] == 0).all() and (part[:, 2] == lanes.sum()).all()
        ballot = sum(int(bit) << index for index, bit in enumerate(odd[:6]))
        assert part[:, 3].tolist() == [int((lanes & 3 == value & 3).sum()) * 100 + ballot for value in lanes]


def test_a_callback_is_told_of_the_launch_before_it(library: Path, cpu: CpuDevice) -> None:
    """Launcher raises GatesError if the callback did not come, or was given an error."""
    Launcher(library, "counted")(cpu.array(np.ones(64, np.int32)), cpu.empty((64, 4), np.int32))
    assert not cpu.findings()
