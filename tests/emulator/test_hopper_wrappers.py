"""The wrappers of mbarrier, TMA and wgmma in kernels/cuda on the emulator against numpy, by the layouts of the PTX ISA."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_kit import ORDERS, Emulated, emulated

FAULTS = (
    "none",
    "wrong_parity",
    "too_many_bytes",
    "too_few_bytes",
    "not_fenced",
    "not_initialised",
    "misaligned",
    "outside",
    "arrives_twice",
    "never_waits",
    "no_fence",
    "no_wait",
    "overwrites_shared",
    "writes_accumulators",
    "reads_early",
    "half_warpgroup",
    "other_descriptor",
    "other_order",
    "base_offset",
    "three_warps",
    "uneven_registers",
    "too_many_registers",
    "odd_registers",
)
NONE, SWIZZLE_128, SWIZZLE_64, SWIZZLE_32 = range(4)  # as in a matrix descriptor
CHUNKS = {NONE: 1, SWIZZLE_128: 8, SWIZZLE_64: 4, SWIZZLE_32: 2}  # of 16 bytes, in a row of a swizzle's atom
THREADS = np.arange(128)
WARP, G, T = THREADS // 32, THREADS % 32 // 4, THREADS % 4


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Emulated:
    return emulated("hopper.cu", tmp_path_factory.mktemp("hopper"))


def swizzled(address: np.ndarray, mode: int) -> np.ndarray:
    """Swizzle<bits, 4, 3>: as many address bits from bit 4 on are XORed with those from bit 7 on."""
    return address ^ (address // 128 % CHUNKS[mode] * 16)


# TMA

ROWS, WIDTH, HEADS, LENGTH = 16, 128, 2, 50


def load(
    library: Emulated, column: int, row: int, head: int, fault: str = "none", order: str = "forward", seed: int = 0
) -> tuple[int, np.ndarray, np.ndarray]:
    tensor, out = np.zeros(HEADS * LENGTH * WIDTH, np.uint16), np.zeros(2 * ROWS * 128, np.uint8)
    tensor[:] = np.arange(tensor.size) + 1
    status = library.run(
        "load_launch", tensor, out, WIDTH, LENGTH, HEADS, ROWS, column, row, head, FAULTS.index(fault), order=order, seed=seed
    )
    return status, out, tensor.reshape(HEADS, LENGTH, WIDTH)


def box(tensor: np.ndarray, column: int, row: int, head: int) -> np.ndarray:
    """Both boxes as bytes [32, 128], zeros outside, not swizzled."""
    whole = np.zeros((2 * ROWS, 64), np.uint16)
    rows = [n for n in range(2 * ROWS) if 0 <= row + n < LENGTH and 0 <= head < HEADS]
    columns = [n for n in range(64) if 0 <= column + n < WIDTH]
    for n in rows:
        whole[n, columns] = tensor[head, row + n, [column + c for c in columns]]
    return whole.view(np.uint8)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("place", [(0, 0, 0), (64, 16, 1), (0, 40, 0), (64, 49, 1), (96, -3, 0), (-8, 5, 1), (0, 0, 2)])
def test_a_box_is_swizzled_and_zero_outside_its_head(library: Emulated, place: tuple[int, int, int], order: str) -> None:
    status, out, tensor = load(library, *place, order=order)
    assert status == 0 and library.findings == []
    address = np.arange(2 * ROWS * 128)
    assert (out[swizzled(address, SWIZZLE_128)] == box(tensor, *place).reshape(-1)).all()


@pytest.mark.parametrize(("width", "rows"), [(4, 16), (64, 257), (64, 0)])
def test_what_the_driver_refuses_is_refused(library: Emulated, width: int, rows: int) -> None:
    assert library.run("load_launch", np.zeros(64, np.uint16), np.zeros(1, np.uint8), width, 1, 1, rows, 0, 0, 0, 0) == -1


@pytest.mark.parametrize("order", ORDERS)
def test_a_ring_hands_over_every_number_once(library: Emulated, order: str) -> None:
    out = np.zeros(32, np.int32)
    assert library.run("ring_launch", out, 7, 0, order=order, seed=3) == 0
    assert (out == 28).all() and library.findings == []


def test_a_ring_with_the_wrong_parity_is_stuck(library: Emulated) -> None:
    assert library.run("ring_launch", np.zeros(32, np.int32), 4, FAULTS.index("wrong_parity")) != 0
    (finding,) = library.findings
    assert finding["kind"] == "deadlock" and "wait for an mbarrier at " in finding["message"]


# wgmma

# (leading, stride, swizzle) of 64 x 16 and 16 x N matrices that fill no more than 8 KiB.
K_MAJOR = [(128, 256, NONE), (0, 1024, SWIZZLE_128), (0, 512, SWIZZLE_64), (0, 256, SWIZZLE_32)]
MN_MAJOR = [(2048, 128, NONE), (2048, 1024, SWIZZLE_128), (512, 2048, SWIZZLE_64), (512, 256, SWIZZLE_32)]


def image(matrix: np.ndarray, layout: tuple[int, int, int], k_major: bool) -> np.ndarray:
    """Shared memory of 8 KiB with matrix[row along M or N, k], as "Canonical layouts" of the PTX ISA has it."""
    leading, stride, mode = layout
    row, k = np.indices(matrix.shape)
    wide = CHUNKS[mode] * 16  # bytes of a row of an atom
    if k_major:
        chunk = k // 8 * (leading if mode == NONE else 16)
        address = row % 8 * wide + row // 8 * stride + chunk + k % 8 * 2
    elif mode == NONE:
        address = row % 8 * 2 + row // 8 * stride + k % 8 * 16 + k // 8 * leading
    else:
        elements = wide // 2
        address = row % elements * 2 + row // elements * leading + k % 8 * wide + k // 8 * stride
    places = swizzled(address, mode) // 2
    assert len(np.unique(places)) == matrix.size and places.max() < 4096
    whole = np.full(4096, np.nan, np.float16)
    whole[places] = matrix
    return whole


def fragment_a(a: np.ndarray) -> np.ndarray:
    """[128 threads, 4 registers] of 64 x 16."""
    parts = [a[16 * WARP + G + 8 * (i % 2), 2 * T + 8 * (i // 2) + j] for i in range(4) for j in range(2)]
    return np.ascontiguousarray(np.stack(parts, axis=1).astype(np.float16)).view(np.uint32)


def matrix_of(d: np.ndarray) -> np.ndarray:
    """64 x N of the accumulators [128, N / 2]."""
    whole = np.zeros((64, 2 * d.shape[1]), np.float32)
    for i in range(d.shape[1]):
        whole[16 * WARP + G + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * T + i % 2] = d[:, i]
    return whole


def multiply(
    library: Emulated,
    columns: int = 64,
    a_layout: tuple[int, int, int] = K_MAJOR[1],
    b_layout: tuple[int, int, int] = K_MAJOR[1],
    *,
    transposed: bool = False,
    in_registers: bool = False,
    fault: str = "none",
    order: str = "forward",
    seed: int = 1,
    claimed: int | None = None,
) -> tuple[int, np.ndarray, np.ndarray]:
    """Status, D, and 2 A·B of whole numbers. ``claimed``: the swizzle that B's descriptor names instead of its own."""
    draw = np.random.default_rng(5)
    a, b = draw.integers(-9, 10, (64, 16)), draw.integers(-9, 10, (columns, 16))
    given = fragment_a(a) if in_registers else image(a, a_layout, k_major=True)
    d = np.zeros((128, columns // 2), np.float32)
    b_fields = (*b_layout[:2], b_layout[2] if claimed is None else claimed)
    status = library.run(
        "multiply_launch",
        given,
        image(b, b_layout, not transposed),
        d,
        columns,
        int(transposed),
        int(in_registers),
        *a_layout,
        *b_fields,
        FAULTS.index(fault),
        order=order,
        seed=seed,
    )
    return status, matrix_of(d), 2.0 * a @ b.T


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("a_layout", K_MAJOR)
def test_k_major_matrices_in_every_swizzle(library: Emulated, a_layout: tuple[int, int, int], order: str) -> None:
    for b_layout in K_MAJOR:
        status, d, expected = multiply(library, 64, a_layout, b_layout, order=order)
        assert status == 0 and (d == expected).all() and library.findings == []


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("in_registers", [False, True])
@pytest.mark.parametrize("b_layout", MN_MAJOR)
def test_mn_major_matrices_in_every_swizzle(library: Emulated, b_layout: tuple[int, int, int], in_registers: bool, order: str) -> None:
    for columns in (64, 128):
        status, d, expected = multiply(library, columns, b_layout=b_layout, transposed=True, in_registers=in_registers, order=order)
        assert status == 0 and (d == expected).all() and library.findings == []


@pytest.mark.parametrize(("written", "claimed"), [(SWIZZLE_128, SWIZZLE_64), (SWIZZLE_128, NONE), (SWIZZLE_32, SWIZZLE_128)])
def test_another_swizzle_gives_other_numbers(library: Emulated, written: int, claimed: int) -> None:
    layout = next(layout for layout in K_MAJOR if layout[2] == written)
    status, d, expected = multiply(library, b_layout=layout, claimed=claimed)
    assert status == 0 and not np.array_equal(d, expected)


def test_an_untransposed_matrix_gives_other_numbers(library: Emulated) -> None:
    draw = np.random.default_rng(5)
    a, b = draw.integers(-9, 10, (64, 16)), draw.integers(-9, 10, (64, 16))
    d = np.zeros((128, 32), np.float32)
    assert (
        library.run("multiply_launch", image(a, K_MAJOR[1], True), image(b, MN_MAJOR[1], False), d, 64, 0, 0, *K_MAJOR[1], *MN_MAJOR[1], 0)
        == 0
    )
    assert not np.array_equal(matrix_of(d), 2.0 * a @ b.T)


def test_registers_change_hands(library: Emulated) -> None:
    assert library.run("registers_launch", 256, 0) == 0 and library.findings == []
