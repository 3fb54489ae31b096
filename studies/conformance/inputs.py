"""Inputs of the conformance items, and what CUDA's formats make of numbers, computed in numpy."""

from __future__ import annotations

import numpy as np

Values = np.ndarray
NAN_HALF, NAN_BFLOAT = 0x7FFF, 0x7FFF  # CUDA's one NaN


def generator(seed: int) -> np.random.RandomState:
    """numpy's frozen generator: the same numbers from every version."""
    return np.random.RandomState(seed)


def between(low: float, high: float, count: int, seed: int = 1) -> Values:
    """Float32 numbers, spread evenly, with both ends."""
    values = low + (high - low) * generator(seed).random_sample(count)
    return np.concatenate([[low, high], values]).astype(np.float32)


def magnitudes(low: int, high: int, count: int, seed: int = 2) -> Values:
    """Positive float32 numbers whose exponents are spread evenly between two powers of two."""
    random = generator(seed)
    return np.exp2(low + (high - low) * random.random_sample(count)).astype(np.float32)


def all_16_bits() -> Values:
    """Every pattern of 16 bits."""
    return np.arange(65536, dtype=np.uint16)


def any_floats(count: int, seed: int = 3) -> Values:
    """Float32 of random bits, infinities and NaN among them, and the usual corners."""
    bits = generator(seed).randint(0, 2**32, count, dtype=np.uint32)
    corners = np.array(
        [0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x7F800001, 0x33000000, 0x477FF000], np.uint32
    )
    return np.concatenate([bits, corners, corners | np.uint32(0x80000000)]).view(np.float32)


def around(values: Values, zero: float = 0.0) -> Values:
    """Float32 ``values``, what lies between neighbours exactly, and its neighbours on both sides: every rounding case.

    ``zero`` stands for both zeros: which of the two numpy keeps is its sort's, and that differs between processors.
    """
    ordered = np.unique(values[np.isfinite(values)].astype(np.float64))
    ordered[ordered == 0] = zero
    middle = ((ordered[1:] + ordered[:-1]) / 2).astype(np.float32)
    below, above = np.nextafter(middle, np.float32(-np.inf)), np.nextafter(middle, np.float32(np.inf))
    return np.concatenate([ordered.astype(np.float32), middle, below, above])


def to_half(x: Values) -> Values:
    """Bits of halves, rounded to nearest even."""
    with np.errstate(over="ignore", invalid="ignore"):
        bits = x.astype(np.float16).view(np.uint16).copy()
    bits[np.isnan(x)] = NAN_HALF
    return bits


def to_half_directed(x: Values, direction: int) -> Values:
    """The same rounded towards zero (0), down (-1) or up (1)."""
    nearest = to_half(x)
    back = nearest.view(np.float16).astype(np.float64)
    exact = x.astype(np.float64)
    up, down = (np.nextafter(nearest.view(np.float16), np.float16(end)).view(np.uint16) for end in (np.inf, -np.inf))
    with np.errstate(invalid="ignore"):
        if direction == 0:
            moved = np.where((exact > 0) & (back > exact), down, np.where((exact < 0) & (back < exact), up, nearest))
        elif direction > 0:
            moved = np.where(back < exact, up, nearest)
        else:
            moved = np.where(back > exact, down, nearest)
    # numpy steps from -2^-24 up to +0
    moved = np.where((moved == 0) & np.signbit(x), 0x8000, moved)
    return np.where(np.isnan(x), NAN_HALF, moved).astype(np.uint16)


def from_half(bits: Values) -> Values:
    """Halves as float64."""
    return bits.astype(np.uint16).view(np.float16).astype(np.float64)


def to_bfloat(x: Values) -> Values:
    """Bits of bfloat16, by choosing the nearer of the two neighbours, the even one at a tie."""
    bits = x.astype(np.float32).view(np.uint32)
    lower = bits & np.uint32(0xFFFF0000)
    rest = bits & np.uint32(0xFFFF)
    odd = (bits >> 16) & 1
    up = (rest > 0x8000) | ((rest == 0x8000) & (odd == 1))
    out = ((lower >> 16) + up).astype(np.uint16)
    return np.where(np.isnan(x), NAN_BFLOAT, out).astype(np.uint16)


def from_bfloat(bits: Values) -> Values:
    """bfloat16 as float64."""
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def fp8_values(e4m3: bool) -> Values:
    """The numbers that the codes 0 to 127 stand for, by the OCP specification; the code after the largest is what
    would come next, and those behind it are infinite."""
    bits, bias = (3, 7) if e4m3 else (2, 15)
    out = []
    for code in range(128):
        exponent, mantissa = code >> bits, code & ((1 << bits) - 1)
        scale = 2.0 ** (max(exponent, 1) - bias - bits)
        out.append((mantissa + ((1 << bits) if exponent else 0)) * scale)
    return np.array(out)


def to_fp8(x: Values, e4m3: bool, saturate: bool) -> Values:
    """Codes by search among the numbers of the format: the nearest, the even code at a tie."""
    largest = 0x7E if e4m3 else 0x7B
    values = fp8_values(e4m3)[: largest + 2]
    middle = (values[1:] + values[:-1]) / 2
    magnitude = np.abs(x.astype(np.float64))
    code = np.searchsorted(middle, magnitude, side="left")
    tie = (code < len(middle)) & (middle[np.minimum(code, len(middle) - 1)] == magnitude)
    code = np.where(tie & (code % 2 == 1), code + 1, code)
    code = np.where(code > largest, largest if saturate else largest + 1, code)
    out = code | np.where(np.signbit(x), 0x80, 0)
    return np.where(np.isnan(x), 0x7F, out).astype(np.uint8)
