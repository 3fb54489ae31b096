"""Items of half.cu and fp8.cu: narrow formats, over all their patterns where there are few enough."""

from __future__ import annotations

import numpy as np
from conformance import inputs as data
from conformance.catalogue import Item, Values, Within
from conformance.elementwise import HEADER, columns, exact, steps

_HALVES = data.all_16_bits().view(np.float16).astype(np.float32)


def _floats_for_half() -> Values:
    near = data.around(_HALVES[:31744:3])
    return np.concatenate(
        [near, -near, data.any_floats(4000), np.array([65504, 65519.99, 65520, 65536, 1e30, 2**-24, 2**-25, 2**-26], np.float32)]
    )


def _half_pairs() -> Values:
    random = data.generator(12)
    wild = random.randint(0, 65536, (12000, 2)).astype(np.uint16)
    tame = random.randint(0x3000, 0x4800, (12000, 2)).astype(np.uint16) | (random.randint(0, 2, (12000, 2)) << 15).astype(np.uint16)
    corners = np.array([0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x3C00, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01], np.uint16)
    return np.concatenate([wild, tame, np.stack(np.meshgrid(corners, corners), -1).reshape(-1, 2)])


def _few_pairs() -> Values:
    """For what is stored whole, since its bits are not defined."""
    return np.concatenate([_half_pairs()[::12], _half_pairs()[-144:]])


def _half(values: Values) -> Values:
    """Float64 to bits: the result of one operation, exact before it is rounded."""
    return data.to_half(values)


def _halves(given: Values) -> tuple[Values, Values]:
    return data.from_half(given[:, 0]), data.from_half(given[:, 1])


def _chosen(given: Values, largest: bool) -> Values:
    """The number wins over a NaN, and +0 is larger than -0."""
    x, y = _halves(given)
    first = (x > y) | ((x == y) & ~np.signbit(x)) if largest else (x < y) | ((x == y) & np.signbit(x))
    return np.where(
        np.isnan(x) & np.isnan(y), data.NAN_HALF, np.where(np.isnan(y) | (first & ~np.isnan(x)), given[:, 0], given[:, 1])
    ).astype(np.uint16)


def _half_binary(given: Values) -> Values:
    x, y = _halves(given)
    with np.errstate(all="ignore"):
        total, less, product = _half(x + y), _half(x - y), _half(x * y)
        low_less = _half(y - x)
    largest, smallest = _chosen(given, True), _chosen(given, False)
    return np.stack([total, less, product, total, less, product, largest, smallest, total, product, largest, low_less], axis=1)


def _half_fused(given: Values) -> Values:
    x, y, z, w = (data.from_half(given[:, i]) for i in range(4))
    with np.errstate(all="ignore"):
        return np.stack([_half(x * y + z), _half(x * y + z), _half(w * z + y)], axis=1)


def _compared(given: Values) -> Values:
    x, y = _halves(given)
    ordered = ~(np.isnan(x) | np.isnan(y))
    with np.errstate(invalid="ignore"):
        six = [x == y, x != y, x < y, x <= y, x > y, x >= y]
    return np.stack([six[0], six[1] & ordered, *six[2:], *six, np.isnan(x)], axis=1).astype(np.uint8)


def _whole(bits: Values) -> Values:
    x = data.from_half(bits)
    return np.stack([_half(f(x)) for f in (np.floor, np.ceil, np.rint)], axis=1)


_FUNCTIONS = (np.exp, np.exp, np.exp2, np.log, np.log2, np.sqrt, lambda x: 1 / np.sqrt(x), lambda x: 1 / x)


def _function_values(bits: Values) -> Values:
    x = data.from_half(bits)
    with np.errstate(all="ignore"):
        return np.stack([data.from_half(_half(f(x))) for f in _FUNCTIONS], axis=1)


def _one_step(_: Values, exact_: Values) -> Values:
    """One step of half; what rounds to infinity may be the largest number, and the other way round."""
    return steps(1, np.float16)(_, np.clip(exact_, -65504, 65504))


def _in_half(values: Values) -> Values:
    return data.from_half(values)


def _parts(given: Values) -> Values:
    x, y = given[:, 0], given[:, 1]
    quiet = np.where(np.isnan(data.from_half(x)), data.NAN_HALF, x).astype(np.uint16)  # through float
    return np.stack([x, x, y, x, x, y, quiet, np.full_like(x, 0x4100)], axis=1)


def _bfloat_binary(given: Values) -> Values:
    x, y = data.from_bfloat(given[:, 0]), data.from_bfloat(given[:, 1])
    with np.errstate(all="ignore"):
        return np.stack([data.to_bfloat((f(x, y)).astype(np.float32)) for f in (np.add, np.subtract, np.multiply)], axis=1)


HALF = [
    exact(
        "half_to_float",
        "half",
        data.all_16_bits,
        "f4",
        "__half2float __half22float2",
        columns(lambda x: x.view(np.float16).astype(np.float32), lambda x: (x ^ np.uint16(1)).view(np.float16).astype(np.float32)),
        any_nan=True,
    ),
    exact(
        "float_to_half",
        "half",
        _floats_for_half,
        "u2",
        "__float2half_rn __float2half_rz __float2half_rd __float2half_ru __half() __floats2half2_rn",
        columns(data.to_half, *(lambda x, d=d: data.to_half_directed(x, d) for d in (0, -1, 1)), data.to_half, data.to_half),
    ),
    exact(
        "double_to_half",
        "half",
        lambda: np.concatenate([_floats_for_half().astype(np.float64), data.around(_HALVES[:31744:7]).astype(np.float64) * (1 + 2.0**-45)]),
        "u2",
        "__double2half",
        columns(data.to_half),
        any_nan=True,
        as_numbers=_in_half,
    ),
    exact(
        "integer_to_half",
        "half",
        lambda: np.concatenate([np.arange(-70000, 70000, 7), data.generator(13).randint(-(2**31), 2**31, 500)]).astype(np.int32),
        "u2",
        "__int2half_rn __uint2half_rn",
        columns(lambda x: data.to_half(x.astype(np.float64)), lambda x: data.to_half(x.view(np.uint32).astype(np.float64))),
    ),
    exact(
        "half_to_integer",
        "half",
        data.all_16_bits,
        "i4",
        "__half2int_rn __half2int_rz",
        columns(
            *(
                lambda x, f=f: np.clip(
                    np.nan_to_num(f(data.from_half(x)), nan=0, posinf=2**31 - 1, neginf=-(2**31)), -(2**31), 2**31 - 1
                ).astype(np.int32)
                for f in (np.rint, np.trunc)
            )
        ),
    ),
    exact(
        "half_binary", "half", _half_pairs, "u2", "__hadd __hsub __hmul + - * __hmax __hmin __hadd2 __hmul2 __hmax2 __hsub2", _half_binary
    ),
    Item(
        "half_division",
        "half",
        _few_pairs,
        "u2",
        2 * len(_few_pairs()),
        ("__hdiv", "/"),
        as_numbers=_in_half,
        within=Within(lambda given: np.repeat(data.from_half(_half(np.divide(*_halves(given))))[:, None], 2, axis=1), _one_step, HEADER),
    ),
    exact(
        "half_fused",
        "half",
        lambda: np.concatenate([_half_pairs(), _half_pairs()[::-1]], axis=1),
        "u2",
        "__hfma __hfma2.low __hfma2.high",
        _half_fused,
    ),
    exact("half_compared", "half", _half_pairs, "u1", "__heq __hne __hlt __hle __hgt __hge == != < <= > >= __hisnan", _compared),
    exact(
        "half_sign",
        "half",
        data.all_16_bits,
        "u2",
        "__hneg __habs -",
        columns(lambda x: x ^ np.uint16(0x8000), lambda x: x & np.uint16(0x7FFF), lambda x: x ^ np.uint16(0x8000)),
        any_nan=True,
        as_numbers=_in_half,
    ),
    exact("half_whole", "half", data.all_16_bits, "u2", "hfloor hceil hrint", _whole),
    Item(
        "half_functions",
        "half",
        data.all_16_bits,
        "u2",
        8 * 65536,
        tuple(["hexp", "h2exp", "hexp2", "hlog", "hlog2", "hsqrt", "hrsqrt", "hrcp"]),
        within=Within(_function_values, _one_step, HEADER),
        as_numbers=_in_half,
    ),
    exact(
        "half2_parts",
        "half",
        _half_pairs,
        "u2",
        "__lows2half2 __highs2half2 __lowhigh2highlow __half2half2 __low2half2 __high2half2 __low2float __float2half2_rn",
        _parts,
    ),
    exact(
        "bfloat_to_float",
        "half",
        data.all_16_bits,
        "f4",
        "__bfloat162float",
        columns(lambda x: (x.astype(np.uint32) << 16).view(np.float32)),
        any_nan=True,
    ),
    exact(
        "float_to_bfloat",
        "half",
        lambda: np.concatenate([data.any_floats(6000), data.around((np.arange(0x3F00, 0x4100, dtype=np.uint32) << 16).view(np.float32))]),
        "u2",
        "__float2bfloat16 __floats2bfloat162_rn",
        columns(data.to_bfloat, data.to_bfloat),
    ),
    exact(
        "bfloat_binary",
        "half",
        lambda: np.concatenate([_half_pairs(), _half_pairs() % np.uint16(256) + np.uint16(0x3F00)]),
        "u2",
        "+ - *",
        _bfloat_binary,
    ),
    Item(
        "bfloat_division",
        "half",
        lambda: _few_pairs() % np.uint16(2048) + np.uint16(0x3C00),
        "u2",
        len(_few_pairs()),
        ("/",),
        as_numbers=data.from_bfloat,
        within=Within(
            lambda given: np.divide(data.from_bfloat(given[:, 0]), data.from_bfloat(given[:, 1]))[:, None],
            lambda _, exact_: np.abs(exact_) * 2.0**-7,
            "cuda_bf16.h: a float quotient, rounded; one step",
        ),
    ),
    exact(
        "bfloat_pairs",
        "half",
        _half_pairs,
        "f4",
        "__bfloat1622float2.x __bfloat1622float2.y",
        columns(*(lambda x, i=i: (x[:, i].astype(np.uint32) << 16).view(np.float32) for i in (0, 1))),
        any_nan=True,
    ),
]

_CODES = "e4m3_satfinite e4m3_nosat e5m2_satfinite e5m2_nosat"


def _four_ways(x: Values) -> Values:
    return np.stack([data.to_fp8(x, e4m3, saturate) for e4m3 in (True, False) for saturate in (True, False)], axis=1)


def _fp8_in_half(codes: Values, e4m3: bool) -> Values:
    """Halves of codes; a NaN is CUDA's one NaN."""
    values = data.fp8_values(e4m3)
    infinite, largest = (128, 0x7E) if e4m3 else (0x7C, 0x7B)
    magnitude = codes & 0x7F
    bits = data.to_half(values[np.minimum(magnitude, largest)]).astype(np.uint16)
    bits = np.where(magnitude > largest, np.where(magnitude == infinite, 0x7C00, data.NAN_HALF), bits)
    return np.where(bits == data.NAN_HALF, bits, bits | ((codes & 0x80).astype(np.uint16) << 8)).astype(np.uint16)


def _fp8_in_float(codes: Values, e4m3: bool) -> Values:
    return _fp8_in_half(codes, e4m3).view(np.float16).astype(np.float32)


def _floats_for_fp8() -> Values:
    both = [
        data.around(np.concatenate([-data.fp8_values(e4m3)[:largest], data.fp8_values(e4m3)[:largest]]).astype(np.float32), zero)
        for e4m3, largest, zero in ((True, 0x80, 0.0), (False, 0x7D, -0.0))
    ]
    upper = np.arange(65536, dtype=np.uint32) << 16
    return np.concatenate([*both, upper.view(np.float32), (upper | np.uint32(0x8001)).view(np.float32)])


def _doubles_for_fp8() -> Values:
    floats = _floats_for_fp8().astype(np.float64)
    with np.errstate(invalid="ignore"):
        more = np.concatenate([floats[:3000] * (1 + 2.0**-50), floats[:3000] * (1 - 2.0**-50)])
    numbers_ = np.concatenate([floats[:60000:3], more, np.array([1e300, -1e300, 5e-324, np.inf, -np.inf])])
    return numbers_[~np.isnan(numbers_)]  # the payload of a NaN is kept in part: see the item of its own


def _packed(x: Values, ways: Values) -> Values:
    return ways[0::2].astype(np.uint16) | ways[1::2].astype(np.uint16) << 8


def _codes_in_words() -> Values:
    return np.arange(256, dtype=np.uint32)


FP8 = [
    exact(
        "fp8_to_half",
        "fp8",
        lambda: np.arange(256, dtype=np.uint8),
        "u2",
        "e4m3 e5m2 e4m3x2.high e5m2x2.low",
        columns(*(lambda x, e=e: _fp8_in_half(x, e) for e in (True, False, True, False))),
    ),
    exact(
        "fp8_to_float",
        "fp8",
        lambda: np.arange(256, dtype=np.uint8),
        "f4",
        "e4m3 e5m2",
        columns(lambda x: _fp8_in_float(x, True), lambda x: _fp8_in_float(x, False)),
        any_nan=True,
    ),
    exact("float_to_fp8", "fp8", _floats_for_fp8, "u1", _CODES, lambda x: _four_ways(np.where(np.isnan(x), np.float32(np.nan), x))),
    exact("double_to_fp8", "fp8", _doubles_for_fp8, "u1", _CODES, _four_ways),
    Item(
        "double_nan_to_fp8",
        "fp8",
        lambda: np.array([0x7FF8 << 48, 0xFFF8 << 48, 0x7FFC << 48, (0x7FF0 << 48) + 1], np.uint64).view(np.float64),
        "u1",
        16,
        tuple(_CODES.split()),
        launcher="double_to_fp8",
    ),
    exact(
        "half_to_fp8",
        "fp8",
        data.all_16_bits,
        "u1",
        _CODES,
        lambda x: _four_ways(np.abs(data.from_half(x)) * np.where(np.isnan(data.from_half(x)) | (x < 0x8000), 1, -1)),
    ),
    exact(
        "bfloat_to_fp8",
        "fp8",
        data.all_16_bits,
        "u1",
        _CODES,
        lambda x: _four_ways(np.abs(data.from_bfloat(x)) * np.where(np.isnan(data.from_bfloat(x)) | (x < 0x8000), 1, -1)),
    ),
    exact(
        "float_pairs_to_fp8",
        "fp8",
        lambda: data.between(-500, 500, 3998).reshape(-1, 2),
        "u2",
        _CODES,
        lambda x: _packed(x, _four_ways(x.reshape(-1))),
    ),
    exact(
        "half_pairs_to_fp8",
        "fp8",
        lambda: data.generator(14).randint(0, 0x7C00, (2000, 2)).astype(np.uint16),
        "u2",
        _CODES,
        lambda x: _packed(x, _four_ways(data.from_half(x.reshape(-1)))),
    ),
    exact(
        "fp8_types",
        "fp8",
        lambda: np.concatenate([data.between(-600, 600, 3000), data.magnitudes(-12, 18, 2000)]),
        "u1",
        "e4m3(float) e5m2(float) e4m3(half) e5m2(double)",
        columns(
            lambda x: data.to_fp8(x, True, True),
            lambda x: data.to_fp8(x, False, True),
            lambda x: data.to_fp8(data.from_half(data.to_half(x)), True, True),
            lambda x: data.to_fp8(x, False, True),
        ),
    ),
    exact(
        "fp8_vectors",
        "fp8",
        lambda: data.between(-500, 500, 3998).reshape(-1, 4),
        "u4",
        "fp8x4_e4m3 fp8x4_e5m2 fp8x2_e4m3",
        columns(
            *(lambda x, e=e: np.ascontiguousarray(data.to_fp8(x, e, True)).view(np.uint32)[:, 0] for e in (True, False)),
            lambda x: np.ascontiguousarray(data.to_fp8(x[:, 1:3], True, True)).view(np.uint16)[:, 0].astype(np.uint32),
        ),
    ),
    exact(
        "fp8_vectors_to_float",
        "fp8",
        _codes_in_words,
        "f4",
        "fp8x4_e4m3.x fp8x2_e4m3.x fp8x4_e5m2.w",
        columns(lambda x: _fp8_in_float(x, True), lambda x: _fp8_in_float(x, True), lambda x: np.zeros(len(x), np.float32)),
        any_nan=True,
    ),
]
