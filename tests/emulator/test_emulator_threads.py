"""Thread indices, barriers, warp intrinsics and launches on the emulator."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from emulator_kit import FORWARD, REVERSED, SHUFFLED, Emulated, emulated, line_of

from gates.emulator.library import compile_library

ORDERS = (FORWARD, REVERSED, SHUFFLED)
SUCCESS, INVALID_VALUE, INVALID_CONFIGURATION, LAUNCH_FAILURE = 0, 1, 9, 719


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory) -> Emulated:
    return emulated("threads.cu", tmp_path_factory.mktemp("threads"))


@pytest.mark.parametrize("order", ORDERS)
def test_every_thread_of_every_block_runs_once(threads: Emulated, order: int) -> None:
    out = np.full(12 * 24, -1, dtype=np.int32)
    assert threads.run("run_indices", out, order=order) == SUCCESS
    assert out.tolist() == [block * 1000 + thread for block in range(12) for thread in range(24)]
    assert threads.launches() == [
        {
            "kernel": "indices",
            "function": "void indices(int*)",
            "grid": [2, 3, 2],
            "block": [4, 2, 3],
            "dynamic_smem_bytes": 0,
            "static_smem_bytes": 0,
            "opt_in_smem_bytes": 0,
            "max_threads": 0,
            "error": "",
        }
    ]


@pytest.mark.parametrize("order", ORDERS)
def test_reduction_with_barriers_is_right_in_every_order(threads: Emulated, order: int) -> None:
    data = np.arange(3 * 256, dtype=np.float32)
    out = np.zeros(3, dtype=np.float32)
    assert threads.run("run_reduce", data, out, 3, 1, order=order) == SUCCESS
    assert out.tolist() == data.reshape(3, 256).sum(1).tolist()
    assert threads.findings() == []
    assert threads.launches()[0]["static_smem_bytes"] == 1024


def test_missing_barrier_in_a_reduction_changes_the_result_between_orders(threads: Emulated) -> None:
    data = np.arange(256, dtype=np.float32)
    results = []
    for order, seed in ((FORWARD, 0), (REVERSED, 0), (SHUFFLED, 1)):
        out = np.zeros(1, dtype=np.float32)
        threads.run("run_reduce", data, out, 1, 0, order=order, seed=seed)
        results.append(out[0])
    assert any(result != data.sum() for result in results)
    assert len(set(results)) > 1


def test_missing_barrier_before_a_read_gives_nan(threads: Emulated) -> None:
    data = np.arange(128, dtype=np.float32)
    assert threads.run("run_reverse", data, 0) == SUCCESS
    assert data.tolist() == list(range(127, -1, -1))
    threads.run("run_reverse", data, 1)
    assert np.isnan(data).any()


def test_shuffled_order_depends_on_the_seed_alone(threads: Emulated) -> None:
    def winners(seed: int) -> list[int]:
        out = np.zeros(8, dtype=np.int32)
        threads.run("run_first_writer", out, 8, order=SHUFFLED, seed=seed)
        return out.tolist()

    assert winners(3) == winners(3)
    assert len({tuple(winners(seed)) for seed in range(4)}) == 4


def test_first_writer_is_the_first_in_order(threads: Emulated) -> None:
    out = np.zeros(2, dtype=np.int32)
    threads.run("run_first_writer", out, 2)
    assert out.tolist() == [1, 1]
    out[:] = 0
    threads.run("run_first_writer", out, 2, order=REVERSED)
    assert out.tolist() == [96, 96]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("width", [32, 16, 8])
def test_shuffles(threads: Emulated, width: int, order: int) -> None:
    values = np.arange(100, 132, dtype=np.int32)
    out = np.zeros((4, 32), dtype=np.int32)
    assert threads.run("run_shuffles", values, out, width, order=order) == SUCCESS
    for lane in range(32):
        first = lane // width * width
        index = first + (lane + 3) % width
        up = lane - 2 if lane - 2 >= first else lane
        down = lane + 2 if lane + 2 < first + width else lane
        xor = lane ^ 5
        xor = xor if xor < first + width else lane
        assert out[:, lane].tolist() == [100 + source for source in (index, up, down, xor)]


def test_shuffle_among_half_a_warp(threads: Emulated) -> None:
    out = np.zeros(32, dtype=np.float64)
    assert threads.run("run_half_mask", out) == SUCCESS
    assert out.tolist() == [15.25] * 16 + [(lane ^ 1) + 0.25 for lane in range(16, 32)]


def test_a_lane_outside_the_mask_gives_nan(threads: Emulated) -> None:
    out = np.zeros(32, dtype=np.float32)
    assert threads.run("run_absent_source", out) == SUCCESS
    assert np.isnan(out[:16]).all() and not out[16:].any()


def test_votes_matches_and_reductions(threads: Emulated) -> None:
    out = np.zeros((5, 32), dtype=np.int32)
    assert threads.run("run_votes", out) == SUCCESS
    ballot = sum(1 << lane for lane in range(0, 32, 3))
    assert (out[0].view(np.uint32) == ballot).all()
    assert (out[1] == 10).all()
    assert out[2].view(np.uint32).tolist() == [0xFF << lane // 8 * 8 for lane in range(32)]
    assert (out[3] == sum(range(32))).all()
    assert (out[4].view(np.uint32) == 0xFFFFFFFF).all()


@pytest.mark.parametrize("order", ORDERS)
def test_active_lanes_are_those_of_the_branch(threads: Emulated, order: int) -> None:
    out = np.zeros((2, 2, 32), dtype=np.uint32)
    assert threads.run("run_branches", out, order=order) == SUCCESS
    for warp, count in ((0, 32), (1, 8)):
        lanes = [lane for lane in range(count) if (warp * 32 + lane) % 3]
        groups = {True: [lane for lane in lanes if lane % 3 == 1], False: [lane for lane in lanes if lane % 3 != 1]}
        for lane in lanes:
            group = groups[lane % 3 == 1]
            mask = sum(1 << one for one in group)
            assert out[warp, 0, lane] == mask
            assert out[warp, 1, lane] == (sum(1 << one for one in group if one > 10) if lane % 3 == 1 else len(group))


def test_counting_barriers(threads: Emulated) -> None:
    out = np.zeros(3, dtype=np.int32)
    assert threads.run("run_counts", out) == SUCCESS
    assert out.tolist() == [25, 1, 1]


def test_atomics(threads: Emulated) -> None:
    out, total = np.zeros(4, dtype=np.int32), np.zeros(1, dtype=np.float32)
    assert threads.run("run_atomics", out, total) == SUCCESS
    assert out.tolist() == [100, 49, -49, 1] and total[0] == 50


def finding(threads: Emulated, kind: str, kernel: str) -> dict[str, str]:
    assert [(f["kind"], f["kernel"]) for f in threads.findings()] == [(kind, kernel)]
    return threads.findings()[0]


@pytest.mark.parametrize("order", ORDERS)
def test_a_returned_thread_is_missed_at_the_barrier(threads: Emulated, order: int) -> None:
    assert threads.run("run_early_return", np.zeros(128, dtype=np.float32), order=order) == LAUNCH_FAILURE
    found = finding(threads, "barrier_divergence", "early_return")
    assert found["where"] == line_of("threads.cu", "line: exited")
    assert "32 have returned" in found["message"] and "96 wait in __syncthreads" in found["message"]


@pytest.mark.parametrize("order", ORDERS)
def test_two_different_barriers(threads: Emulated, order: int) -> None:
    assert threads.run("run_two_barriers", np.zeros(128, dtype=np.float32), order=order) == LAUNCH_FAILURE
    assert "threads of the block wait in theirs" in finding(threads, "barrier_divergence", "two_barriers")["message"]


def test_deadlock_between_a_warp_and_the_block(threads: Emulated) -> None:
    assert threads.run("run_lost_lanes", np.zeros(32, dtype=np.float32)) == LAUNCH_FAILURE
    message = finding(threads, "deadlock", "lost_lanes")["message"]
    assert f"16 wait in __syncwarp at {line_of('threads.cu', 'line: syncwarp')}" in message


def test_a_lane_must_be_in_its_own_mask(threads: Emulated) -> None:
    assert threads.run("run_not_in_mask", np.zeros(32, dtype=np.float32)) == LAUNCH_FAILURE
    finding(threads, "warp_mask", "not_in_mask")


def test_trap_ends_the_launch(threads: Emulated) -> None:
    assert threads.run("run_traps", np.zeros(64, dtype=np.float32)) == LAUNCH_FAILURE
    assert "thread (40,0,0)" in finding(threads, "trap", "traps")["message"]


def test_a_fatal_finding_sticks_until_reset(threads: Emulated) -> None:
    out = np.zeros(128, dtype=np.float32)
    threads.run("run_traps", out)
    assert threads.call("last_error") == LAUNCH_FAILURE
    assert threads.call("run_bounded", out, 32) == LAUNCH_FAILURE
    assert threads.launches()[1]["error"] == "not run: an earlier launch failed"
    assert threads.run("run_bounded", out, 32) == SUCCESS
    assert threads.findings() == []


@pytest.mark.parametrize(
    ("x", "y", "grid", "says"),
    [(1025, 1, 1, "1025 threads"), (64, 32, 1, "2048 threads"), (0, 1, 1, "no threads"), (32, 1, 0, "no blocks")],
)
def test_impossible_launch_is_refused(threads: Emulated, x: int, y: int, grid: int, says: str) -> None:
    out = np.full(2048, 5, dtype=np.float32)
    assert threads.run("run_sized", out, x, y, grid) == INVALID_CONFIGURATION
    assert (out == 5).all()
    assert says in finding(threads, "invalid_launch", "reverse")["message"]
    assert says in threads.launches()[0]["error"]


def test_more_threads_than_the_launch_bounds(threads: Emulated) -> None:
    assert threads.run("run_bounded", np.zeros(65, dtype=np.float32), 65) == INVALID_VALUE
    assert "__launch_bounds__" in finding(threads, "invalid_launch", "bounded")["message"]
    assert threads.launches()[0]["max_threads"] == 64


def test_kernel_pointer_templates_and_arguments(threads: Emulated) -> None:
    data, out = np.arange(32, dtype=np.float32), np.zeros(96, dtype=np.float32)
    before = threads.run("run_scale", data, out)
    assert threads.run("run_scale", data, out) == before + 1, "arguments are evaluated once a launch"
    assert out[:32].tolist() == (data * 3 + 1).tolist()
    assert out[32:64].tolist() == (data * 2 + 0.5).tolist()
    assert (out[64:] == 4).all()
    assert [launch["kernel"] for launch in threads.launches()] == ["scale", "scale", "deduced"]


def test_configure_refuses_what_it_does_not_know(threads: Emulated) -> None:
    assert threads.configure("oder", 1) != 0
    assert threads.configure("order", 3) != 0
    assert threads.configure("shared_limit_bytes", 1) != 0


ASSERTS = """{top}
__global__ void k(const int* in) {{
    int i = in[threadIdx.x];
    assert(i != 900);
}}
extern "C" int device() {{ int in[32] = {{0, 900}}; k<<<1, 32>>>(in); return cudaGetLastError(); }}
extern "C" int host(int i) {{ assert(i != 900); return i; }}
"""
CUDA = "#include <cuda_runtime.h>"


@pytest.mark.parametrize("header", ["#include <assert.h>", "#include <cassert>"])
@pytest.mark.parametrize("order", ["{cuda} {header}", "{header} {cuda}", "{cuda} {header} {header}"], ids=["after", "before", "twice"])
def test_a_failed_assertion_ends_the_launch_wherever_its_header_stands(tmp_path: Path, header: str, order: str) -> None:
    source = tmp_path / "k.cu"
    source.write_text(ASSERTS.format(top=order.format(cuda=CUDA, header=header).replace(" #", "\n#")))
    library = Emulated(compile_library([source], tmp_path / "k.so", work_dir=tmp_path))
    assert library.run("device") == 710
    (finding,) = library.findings()
    assert (finding["kind"], finding["where"]) == ("assert", f"{source}:{source.read_text().count('#include') + 3}")
    assert finding["message"] == "assertion failed: i != 900, block (0,0,0) thread (1,0,0)"


@pytest.mark.parametrize("header", ["#include <assert.h>", "#include <cassert>"])
def test_assertions_go_by_ndebug_at_the_last_inclusion(tmp_path: Path, header: str) -> None:
    source = tmp_path / "k.cu"
    source.write_text(ASSERTS.format(top=f"{CUDA}\n{header}\n#define NDEBUG\n{header}"))
    library = Emulated(compile_library([source], tmp_path / "k.so", work_dir=tmp_path))
    assert (library.run("device"), library.findings(), library.run("host", 900)) == (0, [], 900)


def test_an_assertion_of_the_host_ends_the_process(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text(ASSERTS.format(top=f"{CUDA}\n#include <cassert>"))
    library = compile_library([source], tmp_path / "k.so", work_dir=tmp_path)
    call = f"import ctypes; ctypes.CDLL({str(library)!r}).host(900)"
    finished = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (-signal.SIGABRT, f"{source}:8: assertion failed: i != 900\n")
