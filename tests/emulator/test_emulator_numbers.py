"""8-bit and 16-bit floats of the emulator against PyTorch and exact arithmetic."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from emulator_kit import Emulated, emulated


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Emulated:
    return emulated("numbers.cu", tmp_path_factory.mktemp("numbers"))


@pytest.fixture(scope="module")
def floats() -> np.ndarray:
    """Random bit patterns, values around every rounding boundary of the small formats, and specials."""
    generator = np.random.default_rng(1)
    bits = generator.integers(0, 2**32, 40000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = (generator.standard_normal(20000) * 10.0 ** generator.integers(-9, 6, 20000)).astype(np.float32)
    codes = torch.arange(256, dtype=torch.uint8)
    eighths = [codes.view(kind).float().numpy() for kind in (torch.float8_e4m3fn, torch.float8_e5m2)]
    exact = np.concatenate([*eighths, np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)])
    exact = np.unique(exact[np.isfinite(exact)])
    middles = ((exact[1:].astype(np.float64) + exact[:-1]) / 2).astype(np.float32)
    specials = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 447.9, 448, 463.9, 464, 464.1, 480, 61440, 65504, 65519.9, 65520, 1e30, -1e30, 1e-45],
        dtype=np.float32,
    )
    up, down = np.nextafter(middles, np.float32(np.inf)), np.nextafter(middles, np.float32(-np.inf))
    return np.concatenate([bits, near, exact, middles, up, down, specials])


def same(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Equal bits, or NaN on both sides."""
    return (ours == theirs) & (np.signbit(ours) == np.signbit(theirs)) | (np.isnan(ours) & np.isnan(theirs))


def test_every_8_bit_code_decodes_as_in_torch(numbers: Emulated) -> None:
    e4m3, e5m2 = np.zeros(256, dtype=np.float32), np.zeros(256, dtype=np.float32)
    assert numbers.run("run_decode", e4m3, e5m2) == 0
    codes = torch.arange(256, dtype=torch.uint8)
    assert same(e4m3, codes.view(torch.float8_e4m3fn).float().numpy()).all()
    assert same(e5m2, codes.view(torch.float8_e5m2).float().numpy()).all()
    assert np.flatnonzero(np.isnan(e4m3)).tolist() == [0x7F, 0xFF]


def test_pairs_decode_low_byte_first(numbers: Emulated) -> None:
    pairs = np.arange(65536, dtype=np.uint16)
    out = np.zeros((65536, 2), dtype=np.float32)
    assert numbers.run("run_decode_pairs", pairs, out) == 0
    table = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float().numpy()
    assert same(out[:, 0], table[pairs & 255]).all() and same(out[:, 1], table[pairs >> 8]).all()


def test_float_to_8_bits(numbers: Emulated, floats: np.ndarray) -> None:
    e4m3, e5m2, unsaturated = (np.zeros(len(floats), dtype=np.uint8) for _ in range(3))
    assert numbers.run("run_encode", floats, e4m3, e5m2, unsaturated, len(floats)) == 0
    source = torch.from_numpy(floats)

    def decoded(codes: np.ndarray, kind: torch.dtype) -> np.ndarray:
        return torch.from_numpy(codes).view(kind).float().numpy()

    # PyTorch does not saturate; where it overflows to NaN, SATFINITE gives 448.
    theirs = source.clamp(-448, 448).to(torch.float8_e4m3fn).float().numpy()
    assert same(decoded(e4m3, torch.float8_e4m3fn), theirs).all()
    beyond = np.abs(floats) > 464
    within = decoded(unsaturated, torch.float8_e4m3fn)
    assert np.isnan(within[beyond]).all()
    assert same(within[~beyond], theirs[~beyond]).all()
    assert same(decoded(e5m2, torch.float8_e5m2), source.to(torch.float8_e5m2).float().numpy()).all()
    assert (e4m3[np.isnan(floats)] == 0x7F).all()


def test_float_to_16_bits(numbers: Emulated, floats: np.ndarray) -> None:
    nearest, to_zero, up, brain = (np.zeros(len(floats), dtype=np.uint16) for _ in range(4))
    assert numbers.run("run_round_half", floats, nearest, to_zero, up, brain, len(floats)) == 0
    with np.errstate(over="ignore"):
        assert same(nearest.view(np.float16), floats.astype(np.float16)).all()
    assert same((brain.astype(np.uint32) << 16).view(np.float32), torch.from_numpy(floats).to(torch.bfloat16).float().numpy()).all()
    finite = np.isfinite(floats)
    zero, above = to_zero.view(np.float16).astype(np.float64), up.view(np.float16).astype(np.float64)
    exact = floats.astype(np.float64)
    assert (np.abs(zero[finite]) <= np.abs(exact[finite])).all() and (above[finite] >= exact[finite]).all()
    fits = finite & (np.abs(exact) < 65504)
    step = np.spacing(np.abs(zero[fits]).astype(np.float16)).astype(np.float64)
    assert (np.abs(exact[fits] - zero[fits]) < step).all() and (above[fits] - exact[fits] < step * 1.0001).all()
    assert (nearest[np.isnan(floats)] == 0x7FFF).all()


def test_half_arithmetic_is_rounded_once(numbers: Emulated) -> None:
    generator = np.random.default_rng(2)
    a, b = (generator.integers(0, 65536, 50000).astype(np.uint16).view(np.float16) for _ in range(2))
    out = np.zeros((5, len(a)), dtype=np.float16)
    assert numbers.run("run_half_arithmetic", a, b, out, len(a)) == 0
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        expected = [wide_a + wide_b, wide_a * wide_b, wide_a / wide_b, wide_a * wide_b + wide_a, wide_a - wide_b]
        for ours, exact in zip(out, expected, strict=True):
            assert same(ours, exact.astype(np.float16)).all()


def test_device_functions(numbers: Emulated) -> None:
    out = np.zeros(15, dtype=np.float32)
    assert numbers.run("run_functions", out) == 0
    expected = [math.e, 8, 0.25, 0.25, 1.5, 2, 6, 18, 1, math.pi, 8 * 100 + 31 + 4, 1, 1, 1, 5 + 16 + 8 + 32]
    assert out.tolist() == pytest.approx(expected, rel=1e-6)


@pytest.fixture(scope="module")
def bfloat(tmp_path_factory: pytest.TempPathFactory) -> Emulated:
    return emulated("bfloat.cu", tmp_path_factory.mktemp("bfloat"))


def brain(exact: Fraction) -> float:
    """The bfloat16 nearest to a number, the even one at a tie, by exact arithmetic."""
    exponent = abs(exact.numerator).bit_length() - exact.denominator.bit_length()
    exponent -= abs(exact) < Fraction(2) ** exponent
    step = Fraction(2) ** (max(exponent, -126) - 7)
    value = round(exact / step) * step
    return math.copysign(math.inf, value) if abs(value) >= 2**128 else math.copysign(float(value), exact)


def nearest_brains(wide: np.ndarray, exact: Callable[..., Fraction], *given: np.ndarray) -> np.ndarray:
    """Results rounded once; ``wide``, the same in double, says what is no number or zero."""
    return np.array(
        [
            brain(exact(*map(Fraction, numbers)))
            if math.isfinite(w) and all(map(math.isfinite, numbers)) and exact(*map(Fraction, numbers))
            else w
            for w, *numbers in zip(wide.tolist(), *(values.tolist() for values in given), strict=True)
        ]
    )


def from_brain(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def brain_triples() -> np.ndarray:
    """Random bit patterns; products between two neighbours, moved off the middle by little; products below the smallest normal number."""
    generator = np.random.default_rng(3)
    patterns = generator.integers(0, 65536, (3, 4000)).astype(np.uint16)
    middles = [
        (3.0 * 2.0**shift, float(odd), sign * 2.0**-tiny)
        for shift in (-20, 0, 90)
        for odd in (87, 91, 123, 127)
        for sign in (1, -1)
        for tiny in (5, 40, 80, 133)
    ]
    small = [(m * 2.0**-71, n * 2.0**-70, 0.0) for m, n in generator.integers(128, 256, (500, 2)).tolist()]
    chosen = np.array([*middles, *small]).T.astype(np.float32).view(np.uint32) >> 16
    return np.ascontiguousarray(np.concatenate([patterns, chosen.astype(np.uint16)], axis=1))


def test_bfloat_arithmetic_is_rounded_once(bfloat: Emulated) -> None:
    given = brain_triples()
    n = given.shape[1]
    out = np.zeros((16, n), dtype=np.uint16)
    assert bfloat.run("run_arithmetic", *given, out, n) == 0
    (a, b, c), ours = from_brain(given), from_brain(out)
    with np.errstate(all="ignore"):
        assert same(ours[0], nearest_brains(a + b, operator.add, a, b)).all()
        assert same(ours[1], nearest_brains(a - b, operator.sub, a, b)).all()
        assert same(ours[2], nearest_brains(a * b, operator.mul, a, b)).all()
        nonzero = b != 0
        assert same(ours[3][nonzero], nearest_brains((a / b)[nonzero], operator.truediv, a[nonzero], b[nonzero])).all()
        assert same(ours[4], nearest_brains(a * b + c, lambda x, y, z: x * y + z, a, b, c)).all()
        assert same(ours[5], nearest_brains(a * b + (0.0 - c), lambda x, y, z: x * y - z, a, b, c)).all()
        assert same(ours[6], np.where(np.isfinite(b), ours[2], np.nan) + 0.0).all()
        assert same(ours[7], np.fmax(a, b))[(a != 0) | (b != 0)].all() and same(ours[8], np.fmin(a, b))[(a != 0) | (b != 0)].all()
        for index, function in ((9, np.sqrt), (10, np.reciprocal), (11, np.exp), (12, np.log)):
            expected = torch.from_numpy(function(a.astype(np.float32))).to(torch.bfloat16).double().numpy()
            near = (
                np.abs(out[index].view(np.int16) - torch.from_numpy(expected).to(torch.bfloat16).view(torch.int16).numpy().astype(np.int32))
                <= 1
            )
            assert (near | same(ours[index], expected)).all(), function
    assert same(ours[13], np.abs(a)).all() and same(ours[15], -a).all()
    assert (ours[14] == (a < b) + 2.0 * (a != b) + 4.0 * np.isnan(a)).all()
    assert (out[:5][np.isnan(ours[:5])] == 0x7FFF).all()


def test_double_to_bfloat_is_rounded_once(bfloat: Emulated, floats: np.ndarray) -> None:
    fine = floats[np.isfinite(floats)].astype(np.float64)
    middles = from_brain(np.arange(0x3F80, 0x4000, dtype=np.uint16)) + 2.0**-8
    given = np.concatenate(
        [fine[::20], middles, middles + 2.0**-40, middles - 2.0**-40, [2.0**-134 * (1 + 2.0**-40), 3.3961e38, 1e300, -1e300]]
    )
    nearest, to_zero, down, up = (np.zeros(len(given), dtype=np.uint16) for _ in range(4))
    assert bfloat.run("run_conversions", given, nearest, to_zero, down, up, len(given)) == 0
    assert same(from_brain(nearest), nearest_brains(given, lambda x: x, given)).all()
    with np.errstate(over="ignore"):
        single = given.astype(np.float32).astype(np.float64)
    below, above = from_brain(down), from_brain(up)
    assert (below <= single).all() and (above >= single).all()
    assert same(from_brain(to_zero), np.where(np.signbit(single), above, below)).all()
    for bits, value in ((down, below), (up, above)):  # no other between
        inexact = (value != single) & np.isfinite(value)
        assert (
            np.abs(value - single)[inexact] < np.spacing(np.abs(single[inexact]).astype(np.float32)).astype(np.float64) * 2**16
        ).all(), bits
