"""Operations of the CPU device one by one: PTX on edge and random values, against Python's whole numbers and numpy's floats."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import cpu_kit
import numpy as np
import pytest

from gates.core.errors import GatesError
from gates.emulator.cpu.loading import PtxModule

WIDTH = {
    "b16": 16,
    "u16": 16,
    "s16": 16,
    "f16": 16,
    "bf16": 16,
    "b32": 32,
    "u32": 32,
    "s32": 32,
    "f32": 32,
    "f16x2": 32,
    "b64": 64,
    "u64": 64,
    "s64": 64,
    "f64": 64,
}
PREFIX = {16: "h", 32: "r", 64: "d"}
EDGES = [
    0,
    1,
    2,
    3,
    7,
    31,
    32,
    33,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    0x7FFFFFFFFFFFFFFF,
    1 << 63,
    (1 << 64) - 1,
]
FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    3.0e38,
    -3.0e38,
    1e-40,
    2.0**-149,
    math.inf,
    -math.inf,
    math.nan,
    65504.0,
    65520.0,
    1e9,
    -3e9,
    0.1,
    6.1e-5,
    2.0**-25,
]
COUNT = 512


def run(line: str, types: tuple[str, ...], result: str, inputs: list[np.ndarray], **settings: int) -> np.ndarray:
    """The results' bits of ``line`` with operands {0} (result), {1}, {2}, {3} on 64-bit images of the inputs."""
    loads, names = "", [f"%{PREFIX[WIDTH[result]]}9"]
    for index, kind in enumerate(types):
        names.append(f"%{PREFIX[WIDTH[kind]]}{index}")
        loads += f"ld.global.b{WIDTH[kind]} {names[-1]}, [%p{index}];\n"
    text = f""".version 9.0
.target sm_90
.address_size 64
.visible .entry work(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 out) {{
.reg .b16 %h<10>; .reg .b32 %r<20>; .reg .b64 %d<10>; .reg .b64 %p<10>; .reg .pred %q<4>;
ld.param.u64 %p0, [a]; ld.param.u64 %p1, [b]; ld.param.u64 %p2, [c]; ld.param.u64 %p3, [out];
mov.u32 %r10, %tid.x; mov.u32 %r11, %ctaid.x; mov.u32 %r12, %ntid.x; mad.lo.s32 %r10, %r11, %r12, %r10; mul.wide.u32 %p4, %r10, 8;
add.s64 %p0, %p0, %p4; add.s64 %p1, %p1, %p4; add.s64 %p2, %p2, %p4; add.s64 %p3, %p3, %p4;
{loads}{line.format(*names)}
st.global.b{WIDTH[result]} [%p3], {names[0]}; ret; }}
"""
    cpu = cpu_kit.device(races=0, **settings)
    arrays = [cpu.array(values) for values in inputs]
    out = cpu.array(np.zeros(COUNT, np.uint64))
    PtxModule(cpu, text).launch("work", (COUNT // 128,), (128,), *arrays, out)
    assert not cpu.findings()
    return out.get()


def whole_inputs(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(3):
        values = rng.integers(0, 1 << 64, COUNT, dtype=np.uint64)
        values[: COUNT // 2] = rng.choice(np.array(EDGES, np.uint64), COUNT // 2)
        made.append(values)
    return made


def value_of(bits: int, kind: str) -> int:
    width = WIDTH[kind]
    bits &= (1 << width) - 1
    return bits - (1 << width) if kind[0] == "s" and bits >> (width - 1) else bits


def cut(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def field(a: int, b: int, c: int, sign: bool) -> int:
    start, length = b & 255, c & 255
    if length == 0:
        return 0
    top = a >> min(start + length - 1, 31) & 1 if sign else 0
    bits = [a >> (start + i) & 1 if start + i < 32 and i < length else top for i in range(32)]
    return sum(bit << i for i, bit in enumerate(bits))


def saturated(exact: int) -> int:
    return max(-(2**31), min(2**31 - 1, exact))


def permuted(a: int, b: int, c: int) -> int:
    made = 0
    for i in range(4):
        select = c >> (4 * i) & 15
        byte = ((b & 0xFFFFFFFF) << 32 | (a & 0xFFFFFFFF)) >> (8 * (select & 7)) & 255
        made |= (255 if byte & 128 else 0 if select & 8 else byte) << (8 * i) if select & 8 else byte << (8 * i)
    return made


WHOLE: list[tuple[str, tuple[str, ...], str, Callable[..., int]]] = [
    *[
        (f"{op}.{kind} {{0}}, {{1}}, {{2}};", (kind, kind), kind, function)
        for kind in ("u16", "s16", "u32", "s32", "u64", "s64")
        for op, function in (
            ("add", lambda a, b: a + b),
            ("sub", lambda a, b: a - b),
            ("mul.lo", lambda a, b: a * b),
            ("min", min),
            ("max", max),
            ("div", lambda a, b: cut(a, b) if b else -1),
            ("rem", lambda a, b: a - b * cut(a, b) if b else a),
        )
    ],
    *[
        (f"mul.hi.{kind} {{0}}, {{1}}, {{2}};", (kind, kind), kind, lambda a, b, w=WIDTH[kind]: a * b >> w)
        for kind in ("u32", "s32", "u64", "s64")
    ],
    *[
        (f"mul.wide.{kind} {{0}}, {{1}}, {{2}};", (kind, kind), wide, lambda a, b: a * b)
        for kind, wide in (("u16", "b32"), ("s16", "b32"), ("u32", "b64"), ("s32", "b64"))
    ],
    ("mad.lo.s32 {0}, {1}, {2}, {3};", ("s32", "s32", "s32"), "s32", lambda a, b, c: a * b + c),
    ("mad.wide.s32 {0}, {1}, {2}, {3};", ("s32", "s32", "s64"), "s64", lambda a, b, c: a * b + c),
    ("mad.hi.u32 {0}, {1}, {2}, {3};", ("u32", "u32", "u32"), "u32", lambda a, b, c: (a * b >> 32) + c),
    ("add.sat.s32 {0}, {1}, {2};", ("s32", "s32"), "s32", lambda a, b: saturated(a + b)),
    ("sub.sat.s32 {0}, {1}, {2};", ("s32", "s32"), "s32", lambda a, b: saturated(a - b)),
    ("mad.hi.sat.s32 {0}, {1}, {2}, {3};", ("s32", "s32", "s32"), "s32", lambda a, b, c: saturated((a * b >> 32) + c)),
    ("mad24.lo.u32 {0}, {1}, {2}, {3};", ("u32", "u32", "u32"), "u32", lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c),
    ("mad24.hi.u32 {0}, {1}, {2}, {3};", ("u32", "u32", "u32"), "u32", lambda a, b, c: ((a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16) + c),
    *[(f"shl.b{w} {{0}}, {{1}}, {{2}};", (f"b{w}", "u32"), f"b{w}", lambda a, b, w=w: a << b if b < w else 0) for w in (16, 32, 64)],
    *[
        (f"shr.{kind} {{0}}, {{1}}, {{2}};", (kind, "u32"), kind, lambda a, b: a >> min(b, 70))
        for kind in ("u16", "s16", "u32", "s32", "u64", "s64")
    ],
    *[
        (f"{op}.b{w} {{0}}, {{1}}, {{2}};", (f"b{w}", f"b{w}"), f"b{w}", function)
        for w in (16, 32, 64)
        for op, function in (("and", lambda a, b: a & b), ("or", lambda a, b: a | b), ("xor", lambda a, b: a ^ b))
    ],
    *[
        (f"{op}.{kind} {{0}}, {{1}};", (kind,), kind, function)
        for kind in ("s16", "s32", "s64")
        for op, function in (("abs", abs), ("neg", lambda a: -a))
    ],
    ("not.b32 {0}, {1};", ("b32",), "b32", lambda a: ~a),
    ("cnot.b32 {0}, {1};", ("b32",), "b32", lambda a: a == 0),
    ("popc.b64 {0}, {1};", ("b64",), "u32", lambda a: bin(a).count("1")),
    ("clz.b32 {0}, {1};", ("b32",), "u32", lambda a: 32 - a.bit_length()),
    ("brev.b32 {0}, {1};", ("b32",), "b32", lambda a: int(f"{a:032b}"[::-1], 2)),
    ("bfind.u32 {0}, {1};", ("u32",), "u32", lambda a: a.bit_length() - 1),
    ("bfind.shiftamt.s32 {0}, {1};", ("s32",), "u32", lambda a: 32 - (a if a >= 0 else ~a).bit_length() if a not in (0, -1) else -1),
    ("bfe.u32 {0}, {1}, {2}, {3};", ("u32", "u32", "u32"), "u32", lambda a, b, c: field(a, b, c, False)),
    ("bfe.s32 {0}, {1}, {2}, {3};", ("b32", "u32", "u32"), "b32", lambda a, b, c: field(a, b, c, True)),
    (
        "bfi.b32 {0}, {1}, {2}, {3}, 5;",
        ("b32", "b32", "u32"),
        "b32",
        lambda a, b, c: b if c & 255 > 31 else (b & ~(31 << (c & 255)) | (a & 31) << (c & 255)),
    ),
    ("prmt.b32 {0}, {1}, {2}, {3};", ("b32", "b32", "b32"), "b32", permuted),
    ("lop3.b32 {0}, {1}, {2}, {3}, 0xCA;", ("b32", "b32", "b32"), "b32", lambda a, b, c: (a & b) | (~a & c)),
    ("shf.l.wrap.b32 {0}, {1}, {2}, {3};", ("b32", "b32", "u32"), "b32", lambda a, b, c: (b << 32 | a) << (c & 31) >> 32),
    ("shf.r.clamp.b32 {0}, {1}, {2}, {3};", ("b32", "b32", "u32"), "b32", lambda a, b, c: (b << 32 | a) >> min(c, 32)),
    ("sad.s32 {0}, {1}, {2}, {3};", ("s32", "s32", "u32"), "u32", lambda a, b, c: c + abs(a - b)),
    (
        "dp4a.s32.u32 {0}, {1}, {2}, {3};",
        ("b32", "b32", "s32"),
        "s32",
        lambda a, b, c: c + sum(((a >> 8 * i & 255) ^ 128) * (b >> 8 * i & 255) - 128 * (b >> 8 * i & 255) for i in range(4)),
    ),
    ("add.cc.u32 {0}, {1}, {2}; addc.u32 {0}, {3}, 0;", ("u32", "u32", "u32"), "u32", lambda a, b, c: c + (a + b >> 32)),
    ("sub.cc.u64 {0}, {1}, {2}; subc.u64 {0}, {3}, 0;", ("u64", "u64", "u64"), "u64", lambda a, b, c: c - (a < b)),
    ("setp.lt.s64 %q0, {1}, {2}; selp.b32 {0}, 5, 9, %q0;", ("s64", "s64"), "b32", lambda a, b: 5 if a < b else 9),
    ("setp.hs.and.u32 %q0|%q1, {1}, {2}, 1; selp.b32 {0}, 5, 9, %q1;", ("u32", "u32"), "b32", lambda a, b: 9 if a >= b else 5),
    ("set.ge.u32.s32 {0}, {1}, {2};", ("s32", "s32"), "b32", lambda a, b: -(a >= b)),
    ("mov.b64 {0}, {{{1}, {2}}};", ("b32", "b32"), "b64", lambda a, b: b << 32 | a),
    ("{{ .reg .b32 x; mov.b64 {{_, x}}, {1}; mov.b32 {0}, x; }}", ("b64",), "b32", lambda a: a >> 32),
    *[
        (f"cvt.{to}.{of} {{0}}, {{1}};", (of,), to, lambda a: a)
        for to in ("u16", "s16", "u32", "s32", "u64", "s64")
        for of in ("u16", "s16", "u32", "s32", "u64", "s64")
    ],
    ("cvt.sat.s16.s32 {0}, {1};", ("s32",), "s16", lambda a: max(-32768, min(32767, a))),
    ("cvt.u32.u8 {0}, {1};", ("u32",), "u32", lambda a: a & 255),
    ("cvt.s32.s8 {0}, {1};", ("b32",), "s32", lambda a: ((a & 255) ^ 128) - 128),
    ("cvt.s8.s32 {0}, {1};", ("b32",), "b32", lambda a: ((a & 255) ^ 128) - 128),
    (
        "@!%q3 add.s32 {0}, {1}, {2}; setp.eq.u32 %q3, {1}, {2}; mov.b32 {0}, 3; @%q3 mov.b32 {0}, 4;",
        ("u32", "u32"),
        "b32",
        lambda a, b: 4 if a == b else 3,
    ),
]


@pytest.mark.parametrize("case", WHOLE, ids=[f"{index}-{case[0].split(' ')[0]}" for index, case in enumerate(WHOLE)])
def test_whole_numbers(case: tuple[str, tuple[str, ...], str, Callable[..., int]]) -> None:
    line, types, result, function = case
    inputs = whole_inputs(len(line))
    got, mask = run(line, types, result, inputs), (1 << WIDTH[result]) - 1
    for index in range(COUNT):
        operands = [value_of(int(values[index]), kind) for values, kind in zip(inputs, types, strict=False)]
        assert int(got[index]) & mask == int(function(*operands)) & mask, (line, operands)


def float_inputs(seed: int) -> list[np.ndarray]:
    """Three arrays of f32 values as bits in 64-bit images."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(3):
        values = rng.standard_normal(COUNT).astype(np.float32) * np.float32(10) ** rng.integers(-20, 20, COUNT).astype(np.float32)
        values[: COUNT // 2] = rng.choice(np.array(FLOATS, np.float32), COUNT // 2)
        made.append(values.view(np.uint32).astype(np.uint64))
    return made


def flush(values: np.ndarray) -> np.ndarray:
    return np.where(np.abs(values) < np.float32(2.0**-126), np.copysign(np.float32(0), values), values).astype(np.float32)


def toward_zero(exact: np.ndarray) -> np.ndarray:
    near = exact.astype(np.float32)
    return np.where(np.abs(near.astype(np.float64)) > np.abs(exact), np.nextafter(near, np.float32(0)), near)


FLOAT: list[tuple[str, int, Callable[..., np.ndarray]]] = [
    ("add.f32 {0}, {1}, {2};", 2, lambda a, b: a + b),
    ("sub.rn.f32 {0}, {1}, {2};", 2, lambda a, b: a - b),
    ("mul.f32 {0}, {1}, {2};", 2, lambda a, b: a * b),
    ("mul.ftz.f32 {0}, {1}, {2};", 2, lambda a, b: flush(flush(a) * flush(b))),
    ("mul.rz.f32 {0}, {1}, {2};", 2, lambda a, b: toward_zero(a.astype(np.float64) * b.astype(np.float64))),
    ("div.rn.f32 {0}, {1}, {2};", 2, lambda a, b: a / b),
    ("sqrt.rn.f32 {0}, {1};", 1, np.sqrt),
    ("rcp.rn.f32 {0}, {1};", 1, lambda a: np.float32(1) / a),
    (
        "st.global.f32 [%p3], {1}; red.global.add.f32 [%p3], {2}; ld.global.f32 {0}, [%p3];",
        2,
        lambda a, b: flush(flush(a) + flush(b)),
    ),
    (
        "{{ .shared .b32 own[128]; .reg .b32 x; mov.u32 x, %tid.x; shl.b32 x, x, 2; mov.u32 %r9, own; add.u32 x, x, %r9;"
        "st.shared.f32 [x], {1}; red.shared.add.f32 [x], {2}; ld.shared.f32 {0}, [x]; }}",
        2,
        lambda a, b: a + b,
    ),
    ("abs.f32 {0}, {1};", 1, np.abs),
    ("neg.ftz.f32 {0}, {1};", 1, lambda a: -flush(a)),
    ("copysign.f32 {0}, {1}, {2};", 2, lambda a, b: np.copysign(b, a)),
    ("min.f32 {0}, {1}, {2};", 2, np.fmin),
    ("max.f32 {0}, {1}, {2};", 2, np.fmax),
    ("max.NaN.f32 {0}, {1}, {2};", 2, np.maximum),
    ("add.sat.f32 {0}, {1}, {2};", 2, lambda a, b: np.nan_to_num(np.clip(a + b, 0, 1), nan=0.0)),
    ("cvt.rni.f32.f32 {0}, {1};", 1, np.rint),
    ("cvt.rzi.f32.f32 {0}, {1};", 1, np.trunc),
    ("cvt.sat.f32.f32 {0}, {1};", 1, lambda a: np.nan_to_num(np.clip(a, 0, 1), nan=0.0)),
    (
        "{{ .reg .f64 x; .reg .f64 y; cvt.f64.f32 x, {1}; cvt.f64.f32 y, {2}; mul.rn.f64 x, x, y; cvt.rn.f32.f64 {0}, x; }}",
        2,
        lambda a, b: (a.astype(np.float64) * b.astype(np.float64)).astype(np.float32),
    ),
    ("setp.ltu.f32 %q0, {1}, {2}; selp.f32 {0}, 0f3F800000, 0f00000000, %q0;", 2, lambda a, b: (~(a >= b)).astype(np.float32)),
    ("setp.ne.f32 %q0, {1}, {2}; selp.f32 {0}, 0f3F800000, 0f00000000, %q0;", 2, lambda a, b: ((a < b) | (a > b)).astype(np.float32)),
    ("{{ .reg .b16 x; cvt.rn.f16.f32 x, {1}; cvt.f32.f16 {0}, x; }}", 1, lambda a: a.astype(np.float16).astype(np.float32)),
    (
        "{{ .reg .b16 x; .reg .b16 y; cvt.rn.f16.f32 x, {1}; cvt.rn.f16.f32 y, {2}; mul.f16 x, x, y; cvt.f32.f16 {0}, x; }}",
        2,
        lambda a, b: (a.astype(np.float16) * b.astype(np.float16)).astype(np.float32),
    ),
    (
        "{{ .reg .b32 x; .reg .b16 l; .reg .b16 h; cvt.rn.f16x2.f32 x, {1}, {2}; add.f16x2 x, x, x; mov.b32 {{l, h}}, x; cvt.f32.f16 "
        "{0}, h; }}",
        2,
        lambda a, b: (a.astype(np.float16) + a.astype(np.float16)).astype(np.float32),
    ),
]


@pytest.mark.parametrize("case", FLOAT, ids=[f"{index}-{case[0].split(' ')[0]}" for index, case in enumerate(FLOAT)])
def test_floats(case: tuple[str, int, Callable[..., np.ndarray]]) -> None:
    line, count, function = case
    inputs = float_inputs(len(line))
    got = run(line, ("f32",) * count, "f32", inputs).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        expected = np.asarray(function(*(values.astype(np.uint32).view(np.float32) for values in inputs[:count])), np.float32)
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    assert same.all(), [(hex(int(inputs[0][i])), hex(int(inputs[1][i])), got[i], expected[i]) for i in np.flatnonzero(~same)[:4]]


def test_fma_rounds_once_in_each_direction() -> None:
    from fractions import Fraction

    inputs = float_inputs(7)
    for mode, direction in (("rn", 0), ("rz", 2), ("rm", -1), ("rp", 1)):
        got = run(f"fma.{mode}.f32 {{0}}, {{1}}, {{2}}, {{3}};", ("f32",) * 3, "f32", inputs).astype(np.uint32).view(np.float32)
        for index in range(COUNT):
            a, b, c = (float(values.astype(np.uint32).view(np.float32)[index]) for values in inputs)
            if not all(map(math.isfinite, (a, b, c))) or not abs(got[index]) < 1e38:
                continue
            exact, value = Fraction(a) * Fraction(b) + Fraction(c), Fraction(float(got[index]))
            step = Fraction(float(np.spacing(np.abs(got[index]))))
            assert abs(exact - value) <= (step / 2 if direction == 0 else step)
            if direction:
                want = {2: abs(value) <= abs(exact), -1: value <= exact, 1: value >= exact}[direction]
                assert want, (mode, a, b, c)


@pytest.mark.parametrize(
    ("to", "low", "high"), [("s32", -(2**31), 2**31 - 1), ("u32", 0, 2**32 - 1), ("s64", -(2**63), 2**63 - 1), ("u16", 0, 65535)]
)
@pytest.mark.parametrize("rounding", ["rzi", "rni", "rmi", "rpi"])
def test_float_to_whole(to: str, low: int, high: int, rounding: str) -> None:
    inputs = float_inputs(3)
    got = run(f"cvt.{rounding}.{to}.f32 {{0}}, {{1}};", ("f32",), to, inputs)
    whole = {"rzi": math.trunc, "rni": lambda x: int(np.rint(x)), "rmi": math.floor, "rpi": math.ceil}[rounding]
    for index in range(COUNT):
        x = float(inputs[0].astype(np.uint32).view(np.float32)[index])
        if math.isnan(x):
            expected = 1 << 63 if WIDTH[to] == 64 else 0
        else:
            expected = high if x == math.inf else low if x == -math.inf else max(low, min(high, whole(x)))
        assert value_of(int(got[index]), to) == value_of(expected, to), (x, rounding)


@pytest.mark.parametrize(
    ("line", "function", "bound"),
    [
        ("ex2.approx.f32 {0}, {1};", lambda x: 2.0**x, 2.0**-22),
        ("lg2.approx.f32 {0}, {1};", math.log2, 2.0**-22),
        ("rsqrt.approx.f32 {0}, {1};", lambda x: x**-0.5, 2.0**-22),
        ("tanh.approx.f32 {0}, {1};", math.tanh, 2.0**-11),
        ("sin.approx.f32 {0}, {1};", math.sin, 2.0**-20),
    ],
)
def test_approximations_keep_their_bound(line: str, function: Callable[[float], float], bound: float) -> None:
    x = np.linspace(0.01, 3.1, COUNT).astype(np.float32)
    got = run(line, ("f32",), "f32", [x.view(np.uint32).astype(np.uint64)] * 3).astype(np.uint32).view(np.float32)
    for value, made in zip(x, got, strict=True):
        exact = function(float(value))
        assert abs(float(made) - exact) <= bound * max(abs(exact), 1.0 if "sin" in line or "lg2" in line else 0.0)


def test_fp8_and_bf16() -> None:
    every = np.arange(COUNT, dtype=np.uint64) % 256
    halves = run("cvt.rn.f16x2.e4m3x2 {0}, {1};", ("b16",), "b32", [every] * 3).astype(np.uint16).view(np.float16).astype(np.float64)
    for code, value in zip(every, halves, strict=True):
        exponent, mantissa = int(code) >> 3 & 15, int(code) & 7
        exact = (
            math.nan
            if int(code) & 127 == 127
            else (-1 if code & 128 else 1) * (mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10))
        )
        assert value == exact or (math.isnan(value) and math.isnan(exact))
    inputs = float_inputs(5)
    got = run("cvt.rn.bf16.f32 {0}, {1};", ("f32",), "b16", inputs)
    for bits, made in zip(inputs[0], got, strict=True):
        (x,) = struct.unpack("f", struct.pack("I", int(bits)))
        if not math.isnan(x):
            assert int(made) == (int(bits) + 0x7FFF + (int(bits) >> 16 & 1)) >> 16


@pytest.mark.parametrize(
    "line",
    [
        "frobnicate.u32 {0}, {1};",
        "add.u32.strange {0}, {1}, {1};",
        "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {0}, {1}, {1}, {1}, 0;",
    ],
)
def test_what_is_not_known_is_named(line: str) -> None:
    with pytest.raises(GatesError, match="operation not supported"):
        run(line, ("b32",), "b32", whole_inputs(0))
    found = cpu_kit.CpuDevice().findings()
    assert [finding.code for finding in found] == ["cpu.unsupported"] and line.split(" ")[0] in found[0].message


def test_broken_ptx_is_one_sentence_and_never_a_crash() -> None:
    text = (
        ".version 9.0\n.target sm_90\n.address_size 64\n.global .align 4 .b8 table[8] = {1, 2, 3};\n"
        ".visible .entry work(.param .u64 out) {\n.reg .pred %p<3>; .reg .b32 %r<4>; .reg .b64 %rd<3>;\nld.param.u64 %rd1, [out];\n"
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 5; @%p1 bra DONE; mov.b64 %rd2, table; ld.global.u32 %r2, [%rd2+4];\n"
        "st.global.u32 [%rd1], %r2;\nDONE: ret; }\n"
    )
    cpu = cpu_kit.device()
    out = cpu.array(np.zeros(4, np.uint32))
    rng = np.random.default_rng(0)
    broken = [text[:end] for end in range(0, len(text) - 3, 3)]
    for _ in range(300):
        at, other = rng.integers(0, len(text), 2)
        broken.append(text[:at] + text[other] + text[at + 1 :])
    refused = 0
    for changed in broken:
        cpu.reset()
        try:
            PtxModule(cpu, changed).launch("work", (1,), (32,), out)
        except GatesError:
            refused += 1
            assert len(cpu.findings()) <= 1 and all("\n" not in finding.message for finding in cpu.findings())
    assert refused > 200


WITHIN = [  # what the PTX ISA allows: absolute and relative errors, and operands between which they hold
    ("lg2.approx.f32 {0}, {1};", np.log2, 2.0**-22, 0.0, (0.51, 1.99)),
    ("lg2.approx.f32 {0}, {1};", np.log2, 0.0, 2.0**-22, (2.0, 1e30)),
    ("sin.approx.f32 {0}, {1};", np.sin, 2.0**-20.5, 0.0, (-6.28, 6.28)),
    ("cos.approx.f32 {0}, {1};", np.cos, 2.0**-14.7, 0.0, (-314.0, 314.0)),
    ("tanh.approx.f32 {0}, {1};", np.tanh, 0.0, 2.0**-11, (-8.0, 8.0)),
]


@pytest.mark.parametrize(("line", "function", "absolute", "relative", "between"), WITHIN)
def test_approximations_err_up_to_their_bounds(
    line: str, function: Callable[[np.ndarray], np.ndarray], absolute: float, relative: float, between: tuple[float, float]
) -> None:
    """With a seed they come near the bound and never pass it, each seed with errors of its own, the same when run again."""
    x = np.random.default_rng(0).uniform(*between, COUNT).astype(np.float32)
    given = [x.view(np.uint32).astype(np.uint64)] * 3
    exact = function(x.astype(np.float64))
    runs = [run(line, ("f32",), "f32", given, approximations=seed).astype(np.uint32).view(np.float32) for seed in (0, 1, 2, 1)]
    share = [np.abs(values - exact) / (absolute + relative * np.abs(exact)) for values in runs]
    assert share[0].max() < 0.65 and all(0.6 < part.max() <= 1 for part in share[1:])
    assert np.array_equal(runs[1], runs[3]) and not np.array_equal(runs[1], runs[2])


@pytest.mark.parametrize(
    ("name", "value", "wanted"), [("sin", 0.0, 0.0), ("cos", 0.0, 1.0), ("tanh", math.inf, 1.0), ("lg2", 0.0, -math.inf)]
)
def test_what_approximations_give_exactly(name: str, value: float, wanted: float) -> None:
    given = [np.full(COUNT, value, np.float32).view(np.uint32).astype(np.uint64)] * 3
    got = run(f"{name}.approx.f32 {{0}}, {{1}};", ("f32",), "f32", given, approximations=5).astype(np.uint32).view(np.float32)
    assert (got == np.float32(wanted)).all()


@pytest.mark.parametrize(
    ("line", "a", "b", "c", "wanted"),
    [
        ("fma.rn.bf16", 0x3F81, 0x3FC0, 0x0D80, 0x3FC2),  # a tie, and 2^-100 more
        ("fma.rn.bf16", 0x3F81, 0x3FC0, 0x8D80, 0x3FC1),  # 2^-100 less
        ("fma.rn.bf16", 0x1C80, 0x1C80, 0x0000, 0x0000),  # 2^-140: too small for any
        ("fma.rn.bf16", 0x7F00, 0x7F00, 0x0000, 0x7F80),
        ("mul.rn.bf16", 0x0081, 0x3FC0, 0, 0x00C2),
        ("mul.rn.bf16", 0x8000, 0x3FC0, 0, 0x8000),
        ("fma.rn.f16", 0x3C01, 0x3E00, 0x8001, 0x3E01),
        ("add.rn.ftz.f16", 0x0001, 0x0001, 0, 0x0000),
        ("add.rn.f16", 0x0001, 0x0001, 0, 0x0002),
        ("fma.rn.ftz.f16", 0xBBFF, 0x2FFF, 0x2FFF, 0x0000),  # 2^-14 only by rounding to a subnormal's place; as an H200 gives it
        ("fma.rn.f16", 0xBBFF, 0x2FFF, 0x2FFF, 0x0400),
        ("fma.rn.ftz.f16", 0x3BFF, 0x0401, 0x0000, 0x0400),  # by rounding to 11 bits
        ("neg.ftz.f16", 0x0001, 0, 0, 0x8000),
        ("neg.f16", 0x0001, 0, 0, 0x8001),
        ("mul.rn.sat.f16", 0x8000, 0x3C00, 0, 0x0000),
    ],
)
def test_halves_are_rounded_once(line: str, a: int, b: int, c: int, wanted: int) -> None:
    count = 3 if line.startswith("fma") else 1 if line.startswith("neg") else 2
    operands = ", ".join(["{0}", "{1}", "{2}", "{3}"][: count + 1])
    inputs = [np.full(COUNT, value, np.uint64) for value in (a, b, c)]
    got = run(f"{line} {operands};", ("b16",) * count, "b16", inputs)
    assert {int(value) & 0xFFFF for value in got} == {wanted}


@pytest.mark.parametrize(
    ("line", "kind", "result", "values", "wanted"),
    [  # as an H200 gives them
        ("mul.rn.sat.f32 {0}, {1}, {2};", "f32", "f32", (0x80000000, 0x3F800000), 0),
        ("cvt.sat.f32.f32 {0}, {1};", "f32", "f32", (0x80000000,), 0),
        ("cvt.rz.f32.f64 {0}, {1};", "f64", "f32", (0xF125C6C0618AD9B1,), 0xFF7FFFFF),
        ("cvt.rp.f32.f64 {0}, {1};", "f64", "f32", (0xE989158F59B8F9A8,), 0xFF7FFFFF),
        ("cvt.rp.f32.f64 {0}, {1};", "f64", "f32", (0x6989158F59B8F9A8,), 0x7F800000),
        ("cvt.rm.f16.f64 {0}, {1};", "f64", "f16", (0x68EFE66FAB2B19E2,), 0x7BFF),
        ("cvt.rn.f16.f64 {0}, {1};", "f64", "f16", (0x68EFE66FAB2B19E2,), 0x7C00),
        ("{{ .reg .b32 x; cvt.u32.u64 x, {2}; bfe.u64 {0}, {1}, x, 27; }}", "u64", "u64", (0xD99B223264CEFCAC, 0x1025E206), 0),
        ("{{ .reg .b32 x; cvt.u32.u64 x, {2}; bfe.u64 {0}, {1}, 37, x; }}", "u64", "u64", (0xFC5B33111280F325, 0x80000000), 0x7E2D998),
        ("{{ .reg .b32 x; mov.b32 x, 0xAB; bfe.u32 {0}, x, {1}, 8; }}", "u32", "u32", (0x100,), 0xAB),
    ],
)
def test_what_a_device_gives(line: str, kind: str, result: str, values: tuple[int, ...], wanted: int) -> None:
    inputs = [np.full(COUNT, value, np.uint64) for value in (*values, 0, 0)][:3]
    got = run(line, (kind,) * len(values), result, inputs)
    assert {int(value) & ((1 << WIDTH[result]) - 1) for value in got} == {wanted}


def test_a_leader_alone_adds_a_vector_and_gets_what_was_there() -> None:
    text = """.version 9.0
.target sm_90
.address_size 64
.visible .entry work(.param .u64 out) {
.reg .pred %p<2>; .reg .b64 %rd<2>; .reg .f32 %f<5>;
ld.param.u64 %rd1, [out]; mov.f32 %f1, 0f3FC00000; mov.f32 %f2, 0f40000000;
elect.sync _|%p1, -1;
@%p1 atom.global.add.v2.f32 {%f3, %f4}, [%rd1], {%f1, %f2};
@%p1 st.global.v2.f32 [%rd1+8], {%f3, %f4};
ret;
}
"""
    cpu = cpu_kit.device()
    out = cpu.array(np.array([10, 20, 0, 0], np.float32))
    PtxModule(cpu, text).launch("work", (1,), (32,), out)
    assert out.get().tolist() == [11.5, 22, 10, 20] and not cpu.findings()
