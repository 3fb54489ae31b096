"""The CPU device's rules: each planted fault gives its finding at its line, and its honest neighbour gives none."""

from __future__ import annotations

import contextlib
from pathlib import Path

import cpu_kit
import numpy as np
import pytest
from conftest import OnceASession

from gates.core.errors import GatesError
from gates.emulator.cpu.build import task_library
from gates.emulator.cpu.loading import CpuDevice, Launcher

SOURCE = cpu_kit.DATA / "rules.cu"
X = np.arange(128, dtype=np.float32)


@pytest.fixture(scope="module")
def library(kept: OnceASession) -> Path:
    return kept("cpu-rules", lambda folder: cpu_kit.kernel_library([SOURCE], folder / "rules.so")) / "rules.so"


@pytest.fixture
def cpu() -> CpuDevice:
    return cpu_kit.device()


def only(cpu: CpuDevice, code: str, line: str) -> None:
    """There are findings, all of this code, and the first is at the line with this text."""
    found = cpu.findings()
    assert {finding.code for finding in found} == {code}, found
    assert found[0].where == f"{SOURCE}:{cpu_kit.line_of(SOURCE, line)}"


def test_within_bounds_and_past_them(library: Path, cpu: CpuDevice) -> None:
    launch, x, out = Launcher(library, "bounds"), cpu.array(X[:100]), cpu.empty((100,), np.float32)
    launch(x, out, 100, 0)
    assert not cpu.findings() and np.array_equal(out.get(), X[:100])
    with pytest.raises(GatesError, match="illegal memory access"):
        launch(x, out, 100, 1)
    only(cpu, "cpu.out_of_bounds", "out[i] = x[i]")
    assert cpu.findings()[0].block == (1, 0, 0) and cpu.findings()[0].thread == (36, 0, 0)
    with pytest.raises(GatesError, match="illegal memory access"):  # the device is lost, as a real one is
        out.get()


def test_freed_memory(library: Path, cpu: CpuDevice) -> None:
    x, out = cpu.array(X), cpu.empty((128,), np.float32)
    x.free()
    with pytest.raises(GatesError):
        Launcher(library, "bounds")(x, out, 128, 0)
    only(cpu, "cpu.use_after_free", "out[i] = x[i]")


def test_memory_that_nothing_wrote(library: Path, cpu: CpuDevice) -> None:
    Launcher(library, "bounds")(cpu.empty((100,), np.float32), cpu.empty((100,), np.float32), 100, 0)
    only(cpu, "cpu.uninitialised_global", "out[i] = x[i]")


def test_a_host_pointer(library: Path, cpu: CpuDevice) -> None:
    with pytest.raises(GatesError):
        Launcher(library, "bounds")(int(X.ctypes.data), cpu.empty((100,), np.float32), 100, 0)
    only(cpu, "cpu.not_device_memory", "out[i] = x[i]")


def test_alignment(library: Path, cpu: CpuDevice) -> None:
    launch, x, out = Launcher(library, "alignment"), cpu.array(np.arange(132, dtype=np.float32)), cpu.empty((32,), np.float32)
    launch(x, out, 0)
    assert out.get()[1] == 4 + 5 + 6 + 7 and not cpu.findings()
    with pytest.raises(GatesError):
        launch(x, out, 1)
    only(cpu, "cpu.misaligned", "reinterpret_cast<const float4*>")


def test_shared_memory(library: Path, cpu: CpuDevice) -> None:
    launch, x, out = Launcher(library, "shared"), cpu.array(X[:64]), cpu.empty((64,), np.float32)
    launch(x, out, 0)
    assert np.array_equal(out.get(), X[:64][::-1]) and not cpu.findings()
    launch(x, out, 1)
    race = [finding for finding in cpu.findings() if finding.code == "cpu.race_shared"]  # some threads read before others wrote at all
    assert race and {finding.code for finding in cpu.findings()} <= {"cpu.race_shared", "cpu.uninitialised_shared"}
    places = {race[0].where, race[0].other}
    assert places == {f"{SOURCE}:{cpu_kit.line_of(SOURCE, 'tile[threadIdx.x] = x[')}", f"{SOURCE}:{cpu_kit.line_of(SOURCE, 'tile[63 - ')}"}
    cpu.reset()
    with pytest.raises(GatesError):
        launch(x, out, 2)
    only(cpu, "cpu.shared_out_of_bounds", "tile[64] = 1.0f")


def test_lanes_need_a_barrier_too(library: Path, cpu: CpuDevice) -> None:
    launch, x, out = Launcher(library, "warp"), cpu.array(X[:32]), cpu.empty((32,), np.float32)
    launch(x, out, 0)
    assert not cpu.findings()
    launch(x, out, 1)
    assert {finding.code for finding in cpu.findings()} == {"cpu.race_shared"}


def test_shared_memory_that_nothing_wrote(library: Path, cpu: CpuDevice) -> None:
    launch, out = Launcher(library, "fill"), cpu.empty((32,), np.float32)
    launch(out, 0)
    assert not cpu.findings()
    launch(out, 1)
    only(cpu, "cpu.uninitialised_shared", "half of it is never written")


def test_threads_that_have_ended_do_not_count_for_a_barrier(library: Path, cpu: CpuDevice) -> None:
    out = cpu.empty((64,), np.float32)
    Launcher(library, "early_return")(cpu.array(X[:64]), out, 40)
    assert not cpu.findings() and np.array_equal(out.get()[:40], X[:40][::-1])


def test_threads_that_skip_a_barrier_of_their_warp(library: Path, cpu: CpuDevice) -> None:
    launch, out = Launcher(library, "skip"), cpu.empty((64,), np.float32)
    launch(cpu.array(X[:64]), out, 0)
    assert not cpu.findings() and np.array_equal(out.get(), X[:64].reshape(-1, 2)[:, ::-1].ravel())
    launch(cpu.array(X[:64]), out, 1)
    (found,) = cpu.findings()
    assert found.code == "cpu.barrier_divergence" and found.thread == (48, 0, 0)
    assert found.where == f"{SOURCE}:{cpu_kit.line_of(SOURCE, '// half of a warp skips it')}"


def test_lanes_that_come_to_the_next_turns_barrier_first(library: Path) -> None:
    for seed in range(4):
        cpu = cpu_kit.device(seed=seed)
        out, next_tile = cpu.array(np.zeros(1, np.float32)), cpu.array(np.zeros(1, np.int32))
        Launcher(library, "tiles")(cpu.array(X[:72]), out, next_tile, 72)
        assert not cpu.findings() and out.get()[0] == pytest.approx(X[:72].sum())


def test_the_order_of_blocks_comes_from_the_seed(library: Path) -> None:
    """So a sum that depends on their order is another one with another seed, and the same one with the same."""
    sums = []
    for seed in (0, *range(6), 0):
        cpu = cpu_kit.device(seed=seed)
        out = cpu.array(np.zeros(1, np.float32))
        Launcher(library, "sum")(cpu.array(np.array([1, 1e8, 1, -1e8], np.float32)), out, 0)
        sums.append(out.get()[0])
        assert not cpu.findings()
    assert len(set(sums)) > 1 and sums[0] == sums[1] == sums[-1] == 0


def test_an_output_before_one_more_call(library: Path, cpu: CpuDevice) -> None:
    launch, x, out = Launcher(library, "warp"), cpu.array(X[:32]), cpu.empty((32,), np.float32)
    launch(x, out, 0)
    assert (out.forget(0x11).get().view(np.uint32) == 0x11111111).all()
    launch(out, x, 0)
    assert {finding.code for finding in cpu.findings()} == {"cpu.uninitialised_global"}


def test_blocks_that_update_one_place(library: Path, cpu: CpuDevice) -> None:
    launch, x, out = Launcher(library, "sum"), cpu.array(X[:4]), cpu.array(np.zeros(1, np.float32))
    launch(x, out, 0)
    assert out.get()[0] == 6 and not cpu.findings()
    launch(x, out, 1)
    only(cpu, "cpu.race_global", "blocks update one place")


def test_a_guess_that_a_swap_checks_is_no_race(library: Path, cpu: CpuDevice) -> None:
    launch, total, seen = Launcher(library, "swap"), cpu.array(np.zeros(1, np.int32)), cpu.empty((128,), np.int32)
    launch(total, seen, 0)
    assert total.get()[0] == 128 and not cpu.findings()
    launch(total, seen, 1)
    assert {finding.code for finding in cpu.findings()} == {"cpu.race_global"}
    assert f"{SOURCE}:{cpu_kit.line_of(SOURCE, '// a guess')}" in {
        place for finding in cpu.findings() for place in (finding.where, finding.other)
    }


def test_the_last_block_needs_a_fence(library: Path, cpu: CpuDevice) -> None:
    launch, x, part, out = Launcher(library, "last_block"), cpu.array(X[:4]), cpu.empty((4,), np.float32), cpu.empty((1,), np.float32)
    launch(x, part, out, 0)
    assert out.get()[0] == 6 and not cpu.findings()
    launch(x, part, out, 1)
    only(cpu, "cpu.race_global", "of all blocks")
    assert cpu.findings()[0].other == f"{SOURCE}:{cpu_kit.line_of(SOURCE, 'part[blockIdx.x] = x')}"


def test_an_input_that_a_kernel_writes(library: Path, cpu: CpuDevice) -> None:
    launch, x, out = Launcher(library, "in_place"), cpu.array(X[:32]), cpu.empty((32,), np.float32)
    launch(x, out)
    assert not cpu.findings()
    launch(x.protect(), out)
    only(cpu, "cpu.input_written", "x[threadIdx.x] = 0.0f;  // an input")


def test_memory_that_a_launcher_keeps(library: Path, cpu: CpuDevice) -> None:
    before = cpu.allocated_bytes()
    Launcher(library, "leak")()
    assert cpu.allocated_bytes() == before + 4096


def test_deadlock_says_who_waits_for_what(library: Path, cpu: CpuDevice) -> None:
    launch, out = Launcher(library, "deadlock"), cpu.empty((64,), np.float32)
    launch(out, 0)
    assert not cpu.findings()
    with pytest.raises(GatesError):
        launch(out, 1)
    found = cpu.findings()
    assert [finding.code for finding in found] == ["cpu.deadlock"]
    assert "warp 0 wait for barrier 2" in found[0].message and "warp 1 wait for barrier 1" in found[0].message


def test_a_kernel_that_never_ends_is_stopped(library: Path) -> None:
    cpu = cpu_kit.device(time_limit_ms=200)
    launch, out = Launcher(library, "endless"), cpu.array(np.zeros(1, np.int32))
    launch(out, 0)
    assert out.get()[0] == 7
    out.set(np.zeros(1, np.int32))
    with pytest.raises(GatesError, match="timed out"):
        launch(out, 1)
    assert [finding.code for finding in cpu.findings()] == ["cpu.time_limit"]


def test_lanes_that_wait_for_a_lane_of_their_warp_get_an_end(library: Path, cpu: CpuDevice) -> None:
    held, count = cpu.array(np.zeros(1, np.int32)), cpu.array(np.zeros(1, np.int32))
    Launcher(library, "lock")(held, count)
    assert count.get()[0] == 3 * 64


def test_variables_of_the_device_and_a_function_that_is_not_inlined(library: Path, cpu: CpuDevice) -> None:
    out = cpu.empty((4,), np.float32)
    Launcher(library, "symbols")(out)
    assert out.get().tolist() == [4.0, 0.5, 2.0, 0.5] and not cpu.findings()


def test_printf(library: Path) -> None:
    calls = "launch = Launcher(library, 'print'); launch(2); launch(600); print(); print([one.code for one in cpu.findings()])"
    done = cpu_kit.apart(library, calls)
    lines = done.stdout.splitlines()
    assert lines.count("line 1 of many:  1.50 1099511627776") == 4
    assert len([line for line in lines if line.startswith("line ")]) == 1000 and lines[-1] == "['cpu.printf_flood']"


def test_a_launch_that_a_device_refuses(library: Path, cpu: CpuDevice) -> None:
    with pytest.raises(GatesError, match="invalid configuration argument"):
        Launcher(library, "bad_block")(cpu.empty((1,), np.float32), 1025)
    (launch,) = cpu.launches()
    assert launch.block == (1025, 1, 1) and "1025 threads; the limit is (1024, 1024, 64) and 1024 threads" in launch.error


def test_launches_can_be_recorded_alone(library: Path, cpu: CpuDevice) -> None:
    cpu.configure(launches_only=1)
    out = cpu.array(np.full(32, 7, np.float32))
    Launcher(library, "bad_block")(out, 32)
    cpu.configure(launches_only=0)
    (launch,) = cpu.launches()
    assert (launch.block, launch.error, launch.warp_instructions) == ((32, 1, 1), "", 0) and out.get()[0] == 7
    Launcher(library, "bad_block")(out, 32)
    assert cpu.launches()[1].warp_instructions > 0


def test_host_code_can_not_touch_device_memory(library: Path) -> None:
    done = cpu_kit.apart(library, "Launcher(library, 'host_reads')(cpu.array(np.zeros(4, np.float32)))")
    assert done.returncode == -11 and "error: host code in host_reads touches device memory at 0x" in done.stderr


def test_a_function_of_cuda_that_the_device_lacks(tmp_path: Path) -> None:
    source = tmp_path / "lacks.cu"
    source.write_text('#include <cuda_runtime.h>\nextern "C" int f() { return cudaIpcCloseMemHandle(nullptr); }\n', encoding="utf-8")
    with pytest.raises(GatesError, match="undefined reference to .cudaIpcCloseMemHandle"):
        task_library([source], tmp_path / "lacks.so")


def test_the_quick_ways_of_access_hold_the_rules_too(library: Path) -> None:
    """With races off whole warps load and store at once: bounds, alignment and initialisation are checked all the same."""
    cpu = cpu_kit.device(races=0)
    x, out = cpu.array(np.arange(256, dtype=np.float32)), cpu.empty((256,), np.float32)
    Launcher(library, "bounds")(x, out, 256, 0)
    assert np.array_equal(out.get(), x.get()) and not cpu.findings()
    for entry, arguments, code in [
        ("bounds", (x, out, 256, 64), "cpu.out_of_bounds"),
        ("bounds", (cpu.empty((256,), np.float32), out, 256, 0), "cpu.uninitialised_global"),
        ("bounds", (x, cpu.array(np.zeros(256, np.float32)).protect(), 256, 0), "cpu.input_written"),
        ("alignment", (x, cpu.empty((32,), np.float32), 1), "cpu.misaligned"),
        ("shared", (x, cpu.empty((64,), np.float32), 2), "cpu.shared_out_of_bounds"),
        ("fill", (cpu.empty((32,), np.float32), 1), "cpu.uninitialised_shared"),
    ]:
        cpu.reset()
        with contextlib.suppress(GatesError):
            Launcher(library, entry)(*arguments)
        assert {finding.code for finding in cpu.findings()} == {code}, entry
