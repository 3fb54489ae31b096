"""Shared memory, its limits, and asynchronous copies on the emulator."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_kit import FORWARD, REVERSED, Emulated, aligned, emulated, line_of

SUCCESS, INVALID_VALUE, ILLEGAL_ADDRESS, ADDRESS_SPACE, LAUNCH_FAILURE = 0, 1, 700, 717, 719
MISALIGNED = 716
KIB = 1024


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Emulated:
    return emulated("memory.cu", tmp_path_factory.mktemp("memory"))


def only_finding(memory: Emulated) -> dict[str, str]:
    assert len(memory.findings()) == 1
    return memory.findings()[0]


def test_unwritten_shared_memory_is_nan(memory: Emulated) -> None:
    out = np.zeros(65, dtype=np.float32)
    assert memory.run("run_unwritten", out) == SUCCESS
    assert (out[:16] == 3).all() and np.isnan(out[16:]).all()


@pytest.mark.parametrize("poison", [0, 0x7F, 256])
def test_unwritten_memory_holds_what_was_configured(memory: Emulated, poison: int) -> None:
    out, again = np.zeros(65, dtype=np.float32), np.zeros(65, dtype=np.float32)
    assert memory.configure("poison", poison) == 0
    for values in (out, again):
        assert memory.run("run_unwritten", values) == SUCCESS
    memory.configure("poison", 0xFF)
    assert out.tobytes() == again.tobytes() and (out[:16] == 3).all()
    holds = np.full(4, poison, dtype=np.uint8).view(np.float32)[0] if poison < 256 else None
    assert (out[64:].view(np.uint32) == holds.view(np.uint32)).all() if poison < 256 else len(set(out[16:64].tobytes())) > 20
    assert memory.configure("poison", 257) != 0 and memory.configure("poison", -1) != 0


def test_a_block_does_not_find_what_the_last_one_left(memory: Emulated) -> None:
    out = np.zeros(64, dtype=np.float32)
    assert memory.run("run_leftovers", out) == SUCCESS
    assert (out[:32] == 7).all() and np.isnan(out[32:]).all()


@pytest.mark.parametrize("order", [FORWARD, REVERSED])
def test_dynamic_shared_memory_carved_by_hand(memory: Emulated, order: int) -> None:
    n = 1000
    out = np.zeros(n, dtype=np.float32)
    assert memory.run("run_dynamic", out, n, order=order) == SUCCESS
    assert out.tolist() == [11.0 * (n - 1 - i) for i in range(n)]
    assert memory.launches()[0]["dynamic_smem_bytes"] == 8 * n


def test_static_and_dynamic_shared_memory_together(memory: Emulated) -> None:
    out = np.zeros(32, dtype=np.float32)
    assert memory.run("run_both", out, 128, 0) == SUCCESS
    assert (out == 3).all()
    launch = memory.launches()[0]
    assert (launch["static_smem_bytes"], launch["dynamic_smem_bytes"], launch["opt_in_smem_bytes"]) == (16, 128, 0)


def test_48_kib_without_opt_in(memory: Emulated) -> None:
    out = np.full(32, 5, dtype=np.float32)
    # 16 static bytes more than fit; known only when the kernel reaches its declaration
    assert memory.run("run_both", out, 48 * KIB, 0) == INVALID_VALUE
    assert "16 static + 49152 dynamic" in only_finding(memory)["message"]
    assert memory.run("run_both", out, 48 * KIB + 1, 0) == INVALID_VALUE
    message = only_finding(memory)["message"]
    assert "49153 dynamic" in message and "49152" in message and "cudaFuncSetAttribute" in message
    assert (out == 5).all()
    assert memory.run("run_both", out, 48 * KIB - 16, 0) == SUCCESS


def test_opt_in_up_to_the_limit_of_the_device(memory: Emulated) -> None:
    out = np.zeros(32, dtype=np.float32)
    assert memory.run("run_both", out, 64 * KIB, 64 * KIB) == SUCCESS
    assert memory.launches()[0]["opt_in_smem_bytes"] == 64 * KIB
    assert memory.run("run_both", out, 64 * KIB + 4, 64 * KIB) == INVALID_VALUE
    assert memory.run("run_both", out, 4, 99 * KIB + 1) == 1000 + INVALID_VALUE
    assert memory.run("run_both", out, 99 * KIB, 99 * KIB) == INVALID_VALUE, "no room for 16 static bytes"
    assert "101376" in only_finding(memory)["message"]
    assert memory.configure("shared_limit_bytes", 227 * KIB) == 0
    assert memory.run("run_both", out, 200 * KIB, 200 * KIB) == SUCCESS
    memory.configure("shared_limit_bytes", 99 * KIB)


def test_launches_that_are_only_recorded(memory: Emulated) -> None:
    out = np.full(32, 5, dtype=np.float32)
    assert memory.configure("launches_only", 2) != 0 and memory.configure("compute_capability", 9) != 0
    assert memory.configure("launches_only", 1) == 0
    assert memory.run("run_both", out, 64 * KIB, 64 * KIB) == SUCCESS
    launch = memory.launches()[0]
    assert (out == 5).all() and not memory.findings()
    assert (launch["kernel"], launch["block"], launch["dynamic_smem_bytes"], launch["error"]) == ("both", [32, 1, 1], 64 * KIB, "")
    assert memory.run("run_both", out, 64 * KIB + 4, 64 * KIB) == INVALID_VALUE, "a launch that a device refuses is refused"
    assert memory.configure("launches_only", 0) == 0
    assert memory.run("run_both", out, 128, 0) == SUCCESS
    assert (out == 3).all() and memory.launches()[0]["static_smem_bytes"] == 16


@pytest.mark.parametrize("index", [32, 40, -1])
def test_write_past_a_shared_array(memory: Emulated, index: int) -> None:
    assert memory.run("run_overrun", np.zeros(32, dtype=np.float32), index) == ILLEGAL_ADDRESS
    found = only_finding(memory)
    assert found["kind"] == "shared_out_of_bounds" and "tile (128 bytes)" in found["message"]


def copies(memory: Emulated, mode: int, order: int = FORWARD) -> tuple[int, np.ndarray, np.ndarray]:
    data, out = aligned(128, np.float32), aligned(128, np.float32)
    data[:] = np.arange(128)
    code = memory.run("run_copies", data, out, mode, order=order)
    return code, out, data.reshape(32, 4)[::-1].reshape(-1)


def test_asynchronous_copy(memory: Emulated) -> None:
    code, out, expected = copies(memory, 0)
    assert code == SUCCESS and out.tolist() == expected.tolist() and memory.findings() == []


@pytest.mark.parametrize(("mode", "says"), [(1, "without waiting"), (2, "without committing"), (3, "without waiting")])
def test_copy_that_is_not_waited_for_never_lands(memory: Emulated, mode: int, says: str) -> None:
    _, out, _ = copies(memory, mode)
    assert np.isnan(out).all()
    found = only_finding(memory)
    assert found["kind"] == "copy_never_waited_for" and says in found["message"]
    assert found["where"] == line_of("memory.cu", "line: copy")


def test_wait_without_a_barrier_does_not_cover_other_threads(memory: Emulated) -> None:
    for order in (FORWARD, REVERSED):
        _, out, _ = copies(memory, 4, order)
        assert np.isnan(out).any() and not np.isnan(out).all()


def test_zero_fill(memory: Emulated) -> None:
    data, out = aligned(4, np.int32), aligned(4, np.int32)
    data[:] = [1, 2, 3, 4]
    assert memory.run("run_zero_fill", data, out) == SUCCESS
    assert out.tolist() == [1, 2, 0, 0]


def test_groups_land_in_order(memory: Emulated) -> None:
    data, out = aligned(8, np.int32), aligned(4, np.int32)
    data[:] = range(8)
    assert memory.run("run_staged", data, out) == SUCCESS
    assert out.tolist() == [3, -1, 3, 7], "the second group still holds poison at the first wait"


@pytest.mark.parametrize(
    ("mode", "code", "kind", "says"),
    [
        (0, MISALIGNED, "misaligned_copy", "destination"),
        (1, MISALIGNED, "misaligned_copy", "source"),
        (2, LAUNCH_FAILURE, "bad_copy", "12 bytes"),
        (3, ILLEGAL_ADDRESS, "shared_out_of_bounds", "outside any shared variable"),
        (4, ADDRESS_SPACE, "bad_copy", "not in shared memory"),
        (5, ADDRESS_SPACE, "bad_copy", "from shared memory"),
        (6, LAUNCH_FAILURE, "bad_copy", "zfill 17"),
        (7, ADDRESS_SPACE, "bad_copy", "local"),
    ],
)
def test_impossible_copies(memory: Emulated, mode: int, code: int, kind: str, says: str) -> None:
    assert memory.run("run_bad_copies", aligned(64, np.uint8), mode) == code
    found = only_finding(memory)
    assert found["kind"] == kind and says in found["message"]
    assert found["where"] == line_of("memory.cu", f"if (mode == {mode}) __pipeline")


def test_uninitialised_local_arrays_hold_a_pattern(memory: Emulated) -> None:
    out = np.zeros(2, dtype=np.float32)
    assert memory.run("run_uninitialised", out, 2) == SUCCESS
    assert out[0] == 1 and out[1] < -1e38


def test_constant_and_device_variables(memory: Emulated) -> None:
    out = np.zeros(4, dtype=np.float32)
    assert memory.run("run_globals", out) == SUCCESS
    assert out.tolist() == [4, 5, 6, 7]


def test_the_made_up_device(memory: Emulated) -> None:
    out = np.zeros(5, dtype=np.int32)
    assert memory.run("device_limits", out) == SUCCESS
    assert out.tolist() == [89, 99 * KIB, 99 * KIB, 1, 1]
