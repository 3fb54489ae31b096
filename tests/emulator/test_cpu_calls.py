"""The CPU device runs functions that call themselves, managed variables, tiles of several warps and swaps of 128 bits."""

from __future__ import annotations

from pathlib import Path

import cpu_kit
import numpy as np
import pytest
from conftest import OnceASession

from gates.core.errors import GatesError
from gates.emulator.cpu.loading import CpuDevice, Launcher

SOURCE = cpu_kit.DATA / "calls.cu"
X = np.random.default_rng(0).integers(-50, 50, 128).astype(np.int32)


@pytest.fixture(scope="module")
def library(kept: OnceASession) -> Path:
    return kept("cpu-calls", lambda folder: cpu_kit.kernel_library([SOURCE], folder / "calls.so", flags=["-w"])) / "calls.so"


@pytest.fixture(params=[0, 1])
def cpu(request: pytest.FixtureRequest) -> CpuDevice:
    return cpu_kit.device(seed=request.param)


def test_functions_that_call_themselves(library: Path, cpu: CpuDevice) -> None:
    out = cpu.empty((48, 4), np.int32)
    Launcher(library, "recursion")(cpu.array(X).protect(), out)
    fibonacci = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55]
    expected = [[fibonacci[i % 11], sum(range(i % 7 + 1)), X[: i + 1].sum(), 5 * i] for i in range(48)]
    assert out.get().tolist() == expected and not cpu.findings()


def test_a_stack_that_ends(library: Path, cpu: CpuDevice) -> None:
    launch, out = Launcher(library, "depth"), cpu.empty((1,), np.int32)
    launch(out, 100, 1024)
    launch(out, 300, 4096)
    assert not cpu.findings()
    with pytest.raises(GatesError, match="illegal memory access"):
        launch(out, 300, 1024)
    (found,) = cpu.findings()
    assert found.code == "cpu.local_out_of_bounds" and "more than 128 calls deep" in found.message
    assert found.where == f"{SOURCE}:{cpu_kit.line_of(SOURCE, '// calls itself')}"


def test_a_depth_that_is_not_supported(library: Path, cpu: CpuDevice) -> None:
    with pytest.raises(GatesError):
        Launcher(library, "depth")(cpu.empty((1,), np.int32), 10**6, 2**30)
    (found,) = cpu.findings()
    assert found.code == "cpu.unsupported" and found.message.startswith("not supported: a function that calls itself more than ")


def test_parameters_of_one_name_and_several_sizes_and_the_version_of_a_function_s_ptx(library: Path, cpu: CpuDevice) -> None:
    x, out, lanes = np.array([1, 2, 3, 5], np.float32), cpu.empty((32, 4), np.float32), np.arange(32)
    cpu.configure(capability=100)
    Launcher(library, "sizes")(cpu.array(x).protect(), out)
    cpu.configure(capability=90)
    weighed = 1 + 4 + 9 + 5 * lanes
    expected = np.stack([np.where(lanes % 2 == 0, weighed, lanes), np.full(32, 5), lanes / 2, weighed], 1)
    assert np.array_equal(out.get(), expected) and not cpu.findings()


def test_managed_variables(library: Path, cpu: CpuDevice) -> None:
    out, before = cpu.empty((32,), np.int32), cpu.allocated_bytes()
    for _ in range(2):
        Launcher(library, "managed")(out)
    assert out.get().tolist() == [3 * i for i in range(32)]
    assert not cpu.findings() and cpu.allocated_bytes() == before


def test_tiles_of_several_warps(library: Path, cpu: CpuDevice) -> None:
    out = cpu.empty((128,), np.int32)
    launch, x = Launcher(library, "tiles"), cpu.array(X).protect()
    launch(x, out, 0)
    sums = [int(half.sum()) + 1000 * bool((half < 0).any()) for half in (X[:64], X[64:])]
    assert out.get().tolist() == [sums[0]] * 64 + [sums[1]] * 64 and not cpu.findings()
    launch(x, out, 1)
    assert "cpu.race_shared" in {found.code for found in cpu.findings()}
    lines = {f"{SOURCE}:{cpu_kit.line_of(SOURCE, text)}" for text in ("moved[threadIdx.x] = ", "// of another warp")}
    assert {found.where for found in cpu.findings()} <= lines


def test_swaps_of_128_bits(library: Path, cpu: CpuDevice) -> None:
    cells = cpu.array(np.zeros((2, 2), np.int64))
    Launcher(library, "pairs")(cells)
    assert cells.get().tolist() == [[2 * sum(range(32)), -64], [3, 4]] and not cpu.findings()


def test_differences_of_bytes_and_halves(library: Path, cpu: CpuDevice) -> None:
    x = np.random.default_rng(1).integers(0, 2**32, 64, dtype=np.uint32)
    out = cpu.empty((32, 3), np.uint32)
    Launcher(library, "differences")(cpu.array(x), out)
    bytes_of, halves_of = (np.abs(np.subtract(*x.view(kind).astype(np.int64).reshape(2, 32, -1))) for kind in (np.uint8, np.uint16))
    assert np.array_equal(out.get()[:, 0], bytes_of.astype(np.uint8).reshape(-1).view(np.uint32))
    assert np.array_equal(out.get()[:, 1:], np.stack([bytes_of.sum(1), halves_of.sum(1)], 1)) and not cpu.findings()
