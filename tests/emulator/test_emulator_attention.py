"""A realistic kernel on the emulator: right in every order, wrong without its wait or its barrier, and quick."""

from __future__ import annotations

import ctypes
import time

import numpy as np
import pytest
from emulator_kit import FORWARD, REVERSED, SHUFFLED, Emulated, aligned, emulated

DIM = 64


@pytest.fixture(scope="module")
def attention(tmp_path_factory: pytest.TempPathFactory) -> Emulated:
    return emulated("attention.cu", tmp_path_factory.mktemp("attention"))


def attend(
    library: Emulated, heads: int, sequence: int, *, order: int = FORWARD, seed: int = 0, defect: int = 0
) -> tuple[np.ndarray, float]:
    """Output and its largest error against float64."""
    generator = np.random.default_rng(0)
    size = heads * sequence * DIM
    q, k, v, out = (aligned(size, np.float16) for _ in range(4))
    for tensor in (q, k, v):
        tensor[:] = generator.standard_normal(size)
    message = ctypes.create_string_buffer(200)
    code = library.run(
        "attention_forward",
        q,
        k,
        v,
        out,
        ctypes.c_int64(heads),
        ctypes.c_int64(sequence),
        0.125,
        defect,
        None,
        message,
        ctypes.c_int64(200),
        order=order,
        seed=seed,
    )
    assert code == 0, message.value
    wide = [tensor.astype(np.float64).reshape(heads, sequence, DIM) for tensor in (q, k, v)]
    scores = wide[0] @ wide[1].transpose(0, 2, 1) * 0.125
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    exact = weights / weights.sum(-1, keepdims=True) @ wide[2]
    return out, float(np.abs(out.astype(np.float64) - exact.reshape(-1)).max())


def test_right_in_every_order_and_bit_for_bit_the_same(attention: Emulated) -> None:
    outputs = []
    for order in (FORWARD, REVERSED, SHUFFLED):
        out, error = attend(attention, 2, 96, order=order, seed=3)
        assert error < 2e-3
        outputs.append(out.tobytes())
        assert attention.findings() == []
    assert len(set(outputs)) == 1
    launch = attention.launches()[0]
    assert (launch["kernel"], launch["grid"], launch["block"]) == ("attention", [3, 2, 1], [128, 1, 1])
    assert launch["dynamic_smem_bytes"] == launch["opt_in_smem_bytes"] == 40192


def test_mission_shape_takes_seconds(attention: Emulated) -> None:
    start = time.monotonic()
    _, error = attend(attention, 8, 512)
    assert error < 2e-3
    assert time.monotonic() - start < 15


def test_missing_wait_is_nan(attention: Emulated) -> None:
    out, error = attend(attention, 1, 64, defect=1)
    assert np.isnan(out).any() and not error < 2e-3


def test_missing_barrier_changes_the_result_between_orders(attention: Emulated) -> None:
    outputs = {attend(attention, 1, 96, order=order, seed=3, defect=2)[0].tobytes() for order in (FORWARD, REVERSED, SHUFFLED)}
    assert len(outputs) > 1
