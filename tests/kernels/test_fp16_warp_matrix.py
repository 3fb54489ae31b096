"""ldmatrix, mma.sync and E4M3 on the emulator against numpy, by the PTX ISA's layouts and the format's definition."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_kit import ORDERS, Emulated, emulated

LANES = np.arange(32)
G, T = LANES // 4, LANES % 4  # as the PTX ISA's groupID and threadID_in_group
NO_BARRIER, MISALIGNED, GLOBAL, HALF_WARP, OUTSIDE = 1, 2, 3, 4, 5


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Emulated:
    return emulated("warp_matrix.cu", tmp_path_factory.mktemp("warp_matrix"))


def halves(*values: np.ndarray) -> np.ndarray:
    """Pairs of halves along the last axis as registers, the first in the lower 16 bits."""
    return np.ascontiguousarray(np.stack(values, axis=-1).astype(np.float16)).view(np.uint32)[..., 0]


def fragment_a(a: np.ndarray) -> np.ndarray:
    """[32 lanes, 4 registers] of a 16 x 16 matrix."""
    return np.stack(
        [halves(a[G + 8 * (i % 2), 2 * T + 8 * (i // 2)], a[G + 8 * (i % 2), 2 * T + 1 + 8 * (i // 2)]) for i in range(4)], axis=1
    )


def fragment_b(b: np.ndarray) -> np.ndarray:
    """[32, 2] of a 16 x 8 matrix."""
    return np.stack([halves(b[2 * T + 8 * i, G], b[2 * T + 1 + 8 * i, G]) for i in range(2)], axis=1)


def fragment_c(c: np.ndarray) -> np.ndarray:
    """[32, 4] of a 16 x 8 matrix."""
    return np.stack([c[G + 8 * (i // 2), 2 * T + i % 2] for i in range(4)], axis=1).astype(np.float32)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("transposed", [0, 1])
def test_ldmatrix(library: Emulated, transposed: int, order: str) -> None:
    given, out = np.zeros(256, np.float16), np.zeros((32, 4), np.uint32)
    given[:] = np.arange(256)
    assert library.run("load_launch", given, out, transposed, 0, order=order) == 0
    matrices = given.reshape(4, 8, 8)
    matrices = matrices.transpose(0, 2, 1) if transposed else matrices
    assert (out == np.stack([halves(m[G, 2 * T], m[G, 2 * T + 1]) for m in matrices], axis=1)).all()
    assert library.findings == []


def test_ldmatrix_without_a_barrier_is_a_race(library: Emulated) -> None:
    library.run("load_launch", np.zeros(256, np.float16), np.zeros((32, 4), np.uint32), 0, NO_BARRIER)
    assert "race_shared" in library.kinds()


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (MISALIGNED, "misaligned"),
        (GLOBAL, "shared_out_of_bounds"),
        (OUTSIDE, "shared_out_of_bounds"),
    ],
)
def test_ldmatrix_used_wrongly(library: Emulated, fault: int, kind: str) -> None:
    out = np.zeros((32, 4), np.uint32)
    assert library.run("load_launch", np.zeros(1024, np.float16), out, 0, fault) != 0
    assert library.kinds() == [kind]


@pytest.mark.parametrize("entry", ["load_launch", "multiply_launch"])
def test_half_a_warp_has_ended(library: Emulated, entry: str) -> None:
    sizes = (1024, 128) if entry == "load_launch" else (128, 64, 128)
    library.run(entry, *(np.zeros(size, np.uint32) for size in sizes), *([0] if entry == "load_launch" else []), HALF_WARP)
    assert library.kinds() == ["ended_lanes"]
    assert "16 of them have ended" in library.findings[0]["message"]


@pytest.mark.parametrize("order", ORDERS)
def test_mma_of_whole_numbers_is_exact(library: Emulated, order: str) -> None:
    draw = np.random.default_rng(3)
    a, b, c = draw.integers(-9, 10, (16, 16)), draw.integers(-9, 10, (16, 8)), draw.integers(-99, 100, (16, 8))
    sums = fragment_c(c)
    assert library.run("multiply_launch", fragment_a(a), fragment_b(b), sums, 0, order=order) == 0
    assert (sums == fragment_c(a @ b + c)).all()
    assert library.findings == []


def test_mma_keeps_float_sums(library: Emulated) -> None:
    draw = np.random.default_rng(4)
    a, b = (draw.standard_normal(size).astype(np.float16) for size in ((16, 16), (16, 8)))
    sums = fragment_c(np.zeros((16, 8)))
    assert library.run("multiply_launch", fragment_a(a), fragment_b(b), sums, 0) == 0
    exact, size = (fragment_c(x @ y) for x, y in ((a.astype(float), b.astype(float)), (abs(a).astype(float), abs(b).astype(float))))
    assert (abs(sums - exact) <= 17 * 2.0**-23 * size).all()


def e4m3(code: int) -> float:
    """The value of a byte by the OCP 8-bit specification: sign 1, exponent 4 with bias 7, mantissa 3; S.1111.111 is NaN."""
    exponent, mantissa = code >> 3 & 15, code & 7
    if code & 0x7F == 0x7F:
        return np.nan
    size = 2.0 ** (exponent - 7) * (1 + mantissa / 8) if exponent else 2.0**-6 * mantissa / 8
    return -size if code & 0x80 else size


def test_every_e4m3_byte_in_every_place_is_its_half_exactly(library: Emulated) -> None:
    codes = np.stack([np.roll(np.arange(256), shift) for shift in range(4)], axis=1).astype(np.uint8)
    out = np.zeros((256, 4), np.float16)
    assert library.run("decode_launch", codes, out, 256) == 0
    expected = np.array([e4m3(code) for code in range(256)])[codes]
    assert (
        np.array_equal(out.astype(float), expected, equal_nan=True) and (np.signbit(out) == np.signbit(expected))[~np.isnan(expected)].all()
    )
