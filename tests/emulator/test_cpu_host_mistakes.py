"""Mistakes in what a launcher asks of the CPU device: each is the runtime's error, and no other process ends."""

from __future__ import annotations

import resource
from pathlib import Path

import cpu_kit
import numpy as np
import pytest
from conftest import OnceASession

from gates.core.errors import GatesError
from gates.emulator.cpu.loading import CpuDevice, Launcher

SOURCE = cpu_kit.DATA / "host_mistakes.cu"
X = np.arange(64, dtype=np.float32)
INVALID_VALUE, NO_MEMORY, NO_HANDLE, NOT_SUPPORTED, CAPTURE_IMPLICIT = 1, 2, 400, 801, 906


@pytest.fixture(scope="module")
def library(kept: OnceASession) -> Path:
    made = kept("cpu-host-mistakes", lambda folder: cpu_kit.kernel_library([SOURCE], folder / "host_mistakes.so", flags=["-w"]))
    return made / "host_mistakes.so"


@pytest.fixture
def cpu() -> CpuDevice:
    return cpu_kit.device()


@pytest.mark.parametrize(
    ("entry", "modes", "error"),
    [
        ("graph_handles", range(1, 8), INVALID_VALUE),
        ("stream_handles", range(1, 9), NO_HANDLE),
        ("pool_handles", range(1, 5), INVALID_VALUE),
        ("arguments", range(1, 3), INVALID_VALUE),
        ("addresses", range(1, 5), INVALID_VALUE),
    ],
)
def test_a_handle_that_is_null_destroyed_or_garbage_is_an_error(
    library: Path, cpu: CpuDevice, entry: str, modes: range, error: int
) -> None:
    launch, x, out = Launcher(library, entry), cpu.array(X), cpu.array(X)
    for mode in modes:
        cpu.reset()
        with pytest.raises(GatesError, match=f"the launcher returned {error}:"):
            launch(x, out, mode)
    cpu.reset()
    launch(x, out, 0)
    assert not cpu.error() and not cpu.findings()
    assert entry == "pool_handles" or np.array_equal(out.get(), X + 1)


@pytest.mark.parametrize("empty", [0, 1])
def test_a_graph_of_graphs_has_a_limit(library: Path, cpu: CpuDevice, empty: int) -> None:
    launch, x, out = Launcher(library, "levels"), cpu.array(X), cpu.array(X)
    with pytest.raises(GatesError, match=f"the launcher returned {NOT_SUPPORTED}:"):
        launch(x, out, 40, empty)
    (finding,) = cpu.findings()
    assert finding.code == "cpu.unsupported" and "a graph of more than 65536 nodes" in finding.message and not cpu.launches()
    cpu.reset()
    launch(x, out, 8, empty)
    assert len(cpu.launches()) == (0 if empty else 128) and not cpu.findings()


@pytest.mark.parametrize("pinned", [0, 1])
def test_memory_of_both_sides_begins_with_the_poison(library: Path, cpu: CpuDevice, pinned: int) -> None:
    launch, out = Launcher(library, "of_both"), cpu.array(X)
    cpu.configure(poison=0x41)
    launch(out, pinned, 0)
    unwritten = np.full(64, 0x41414141, np.uint32).view(np.float32)
    assert np.array_equal(out.get(), unwritten + 1)
    launch(out, pinned, 1)
    assert np.array_equal(out.get(), np.ones(64)) and not cpu.findings(), "what the host wrote counts as written"


def test_pinned_memory_has_a_limit(library: Path, cpu: CpuDevice) -> None:
    limits, blocks = resource.getrlimit(resource.RLIMIT_DATA), cpu.array(np.zeros(1, np.int32))
    resource.setrlimit(resource.RLIMIT_DATA, (256 << 20, limits[1]))
    try:
        Launcher(library, "pin_all")(blocks)
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, limits)
    assert 1 <= blocks.get()[0] <= 8, "half of what the process may have, for its shadow takes as much; other tests may hold some"


@pytest.mark.parametrize(
    ("entry", "mode", "error"),
    [
        ("set_rows", 1, CAPTURE_IMPLICIT),
        ("pitched", 1, NO_MEMORY),
        ("pitched", 2, NO_MEMORY),
        ("to_symbol", 1, INVALID_VALUE),
    ],
)
def test_sizes_that_wrap_and_sets_during_a_capture(library: Path, cpu: CpuDevice, entry: str, mode: int, error: int) -> None:
    launch, out = Launcher(library, entry), cpu.array(X)
    with pytest.raises(GatesError, match=f"the launcher returned {error}:"):
        launch(out, mode)
    cpu.reset()
    assert np.array_equal(out.get(), X)
    launch(out, 0)
    assert not cpu.error() and not cpu.findings()
    if entry == "set_rows":
        assert np.array_equal(out.get(), np.where(np.arange(64) % 8 < 4, 0, X))
        launch(out, 2)
