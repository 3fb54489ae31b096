"""Memory of both sides, pools, captured streams and function pointers on the CPU device, each with its planted fault."""

from __future__ import annotations

from pathlib import Path

import cpu_kit
import numpy as np
import pytest
from conftest import OnceASession

from gates.core.errors import GatesError
from gates.emulator.cpu.loading import CpuDevice, Launcher

SOURCE = cpu_kit.DATA / "memory_and_graphs.cu"
X = np.arange(64, dtype=np.float32)


@pytest.fixture(scope="module")
def library(kept: OnceASession) -> Path:
    return kept("cpu-host-calls", lambda folder: cpu_kit.kernel_library([SOURCE], folder / "host_calls.so", flags=["-w"])) / "host_calls.so"


@pytest.fixture
def cpu() -> CpuDevice:
    return cpu_kit.device()


def only(cpu: CpuDevice, code: str, line: str) -> None:
    assert [finding.code for finding in cpu.findings()] == [code]
    assert cpu.findings()[0].where == f"{SOURCE}:{cpu_kit.line_of(SOURCE, line)}"


def test_managed_memory(library: Path, cpu: CpuDevice) -> None:
    launch, out, before = Launcher(library, "managed"), cpu.empty((64,), np.float32), cpu.allocated_bytes()
    launch(out, 0)
    assert np.array_equal(out.get(), 2 * (X + 1)) and not cpu.findings() and cpu.allocated_bytes() == before
    with pytest.raises(GatesError):
        launch(out, 1)
    only(cpu, "cpu.out_of_bounds", "// adds")


def test_the_host_can_not_touch_managed_memory_that_is_freed(library: Path) -> None:
    done = cpu_kit.apart(library, "Launcher(library, 'managed')(cpu.array(np.zeros(64, np.float32)), 2)")
    assert done.returncode == -11 and "error: host code in managed touches device memory at 0x" in done.stderr


def test_mapped_memory_of_the_host(library: Path, cpu: CpuDevice) -> None:
    launch, out, before = Launcher(library, "mapped"), cpu.empty((64,), np.float32), cpu.allocated_bytes()
    launch(out, 0)
    assert np.array_equal(out.get(), X + 1) and not cpu.findings() and cpu.allocated_bytes() == before
    with pytest.raises(GatesError):
        launch(out, 1)
    assert [finding.code for finding in cpu.findings()] == ["cpu.bad_free"]


def test_memory_of_a_pool(library: Path, cpu: CpuDevice) -> None:
    launch, x, out = Launcher(library, "pooled"), cpu.array(X), cpu.empty((64,), np.float32)
    before = cpu.allocated_bytes()
    launch(x, out, 0)
    assert np.array_equal(out.get(), X + 2) and not cpu.findings() and cpu.allocated_bytes() == before
    launch(x, out, 2)
    assert cpu.allocated_bytes() == before + 256
    with pytest.raises(GatesError):
        launch(x, out, 1)
    only(cpu, "cpu.use_after_free", "// adds")


def test_a_captured_graph_runs_when_it_is_launched(library: Path, cpu: CpuDevice) -> None:
    launch, x, out, scratch = Launcher(library, "captured"), cpu.array(X), cpu.empty((64,), np.float32), cpu.empty((64,), np.float32)
    launch(x, out, scratch, 0)
    assert np.array_equal(out.get(), X + 3) and not cpu.findings() and len(cpu.launches()) == 4
    launch(x, out.forget(0), scratch, 7)
    assert not out.get().any() and len(cpu.launches()) == 4
    with pytest.raises(GatesError):
        launch(x, out, scratch, 1)
    only(cpu, "cpu.out_of_bounds", "// adds")


@pytest.mark.parametrize(("mode", "error"), [(2, 904), (3, 900), (4, 900), (5, 906), (8, 801)])
def test_what_a_capture_forbids(library: Path, cpu: CpuDevice, mode: int, error: int) -> None:
    x, out, scratch = cpu.array(X), cpu.array(X), cpu.array(X)
    with pytest.raises(GatesError, match=f"the launcher returned {error}"):
        Launcher(library, "captured")(x, out, scratch, mode)
    cpu.reset()
    assert np.array_equal(out.get(), X) and np.array_equal(scratch.get(), X), "nothing ran"


def test_a_capture_that_is_left_open_is_an_error_and_ends_with_the_call(library: Path, cpu: CpuDevice) -> None:
    arguments = cpu.array(X), cpu.array(X), cpu.array(X)
    Launcher(library, "captured")(*arguments, 6)
    assert cpu.error() == "operation not permitted when stream is capturing"
    cpu.reset()
    Launcher(library, "captured")(*arguments, 0)
    assert np.array_equal(arguments[1].get(), X + 3) and not cpu.error()


def test_calls_by_address_and_virtual_functions(library: Path, cpu: CpuDevice) -> None:
    launch, x, out = Launcher(library, "called"), cpu.array(X), cpu.empty((64,), np.float32)
    own, area = np.where(np.arange(64) % 4 == 3, X * X, 2 * X), np.where(np.arange(64) % 2 == 1, X * X, X * X / 2)
    launch(x, out, 1)
    assert np.array_equal(out.get(), own + X * X + area) and not cpu.findings()
    for which, code in ((2, "cpu.null_address"), (3, "cpu.not_device_memory")):
        cpu.reset()
        with pytest.raises(GatesError, match="the launcher returned 700"):
            launch(x, out, which)
        only(cpu, code, "// calls")


@pytest.mark.parametrize("seed", [0, 1])
def test_a_graph_of_nodes(library: Path, seed: int) -> None:
    cpu = cpu_kit.device(seed=seed)
    launch, x, out, scratch = (
        Launcher(library, "nodes"),
        cpu.array(X).protect(),
        cpu.empty((64,), np.float32),
        cpu.empty((128,), np.float32),
    )
    for mode, more in ((0, 2), (4, 4)):
        launch(x, out, scratch, mode)
        assert np.array_equal(out.get(), X + more) and not cpu.findings()
    for mode in (2, 3):  # the runtime's error: an invalid value
        with pytest.raises(GatesError, match="the launcher returned 1:"):
            launch(x, out, scratch, mode)
        cpu.reset()


def test_nodes_that_do_not_wait(library: Path) -> None:
    """They run in another order with another seed."""
    sums = []
    for seed in (0, 1):
        cpu = cpu_kit.device(seed=seed)
        out = cpu.empty((64,), np.float32)
        Launcher(library, "nodes")(cpu.array(X), out, cpu.empty((128,), np.float32), 1)
        sums.append(out.get())
    assert not np.array_equal(*sums)
