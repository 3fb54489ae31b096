"""Tensor-core fragments of the emulator against float64 products."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from emulator_kit import FORWARD, REVERSED, SHUFFLED, Emulated, aligned, emulated, line_of

SHAPES = [(16, 16, 16), (32, 8, 16), (8, 32, 16)]
MISALIGNED, LAUNCH_FAILURE = 716, 719


@pytest.fixture(scope="module")
def wmma(tmp_path_factory: pytest.TempPathFactory) -> Emulated:
    return emulated("wmma.cu", tmp_path_factory.mktemp("wmma"))


def stored(matrix: np.ndarray, by_row: bool, dtype: type, padding: int) -> tuple[np.ndarray, int]:
    """The matrix in memory, row by row or column by column, its lines ``padding`` elements apart."""
    lines = matrix if by_row else matrix.T
    leading = lines.shape[1] + padding
    memory = aligned(lines.shape[0] * leading, dtype)
    memory.reshape(-1, leading)[:, : lines.shape[1]] = lines
    return memory, leading


@pytest.mark.parametrize("order", [FORWARD, REVERSED, SHUFFLED])
@pytest.mark.parametrize("sums", ["float", "half"])
@pytest.mark.parametrize("shape", SHAPES)
def test_product_in_every_layout(wmma: Emulated, shape: tuple[int, int, int], sums: str, order: int) -> None:
    m, n, k = shape
    dtype = np.float32 if sums == "float" else np.float16
    generator = np.random.default_rng(m)
    a, b, c = (generator.standard_normal(size).astype(np.float16) for size in ((m, k), (k, n), (m, n)))
    exact = 2 * a.astype(np.float64) @ b.astype(np.float64) + c + 1
    for a_row, b_row, c_row in itertools.product((True, False), repeat=3):
        (ma, lda), (mb, ldb) = stored(a, a_row, np.float16, 8), stored(b, b_row, np.float16, 16)
        mc, ldc = stored(c, c_row, dtype, 8)
        md = aligned(mc.size, dtype)
        assert wmma.run(f"run_{sums}", ma, mb, mc, md, m, int(a_row), int(b_row), int(c_row), lda, ldb, ldc, order=order) == 0
        lines = md.reshape(-1, ldc)[:, : n if c_row else m]
        got = (lines if c_row else lines.T).astype(np.float64)
        tolerance = 1e-5 if sums == "float" else 2e-2
        assert np.abs(got - exact).max() <= tolerance
        assert not md.reshape(-1, ldc)[:, n if c_row else m :].any(), "padding is untouched"


def test_small_integers_are_exact(wmma: Emulated) -> None:
    generator = np.random.default_rng(7)
    a, b = (generator.integers(-8, 9, (16, 16)).astype(np.float16) for _ in range(2))
    (ma, lda), (mb, ldb) = stored(a, True, np.float16, 0), stored(b, True, np.float16, 0)
    mc, md = aligned(256, np.float32), aligned(256, np.float32)
    assert wmma.run("run_float", ma, mb, mc, md, 16, 1, 1, 1, lda, ldb, 16) == 0
    assert (md.reshape(16, 16) == 2 * a.astype(np.float64) @ b.astype(np.float64) + 1).all()


def test_an_unfilled_accumulator_is_nan(wmma: Emulated) -> None:
    out = aligned(256, np.float32)
    assert wmma.run("run_unfilled", aligned(256, np.float16), out) == 0
    assert np.isnan(out).all()


def test_mma_needs_the_whole_warp(wmma: Emulated) -> None:
    assert wmma.run("run_partial_warp", aligned(256, np.float16), aligned(256, np.float32)) == LAUNCH_FAILURE
    found = wmma.findings()[0]
    assert (found["kind"], found["where"]) == ("warp_divergence", line_of("wmma.cu", "line: partial"))


@pytest.mark.parametrize(("offset", "ldm", "says"), [(8, 16, "32 bytes"), (0, 20, "multiple of 8")])
def test_alignment_of_a_matrix(wmma: Emulated, offset: int, ldm: int, says: str) -> None:
    assert wmma.run("run_load_only", aligned(512, np.float16), offset, ldm) == MISALIGNED
    found = wmma.findings()[0]
    assert found["kind"] == "wmma_alignment" and says in found["message"]
    assert found["where"] == line_of("wmma.cu", "line: load")


def test_missing_syncwarp_before_a_load(wmma: Emulated) -> None:
    out = aligned(256, np.float32)
    assert wmma.run("run_no_syncwarp", out, 1) == 0
    assert out.tolist() == list(range(256))
    wmma.run("run_no_syncwarp", out, 0)
    assert np.isnan(out).any()
