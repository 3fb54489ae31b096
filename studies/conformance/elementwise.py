"""Items of arithmetic.cu, and what items of functions share.

Bounds are those of the CUDA C++ Programming Guide, appendix "Mathematical Functions", which states
them as found by wide tests. One step (ulp) is the distance of neighbouring numbers at the exact result.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from conformance import inputs as data
from conformance.catalogue import Item, Values, Within

GUIDE = "CUDA C++ Programming Guide, Mathematical Functions"
HEADER = "cuda_fp16.h: rounded to nearest even; one step is allowed for its approximate instructions"
_TINY = 2.0**-126  # approximate instructions may flush what is smaller


def steps(count: float, dtype: type = np.float32) -> Callable[[Values, Values], Values]:
    """``count`` steps of the format at the exact result."""

    def tolerance(_: Values, exact: Values) -> Values:
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.spacing(np.abs(exact).astype(dtype)).astype(np.float64)
        return count * np.where(np.isfinite(size), size, np.inf)

    return tolerance


def columns(*functions: Callable[[Values], Values]) -> Callable[[Values], Values]:
    """Functions of the input, side by side."""

    def table(given: Values) -> Values:
        with np.errstate(all="ignore"):
            return np.stack([np.asarray(function(given)) for function in functions], axis=-1)

    return table


def wide(function: Callable[..., Values]) -> Callable[[Values], Values]:
    """``function`` in float64, of one number or of pairs."""
    return lambda x: function(*(x.astype(np.float64).T if x.ndim == 2 else (x.astype(np.float64),)))


def bounded(
    name: str,
    make: Callable[[], Values],
    names: str,
    exact: tuple[Callable[..., Values], ...],
    tolerance: Callable[[Values, Values], Values],
    source: str = GUIDE,
    dtype: str = "f4",
) -> Item:
    """An item of float functions with a bound."""
    within = Within(columns(*(wide(function) for function in exact)), tolerance, source)
    return Item(name, "arithmetic", make, dtype, _count(make) * len(exact), tuple(names.split()), within=within)


def exact(
    name: str,
    source: str,
    make: Callable[[], Values],
    dtype: str,
    names: str,
    expected: Callable[[Values], Values] | None = None,
    any_nan: bool = False,
    as_numbers: Callable[[Values], Values] | None = None,
) -> Item:
    """An item whose bits are defined. ``expected`` gives [elements, columns]."""
    return Item(
        name,
        source,
        make,
        dtype,
        _count(make) * len(names.split()),
        tuple(names.split()),
        expected=expected,
        any_nan=any_nan,
        as_numbers=as_numbers,
    )


def _count(make: Callable[[], Values]) -> int:
    with np.errstate(all="ignore"):
        return len(make())


def near_one_or(absolute: float, ulps: float) -> Callable[[Values, Values], Values]:
    """The bound of the fast logarithms: an absolute one for inputs in [0.5, 2], else steps."""

    def tolerance(x: Values, exact_: Values) -> Values:
        return np.where(((x >= 0.5) & (x <= 2.0))[:, None], absolute, steps(ulps)(x, exact_))

    return tolerance


def pairs(first: Values, second: Values) -> Values:
    """Two arrays as an array of pairs."""
    return np.ascontiguousarray(np.stack([first, second], axis=1))


def _any_pairs() -> Values:
    return pairs(data.any_floats(4000, 4), data.any_floats(4000, 5))


def _rounded(given: Values) -> Values:
    x, y = given[:, 0].astype(np.float64), given[:, 1].astype(np.float64)
    a, b = given[:, 0], given[:, 1]
    with np.errstate(all="ignore"):
        fused = (x * y + x).astype(np.float32)  # see _pairs_for_rounding: exact in double but for the last addition
        return np.stack(
            [
                a + b,
                a * b,
                fused,
                np.float32(1) / a,
                np.sqrt(np.abs(a)),
                (1 / np.sqrt(np.abs(y))).astype(np.float32),
                a / b,
                np.sqrt(np.abs(b)),
                a - b,
            ],
            axis=1,
        ).astype(np.float32)


def _pairs_for_rounding() -> Values:
    """12-bit numbers beside full ones: x * y + x then needs no more bits than a double has."""
    full = data.any_floats(4000, 6).view(np.uint32)
    short = data.generator(7).randint(0, 4096, full.size).astype(np.float32) / np.float32(64) - np.float32(31)
    return pairs(full.view(np.float32), short)


def _chosen(given: Values) -> Values:
    x, y = given[:, 0], given[:, 1]
    with np.errstate(invalid="ignore"):
        low, high = np.fmin(x, y), np.fmax(x, y)  # the number wins over a NaN
        saturated = np.where(np.isnan(x), 0, np.clip(x, 0, 1)).astype(np.float32)
    return np.stack([low, high, low, high, np.where(saturated == 0, np.float32(0), saturated)], axis=1)


def _without_zeros() -> Values:
    given = _any_pairs()
    signalling = np.isnan(given) & (given.view(np.uint32) & np.uint32(1 << 22) == 0)
    given[((given == 0) | signalling).any(axis=1)] = 1  # which of two zeros is chosen is not defined, nor what a signalling NaN does
    return given


def _to_integers(x: Values) -> Values:
    wide_, nan = x.astype(np.float64), np.isnan(x)

    def clamped(values: Values, low: float, high: float) -> Values:
        return np.where(nan, 0, np.clip(values, low, high)).astype(np.int64)

    signed = [clamped(f(wide_), -(2.0**31), 2.0**31 - 1) for f in (np.rint, np.trunc, np.floor, np.ceil)]
    unsigned = [clamped(f(wide_), 0, 2.0**32 - 1) for f in (np.rint, np.trunc)]
    return np.stack([*signed, *unsigned], axis=1).astype(np.uint32).view(np.int32)


def _integers() -> Values:
    return np.concatenate(
        [data.generator(8).randint(0, 2**32, 3000, dtype=np.uint32), np.array([0, 1, 2**31, 2**32 - 1, 2**24 + 1, 2**31 - 1], np.uint32)]
    )


def _words() -> Values:
    random = data.generator(9).randint(0, 2**32, (2000, 2), dtype=np.uint32)
    random[:40] >>= np.arange(40, dtype=np.uint32)[:, None] % 32
    random[40:50] = 0
    return random


def _bits(given: Values) -> Values:
    rows = []
    for x, y in given.tolist():
        sx, sy = (v - 2**32 if v >> 31 else v for v in (x, y))
        both = y << 32 | x
        selector = x ^ y
        signed_bytes = [(v + 128) % 256 - 128 for v in (*x.to_bytes(4, "little"), *y.to_bytes(4, "little"))]
        dot = (x ^ y) + sum(a * b for a, b in zip(signed_bytes[:4], signed_bytes[4:], strict=True))
        rows.append(
            [
                bin(x).count("1"),
                32 - x.bit_length(),
                (x & -x).bit_length(),
                int(f"{x:032b}"[::-1], 2),
                sx * sy >> 32,
                x * y >> 32,
                dot,
                both << (y >> 7 & 31) >> 32,
                both >> (x >> 9 & 31),
                sum(((both >> 8 * (selector >> 4 * i & 7)) & 0xFF) << 8 * i for i in range(4)),
                min(sx, sy),
                max(sx, sy),
                min(x, y),
                max(x, y),
                min(x, y),
                max(x, y),
            ]
        )
    return (np.array(rows, dtype=object) & 0xFFFFFFFF).astype(np.uint32)


_LAYOUT = [(1, 1), (2, 2), (3, 1), (4, 4)]


def _layout(given: Values) -> Values:
    rows: list[int] = []
    for size in (1, 1, 2, 2, 4, 4, 4):  # char, uchar, short, ushort, int, uint, float
        rows += [n for count, alignment in _LAYOUT for n in (count * size, alignment * size)]
    rows += [8, 8, 16, 16, 24, 8, 32, 16, 16, 16, 12, 4, 12, 4]
    return np.concatenate([np.tile(np.array(rows, np.uint32), (len(given), 1)), (given + 1)[:, None].astype(np.uint32)], axis=1)


ARITHMETIC = [
    bounded("exponential", lambda: data.between(-80, 80, 1000), "expf exp2f", (np.exp, np.exp2), steps(2)),
    bounded("logarithm", lambda: data.magnitudes(-120, 120, 1000), "logf log2f", (np.log, np.log2), steps(1)),
    bounded("trigonometric", lambda: data.between(-100, 100, 1000), "sinf cosf tanf", (np.sin, np.cos, np.tan), steps(4)),
    bounded("hyperbolic_tangent", lambda: data.between(-10, 10, 1000), "tanhf", (np.tanh,), steps(2)),
    bounded("power", lambda: pairs(data.magnitudes(-8, 8, 1000), data.between(-8, 8, 998, 3)), "powf", (np.power,), steps(4)),
    bounded("reciprocal_root", lambda: data.magnitudes(-120, 120, 1000), "rsqrtf", (lambda x: 1 / np.sqrt(x),), steps(2)),
    Item(
        "reciprocal_root_double",
        "arithmetic",
        lambda: data.magnitudes(-120, 120, 1000).astype(np.float64),
        "f8",
        1000,
        ("rsqrt",),
        within=Within(
            lambda x: (1 / np.sqrt(x.astype(np.longdouble))).astype(np.float64)[:, None],
            steps(2, np.float64),
            GUIDE + ": 1 step, and half a one for the exact value's own rounding",
        ),
    ),
    bounded(
        "fast_exponential",
        lambda: data.between(-80, 80, 1500),
        "__expf",
        (np.exp,),
        lambda x, exact_: steps(1)(x, exact_) * (2 + np.floor(np.abs(1.173 * x.astype(np.float64))))[:, None],
    ),
    bounded(
        "fast_exponential_10",
        lambda: data.between(-35, 35, 1500),
        "__exp10f",
        (lambda x: np.power(10.0, x),),
        lambda x, exact_: steps(1)(x, exact_) * (2 + np.floor(np.abs(2.97 * x.astype(np.float64))))[:, None],
    ),
    bounded(
        "fast_logarithm",
        lambda: np.concatenate([data.magnitudes(-120, 120, 1000), data.between(0.5, 2, 1000)]),
        "__logf __log2f __log10f",
        (np.log, np.log2, np.log10),
        lambda x, exact_: np.concatenate(
            [
                near_one_or(2**-21.41, 3)(x, exact_[:, :1]),
                near_one_or(2.0**-22, 2)(x, exact_[:, 1:2]),
                near_one_or(2.0**-24, 3)(x, exact_[:, 2:]),
            ],
            axis=1,
        ),
    ),
    bounded(
        "fast_trigonometric",
        lambda: data.between(-np.pi + 1e-6, np.pi - 1e-6, 1500),
        "__sinf __cosf",
        (np.sin, np.cos),
        lambda x, exact_: np.array([2**-21.41, 2**-21.19]),
    ),
    bounded(
        "fast_tangent",
        lambda: data.between(-1, 1, 1000),
        "__tanf",
        (np.tan,),
        lambda x, exact_: (2**-21.41 + np.abs(exact_) * 2**-21.19) / np.cos(x.astype(np.float64))[:, None] + steps(4)(x, exact_),
        GUIDE + ": computed as __sinf(x) * (1 / __cosf(x))",
    ),
    bounded(
        "fast_power",
        lambda: pairs(data.magnitudes(-8, 8, 1000), data.between(-8, 8, 998, 3)),
        "__powf",
        (np.power,),
        lambda given, exact_: (
            np.abs(exact_)
            * (
                np.abs(given[:, 1:].astype(np.float64)) * 2.0**-22 * 2
                + np.abs(given[:, 1:] * np.log2(given[:, :1].astype(np.float64))) * 2.0**-22
                + 2.0**-21
            )
        ),
        GUIDE + ": computed as exp2f(y * __log2f(x))",
    ),
    bounded(
        "fast_division",
        lambda: pairs(data.magnitudes(-60, 60, 1000), data.magnitudes(-60, 60, 1000, 9)),
        "__fdividef",
        (np.divide,),
        steps(2),
    ),
    exact(
        "rounded",
        "arithmetic",
        _pairs_for_rounding,
        "f4",
        "__fadd_rn __fmul_rn __fmaf_rn __frcp_rn __fsqrt_rn __frsqrt_rn x/y sqrtf __fsub_rn",
        _rounded,
        any_nan=True,
    ),
    exact("chosen", "arithmetic", _without_zeros, "f4", "min max fminf fmaxf __saturatef", _chosen, any_nan=True),
    exact(
        "whole",
        "arithmetic",
        lambda: np.concatenate([data.any_floats(2000), data.between(-9, 9, 2000)]),
        "f4",
        "floorf ceilf truncf rintf fabsf",
        columns(np.floor, np.ceil, np.trunc, np.rint, np.abs),
        any_nan=True,
    ),
    exact(
        "float_to_integer",
        "arithmetic",
        lambda: np.concatenate([data.any_floats(3000), data.between(-2.2e9, 4.4e9, 2000), np.arange(-9, 9, 0.25, np.float32)]),
        "i4",
        "__float2int_rn __float2int_rz __float2int_rd __float2int_ru __float2uint_rn __float2uint_rz",
        _to_integers,
    ),
    exact(
        "integer_to_float",
        "arithmetic",
        _integers,
        "f4",
        "__int2float_rn __uint2float_rn",
        columns(lambda x: x.view(np.int32).astype(np.float32), lambda x: x.astype(np.float32)),
    ),
    exact(
        "double_to_float",
        "arithmetic",
        lambda: np.concatenate(
            [
                data.generator(11).randint(0, 2**63, 3000, dtype=np.int64).view(np.float64),
                data.any_floats(3000).astype(np.float64) * 1.0000000298,
            ]
        ),
        "f4",
        "__double2float_rn",
        columns(lambda x: x.astype(np.float32)),
        any_nan=True,
    ),
    exact(
        "reinterpreted",
        "arithmetic",
        _integers,
        "u4",
        "__int_as_float __uint_as_float minus",
        columns(lambda x: x, lambda x: x, lambda x: x ^ np.uint32(1 << 31)),
        any_nan=True,
        as_numbers=lambda bits: bits.view(np.float32).astype(np.float64),
    ),  # a device gives one NaN for every negated one
    exact(
        "bits",
        "arithmetic",
        _words,
        "u4",
        "__popc __clz __ffs __brev __mulhi __umulhi __dp4a __funnelshift_l __funnelshift_r __byte_perm min_int max_int min_unsigned "
        "max_unsigned min_mixed max_mixed",
        _bits,
    ),
    exact(
        "vector_layout",
        "arithmetic",
        lambda: np.arange(3, dtype=np.uint32),
        "u4",
        " ".join(f"layout{i}" for i in range(70)) + " last",
        _layout,
    ),
    exact(
        "vectors",
        "arithmetic",
        lambda: _words().reshape(-1, 4)[:200].copy(),
        "u4",
        "uint4 int2 uchar4 short2 float4 float2",
        columns(
            lambda x: x[:, 3],
            lambda x: x[:, 1],
            lambda x: x[:, 3] & 0xFF,
            lambda x: x[:, 0].astype(np.int16).astype(np.int32).view(np.uint32),
            lambda x: np.full(len(x), 0x40400000, np.uint32),
            lambda x: np.full(len(x), 0x40C00000, np.uint32),
        ),
    ),
]
