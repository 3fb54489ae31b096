"""Asynchronous copies land at the wait, some of them before: what reads or writes too early differs or is poison."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_kit import FORWARD, REVERSED, SHUFFLED, Emulated, aligned, emulated

NONE, INTO_BUFFER_BEING_READ, NO_WAIT, STORE_UNDER_COPY, SOURCE_CHANGED, TOO_FEW_GROUPS, NO_BARRIER = range(7)
ORDERS = (FORWARD, REVERSED, SHUFFLED)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Emulated:
    return emulated("copies.cu", tmp_path_factory.mktemp("copies"))


def stream(library: Emulated, defect: int, order: int, seed: int = 1) -> bytes:
    data, out = aligned(6 * 64 * 4, np.float32), aligned(6 * 64, np.float32)
    data[:] = np.arange(data.size)
    assert library.run("run_stream", data, out, defect, order=order, seed=seed) == 0
    return out.tobytes()


def right() -> bytes:
    sums = np.arange(6 * 64 * 4, dtype=np.float32).reshape(6, 64, 4).sum(-1)
    return np.roll(sums, -1, axis=1).tobytes()


@pytest.mark.parametrize("seed", range(8))
def test_an_honest_pipeline_is_right_in_every_order(copies: Emulated, seed: int) -> None:
    assert {stream(copies, NONE, order, seed) for order in ORDERS} == {right()}
    assert copies.findings() == []


@pytest.mark.parametrize("defect", [INTO_BUFFER_BEING_READ, NO_WAIT, STORE_UNDER_COPY, SOURCE_CHANGED, TOO_FEW_GROUPS, NO_BARRIER])
def test_a_defect_shows_in_the_three_orders_of_the_gate(copies: Emulated, defect: int) -> None:
    outputs = [stream(copies, defect, order) for order in ORDERS]
    assert any(output != right() for output in outputs)


@pytest.mark.parametrize("defect", [STORE_UNDER_COPY, SOURCE_CHANGED])
def test_what_a_late_copy_hides_an_early_one_shows(copies: Emulated, defect: int) -> None:
    late = {stream(copies, defect, order) for order in (FORWARD, REVERSED)}
    assert len(late) == 1 and stream(copies, defect, SHUFFLED) not in late


def test_about_half_of_the_copies_are_early_in_shuffled_order_and_the_seed_chooses(copies: Emulated) -> None:
    data, landed = aligned(256, np.float32), np.zeros(64, dtype=np.int32)
    data[:] = np.arange(1, 257)
    chosen = []
    for order, seed in ((FORWARD, 1), (REVERSED, 1), (SHUFFLED, 1), (SHUFFLED, 2), (SHUFFLED, 1)):
        assert copies.run("run_early", data, landed, 64, order=order, seed=seed) == 0
        chosen.append(landed.tolist())
    assert sum(chosen[0]) == sum(chosen[1]) == 0
    assert all(12 < sum(each) < 52 for each in chosen[2:])
    assert chosen[2] == chosen[4] != chosen[3]
