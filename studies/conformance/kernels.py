"""Items of wmma.cu, warps.cu, blocks.cu and host.cu: what threads do together, and what the host is told."""

from __future__ import annotations

import itertools

import numpy as np
from conformance import inputs as data
from conformance.catalogue import Item, Values, Within

LINE, TILE = 40, 32 * 40  # as in wmma.cu
FILL = 0xCD  # what an output holds before the launch
TENSOR = (
    "products are exact and sums are kept in at least float's precision, rounded or cut off at each of k + 1 additions "
    "(Fasi, Higham, Mikaitis, Pranesh: Numerical behavior of NVIDIA tensor cores, 2021)"
)
_ALL = 0xFFFFFFFF


def _matrices(whole: bool, c_type: type, seed: int) -> Values:
    """Tiles of A, B and C, as half words."""
    random = data.generator(seed)
    if whole:
        a, b, c = random.randint(-6, 7, TILE), random.randint(-6, 7, TILE), random.randint(-40, 41, TILE)
    else:
        a, b, c = (random.randint(-4096, 4097, TILE) / 1024 for _ in range(3))
    parts = [a.astype(np.float16).view(np.uint16), b.astype(np.float16).view(np.uint16), c.astype(c_type).view(np.uint16)]
    return np.concatenate([*parts, np.zeros(2 * TILE - parts[2].size, np.uint16)])


def _operand(memory: Values, rows: int, columns: int, by_row: bool) -> Values:
    lines = memory.astype(np.float64).reshape(32, LINE)
    return lines[:rows, :columns] if by_row else lines[:columns, :rows].T


def _products(given: Values, shape: tuple[int, int, int], c_type: type, layouts: int, absolute: bool) -> tuple[Values, Values]:
    """D of every layout as it lies in memory, float64, and where D lies. ``absolute``: sums of magnitudes."""
    m, n, k = shape
    a, b = given[:TILE].view(np.float16), given[TILE : 2 * TILE].view(np.float16)
    c = given[2 * TILE :].view(c_type)[:TILE]
    if absolute:
        a, b, c = np.abs(a), np.abs(b), np.abs(c)
    out = np.zeros((layouts, 32, LINE))
    written = np.zeros((layouts, 32, LINE), bool)
    for i, (a_row, b_row, d_row) in enumerate(itertools.islice(itertools.product((True, False), repeat=3), layouts)):
        d = _operand(a, m, k, a_row) @ _operand(b, k, n, b_row) + _operand(c, m, n, d_row)
        lines = d if d_row else d.T
        out[i, : lines.shape[0], : lines.shape[1]] = lines
        written[i, : lines.shape[0], : lines.shape[1]] = True
    return out.reshape(-1), written.reshape(-1)


def _wmma(launcher: str, shape: tuple[int, int, int], c_type: type, d_type: type, layouts: int) -> list[Item]:
    dtype, length = np.dtype(d_type).str[1:], layouts * TILE
    untouched = np.frombuffer(bytes([FILL]) * np.dtype(d_type).itemsize, d_type)[0]

    def whole() -> Values:
        return _matrices(True, c_type, 20)

    def random() -> Values:
        return _matrices(False, c_type, 21)

    def expected(given: Values) -> Values:
        values, written = _products(given, shape, c_type, layouts, False)
        return np.where(written, values.astype(d_type), untouched)

    def tolerance(given: Values, exact: Values) -> Values:
        sums, written = _products(given, shape, c_type, layouts, True)
        bound = (shape[2] + 2) * 2.0**-23 * sums
        if np.float16 in (c_type, d_type):  # partial sums may be rounded to half, and the result is
            bound = bound + 4 * 2.0**-11 * sums
        return np.where(written, bound, 0)[:, None]

    def close(given: Values) -> Values:
        values, written = _products(given, shape, c_type, layouts, False)
        return np.where(written, values, np.float64(untouched))[:, None]

    return [
        Item(f"{launcher}_whole", "wmma", whole, dtype, length, launcher=launcher, expected=expected),
        Item(f"{launcher}_random", "wmma", random, dtype, length, launcher=launcher, within=Within(close, tolerance, TENSOR)),
    ]


def _chained(given: Values) -> Values:
    a, b = (given[i * TILE : (i + 1) * TILE].view(np.float16).astype(np.float64).reshape(32, LINE) for i in (0, 1))
    d = np.full((16, 16), 3.0)
    for step in (0, 16):
        d = 2 * (a[:16, step : step + 16] @ b[:16, step : step + 16].T + d) + 1
    out = np.frombuffer(bytes([FILL]) * (TILE * 4), np.float32).reshape(32, LINE).copy()
    out[:16, :16] = d
    return out.reshape(-1)


_SHAPES = {"16x16x16": (16, 16, 16), "32x8x16": (32, 8, 16), "8x32x16": (8, 32, 16)}
WMMA = [
    item
    for name, shape in _SHAPES.items()
    for kind, dtype in (("float", np.float32), ("half", np.float16))
    for item in _wmma(f"wmma_{kind}_{name}", shape, dtype, dtype, 8)
] + [
    *_wmma("wmma_half_to_float", (16, 16, 16), np.float16, np.float32, 2),
    *_wmma("wmma_float_to_half", (16, 16, 16), np.float32, np.float16, 2),
    Item("wmma_chained", "wmma", lambda: _matrices(True, np.float32, 22), "f4", TILE, expected=_chained),
]


def _shuffled(given: Values) -> Values:
    """What each lane gets: [width][distance][kind][lane]."""
    rows = []
    for log in range(6):
        width = 1 << log
        for by in (0, 1, 2, 3, 8, 15, 16, 31):
            for kind in range(5):
                for lane in range(32):
                    first, last = lane & ~(width - 1), (lane & ~(width - 1)) + width
                    by_lane = (lane * 7 - by) % 32
                    source = (first + by % width, lane - by, lane + by, lane ^ by, first + by_lane % width)[kind]
                    inside = (True, source >= first, source < last, source < last, True)[kind]
                    rows.append(source if inside else lane)
    return given[rows]


def _masked(given: Values) -> Values:
    out = np.full((3, 32), -7, np.int32)
    for lane in range(32):
        out[0, lane] = given[(lane + 3 if lane + 3 < 16 else lane) if lane < 16 else (lane - 5 if lane - 5 >= 16 else lane)]
        out[1, lane] = given[lane ^ 6 if lane % 2 == 0 else 2 * (lane % 16) + 1]
    out[2, [0, 31]] = given[[31, 0]]
    return out.reshape(-1)


def _patterns() -> Values:
    random = data.generator(23)
    rows = [
        np.zeros(32),
        np.ones(32),
        np.arange(32) == 5,
        random.randint(0, 2, 32),
        random.randint(-3, 4, 32),
        random.randint(-(2**31), 2**31, 32),
        np.full(32, -1),
        np.arange(32) // 4,
    ]
    return np.concatenate(rows).astype(np.int32)


def _votes(given: Values) -> Values:
    rows = []
    for values in given.reshape(-1, 32).tolist():
        for lanes in (range(32), [lane for lane in range(32) if lane % 3]):
            row = np.zeros((15, 32), np.uint32)
            mask = sum(1 << lane for lane in lanes)
            chosen = [values[lane] for lane in lanes]
            unsigned = [value & _ALL for value in chosen]
            same = len(set(chosen)) == 1
            for lane in lanes:
                row[:, lane] = [
                    sum(1 << other for other in lanes if values[other]),
                    any(chosen),
                    all(chosen),
                    sum(1 << other for other in lanes if values[other] == values[lane]),
                    mask if same else 0,
                    same,
                    sum(unsigned) & _ALL,
                    min(unsigned),
                    max(unsigned),
                    np.bitwise_and.reduce(unsigned),
                    np.bitwise_or.reduce(unsigned),
                    np.bitwise_xor.reduce(unsigned),
                    sum(chosen) & _ALL,
                    min(chosen) & _ALL,
                    max(chosen) & _ALL,
                ]
            rows.append(row)
    return np.concatenate(rows).reshape(-1)


def _exchanged(given: Values) -> Values:
    lanes = np.arange(64)
    steps = [given[lanes // 32 * 32 + (lanes % 32 + (1 << step)) % 32] + step + lanes // 32 for step in range(5)]
    return np.concatenate([*steps, np.full(64, -1)]).astype(np.int32)


def _numbers(dtype: str, count: int, seed: int) -> Values:
    words = data.generator(seed).randint(0, 2**32, 2 * count, dtype=np.uint32)
    return words[:count].view(dtype) if np.dtype(dtype).itemsize == 4 else words.view(dtype)


_FLOATS = np.linspace(-4, 4, 32)
WARPS = [
    Item("shuffle_int", "warps", lambda: _numbers("i4", 32, 24), "i4", 6 * 8 * 5 * 32, expected=_shuffled),
    Item("shuffle_float", "warps", lambda: _FLOATS.astype(np.float32), "f4", 6 * 8 * 5 * 32, expected=_shuffled),
    Item("shuffle_double", "warps", lambda: _FLOATS, "f8", 6 * 8 * 5 * 32, expected=_shuffled),
    Item("shuffle_long", "warps", lambda: _numbers("i8", 32, 25), "i8", 6 * 8 * 5 * 32, expected=_shuffled),
    Item("shuffle_masked", "warps", lambda: _numbers("i4", 32, 26), "i4", 96, expected=_masked),
    Item("vote_and_reduce", "warps", _patterns, "u4", 8 * 30 * 32, expected=_votes),
    Item(
        "match_long",
        "warps",
        lambda: (np.arange(32, dtype=np.int64) % 3) << 33,
        "u4",
        96,
        expected=lambda x: np.concatenate(
            [[sum(1 << i for i in range(32) if x[i] == value) for value in x], np.full(32, _ALL), np.ones(32)]
        ).astype(np.uint32),
    ),
    Item("warp_exchange", "warps", lambda: _numbers("i4", 64, 27) // 4, "i4", 6 * 64, expected=_exchanged),
]


def _barriers(given: Values) -> Values:
    rows = [[(row != 0).sum(), (row != 0).all(), (row != 0).any()] for row in given.reshape(-1, 100)]
    return np.repeat(np.array(rows).reshape(-1), 100).astype(np.int32)


def _predicates() -> Values:
    random = data.generator(28)
    return np.concatenate(
        [np.zeros(100), np.ones(100), np.arange(100) == 99, random.randint(0, 2, 100), random.randint(-2, 3, 100)]
    ).astype(np.int32)


def _both_memories(given: Values) -> Values:
    n = len(given)
    offset = 5 if n == 128 else 7
    moved = np.roll(given[::-1], offset)
    return np.concatenate([moved + np.arange(n) % 4 + block for block in range(8 if n == 128 else 1)]).astype(np.int32)


def _atomics(given: Values) -> Values:
    old, value = given.reshape(-1, 2).T
    kind = given.dtype.type
    with np.errstate(over="ignore"):
        new = [old + value, value]
        if given.dtype.itemsize == 4 and given.dtype.kind in "iu":
            new += [
                np.minimum(old, value),
                np.maximum(old, value),
                old & value,
                old | value,
                old ^ value,
                value,
                np.where(old == value, old, old),
                old - value,
            ]
        if given.dtype.str[1:] == "u4":
            new += [np.where(old >= value, kind(0), old + kind(1)), np.where((old == 0) | (old > value), value, old - kind(1))]
    return np.stack([np.stack([old, result], -1) for result in new], 1).reshape(-1).astype(given.dtype)


def _close_pairs(dtype: str, seed: int) -> Values:
    """Random pairs; some equal, some small, so that each branch is taken."""
    given = _numbers(dtype, 200, seed)
    given[:40] = given[:40] % 3
    given[40:60:2] = given[41:60:2]
    return given


def _contended(given: Values) -> Values:
    every = np.tile(given.astype(np.int64), 4)
    floats = np.float32(np.fmod(every, 1000).sum())
    total = int(every.sum())
    return np.array(
        [
            total,
            max(0, every.max()),
            min(0, every.min()),
            int(floats.view(np.int32)),
            1024 % 10,
            int(np.fmod(every, 100).sum()),
            *[total // 4] * 4,
        ]
    ).astype(np.int32)


def _copied(given: Values, size: int) -> Values:
    rows = []
    for group in range(3):
        part = given[group * 32 * size : (group + 1) * 32 * size].copy().reshape(32, size)
        for thread in range(32):
            part[thread, size - (thread + group) % (size + 1) :] = 0
        rows.append(part.reshape(-1).view(np.int32))
    return np.concatenate([*rows, given[: 32 * size].view(np.int32)[::-1]])


def _variables(given: Values) -> Values:
    table = 100 * np.arange(32) + 1
    return np.concatenate([2 * given + 1 + table, given, -given, np.ones(32), [table[3]]]).astype(np.int32)


BLOCKS = [
    Item("barrier_votes", "blocks", _predicates, "i4", 1500, expected=_barriers),
    Item("shared_memory_both", "blocks", lambda: _numbers("i4", 128, 29) // 2, "i4", 1024, expected=_both_memories),
    Item("shared_memory_large", "blocks", lambda: _numbers("i4", 64, 30) // 2, "i4", 64, expected=_both_memories),
    Item("atomic_int", "blocks", lambda: _close_pairs("i4", 31), "i4", 100 * 20, count=100, expected=_atomics),
    Item("atomic_unsigned", "blocks", lambda: _close_pairs("u4", 32), "u4", 100 * 24, count=100, expected=_atomics),
    Item("atomic_long", "blocks", lambda: _close_pairs("u8", 33), "u8", 100 * 4, count=100, expected=_atomics),
    Item("atomic_float", "blocks", lambda: (np.arange(200) * 0.37 - 30).astype(np.float32), "f4", 100 * 4, count=100, expected=_atomics),
    Item(
        "atomic_contended", "blocks", lambda: data.generator(34).randint(-5000, 5000, 256).astype(np.int32), "i4", 10, expected=_contended
    ),
    *(
        Item(
            f"copies_{size}",
            "blocks",
            lambda size=size: data.generator(35).randint(0, 256, 96 * size).astype(np.uint8),
            "i4",
            32 * size,
            expected=lambda given, size=size: _copied(given, size),
        )
        for size in (4, 8, 16)
    ),
    Item("program_variables", "blocks", lambda: np.arange(32, dtype=np.int32) * 3 - 40, "i4", 129, expected=_variables),
]

_INVALID = 1
_LIMITS = [0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 0]  # refused?
_CALLS = [0, 0, 0, 101, 101, 101, 0, 1024, 49152, 32, 65536, 0, 1024, 64, 65535, 0, 0, 0, 0x5A5A5A5A, 0]


def _nothing() -> Values:
    return np.zeros(1, np.int32)


HOST = [
    Item("launch_limits", "host", _nothing, "i4", len(_LIMITS), expected=lambda _: np.array(_LIMITS, np.int32)),
    Item("launch_bounds", "host", _nothing, "i4", 2),
    Item("launch_static_and_dynamic", "host", _nothing, "u1", 1, refused=_INVALID),
    Item("opt_in", "host", _nothing, "i4", 13),
    Item("error_texts", "host", _nothing, "u1", 12 * 128),
    Item("host_calls", "host", _nothing, "i4", 20, expected=lambda _: np.array(_CALLS, np.int32)),
]
