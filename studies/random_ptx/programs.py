"""Random programs: statements drawn from the instructions, as PTX text, and the values that they start with."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from random_ptx.instructions import ALONE, CLASSES, LANE, PLACE_BYTES, SPACES, WARP, unguarded

THREADS = 64  # of a program: two warps
PREDICATES = 4
_DEPTH = 3
_OPERAND = re.compile(r"\{(!?)([A-Za-z])(i?)\}")
_TEMPORARIES = {"h": ("%th", "%th2", "%th3"), "r": ("%tr", "%tr2", "%tr3"), "d": ("%td", "%td2"), "f": ("%tf",), "p": ("%tp",)}
_EDGES = (
    *(0, 1, 2, 3, 7, 31, 32, 33, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF),
    *(0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
)


TEMPLATES = (*(template for part in LANE.values() for template in part), *WARP, *ALONE)


@dataclass(frozen=True)
class If:
    """Both ways of a branch, which lanes take by ``condition``."""

    condition: str
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


@dataclass(frozen=True)
class Loop:
    """A body that each lane runs one to four times, by the low bits of ``count``."""

    count: str
    body: tuple[Statement, ...]


Statement = str | If | Loop


@dataclass
class Draw:
    """Statements by ``random``, which a seed or hypothesis makes. ``warp``: with operations between lanes, outside of branches."""

    random: random.Random
    warp: bool = True

    def program(self, length: int = 40) -> tuple[Statement, ...]:
        """About ``length`` statements."""
        return self._block(length, 0)

    def alone(self, index: int) -> tuple[Statement, ...]:
        """The instruction of TEMPLATES with this number, on registers that nothing has changed."""
        return (self._filled(TEMPLATES[index]),)

    def _block(self, length: int, depth: int) -> tuple[Statement, ...]:
        made: list[Statement] = []
        while length > 0:
            kind = self.random.random()
            if depth < _DEPTH and kind < 0.08:
                inner = self.random.randint(1, 6)
                made.append(
                    If(self._operand("!", "p", ""), self._block(inner, depth + 1), self._block(self.random.randint(0, 4), depth + 1))
                )
                length -= inner
            elif depth < _DEPTH and kind < 0.12:
                inner = self.random.randint(1, 4)
                made.append(Loop(self._operand("", "r", ""), self._block(inner, depth + 1)))
                length -= inner
            else:
                made.append(self._instruction(depth))
                length -= 1
        return tuple(made)

    def _instruction(self, depth: int) -> str:
        if depth == 0 and self.warp and self.random.random() < 0.06:
            return self._filled(self.random.choice(WARP))
        text = self._filled(self.random.choice(LANE[self.random.choice(tuple(LANE))]))
        guarded = text.count(";") == 1 and not unguarded(text) and self.random.random() < 0.1
        return f"@{self._operand('!', 'p', '')} {text}" if guarded else text

    def _filled(self, template: str) -> str:
        return _OPERAND.sub(lambda found: self._operand(*found.groups()), template)

    def _operand(self, negated: str, kind: str, constant: str) -> str:
        draw = self.random
        if kind == "s":
            return str(draw.randint(0, 70))
        if kind == "b":
            return str(draw.randint(0, 255))
        if kind in "pP":
            return ("!" if negated and draw.random() < 0.5 else "") + f"%p{draw.randrange(PREDICATES)}"
        name = kind.lower()
        _, size, count, is_float = CLASSES[name]
        if constant and draw.random() < 0.2:
            if is_float:
                return f"0f{_float_bits(draw):08X}"
            bits = draw.choice(_EDGES) if draw.random() < 0.5 else draw.getrandbits(8 * size)
            return str(bits & ((1 << 8 * size) - 1))
        return f"%{name}{draw.randrange(count)}"


def _float_bits(draw: random.Random) -> int:
    exponent = draw.choice((0, 1, 100, 110, 120, 126, 127, 128, 129, 135, 150, 254, draw.randrange(255)))
    return draw.getrandbits(1) << 31 | exponent << 23 | draw.choice((0, 1, 0x7FFFFF, 0x400000, draw.getrandbits(23)))


def offsets() -> dict[str, int]:
    """Where each register class begins in a thread's record of bytes, which is both its input and its output."""
    found, at = {}, 0
    for name, (_, size, count, _) in CLASSES.items():
        found[name] = at
        at += size * count
    return found


PREDICATES_AT = sum(size * count for _, size, count, _ in CLASSES.values())
RECORD_BYTES = (PREDICATES_AT + PREDICATES + 7) // 8 * 8  # what comes after the predicates, nothing writes


@dataclass
class _Writer:
    """A program's text: labels and counters of loops by depth."""

    lines: list[str] = field(default_factory=list)
    labels: int = 0

    def write(self, statements: Sequence[Statement], depth: int = 0) -> None:
        for statement in statements:
            if isinstance(statement, str):
                self.lines.append(statement)
                continue
            self.labels += 1
            label = self.labels
            if isinstance(statement, If):
                self.lines.append(f"@{statement.condition} bra ELSE{label};")
                self.write(statement.then, depth + 1)
                self.lines += [f"bra.uni DONE{label};", f"ELSE{label}:"]
                self.write(statement.otherwise, depth + 1)
                self.lines.append(f"DONE{label}:")
            else:
                self.lines += [f"and.b32 %c{depth}, {statement.count}, 3;", f"LOOP{label}:"]
                self.write(statement.body, depth + 1)
                self.lines += [f"sub.s32 %c{depth}, %c{depth}, 1;", f"setp.ge.s32 %tp, %c{depth}, 0;", f"@%tp bra LOOP{label};"]


def kernel(name: str, statements: Sequence[Statement]) -> str:
    """The kernel ``name``: it loads each thread's record, runs the statements, and stores the record. The thread is that of the grid."""
    writer = _Writer()
    writer.write(statements)
    at, moves = offsets(), {2: "b16", 4: "b32", 8: "b64"}
    kinds = {c: kind if kind in ("f32", "f64") else moves[size] for c, (kind, size, _, _) in CLASSES.items()}
    declared = "".join(f".reg .{kinds[c]} %{c}<{count}>; " for c, (_, _, count, _) in CLASSES.items())
    declared += "".join(f".reg .{'pred' if c == 'p' else kinds[c]} {', '.join(names)}; " for c, names in _TEMPORARIES.items())
    places = [(c, i, at[c] + i * size) for c, (_, size, count, _) in CLASSES.items() for i in range(count)]
    loads = [f"ld.global.{kinds[c]} %{c}{i}, [%in+{offset}];" for c, i, offset in places]
    loads += [f"ld.global.u8 %th, [%in+{PREDICATES_AT + i}]; setp.ne.u16 %p{i}, %th, 0;" for i in range(PREDICATES)]
    stores = [f"st.global.{kinds[c]} [%out+{offset}], %{c}{i};" for c, i, offset in places]
    stores += [f"selp.u16 %th, 1, 0, %p{i}; st.global.u8 [%out+{PREDICATES_AT + i}], %th;" for i in range(PREDICATES)]
    clears = [f"st.{space}.b64 [{place}+{offset}], 0;" for space, place in SPACES.items() for offset in range(0, PLACE_BYTES, 8)]
    return f""".visible .entry {name}(.param .u64 in, .param .u64 out, .param .u64 places) {{
{declared}.reg .pred %p<{PREDICATES}>; .reg .b32 %c<{_DEPTH}>; .reg .b32 %sa, %i; .reg .b64 %in, %out, %ga, %la, %o;
.shared .align 16 .b8 shared_place[{PLACE_BYTES * THREADS}]; .local .align 16 .b8 local_place[{PLACE_BYTES}];
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u64 %ga, [places];
mov.u32 %i, %tid.x; mov.u32 %sa, shared_place; mad.lo.u32 %sa, %i, {PLACE_BYTES}, %sa; mov.u64 %la, local_place;
mov.u32 %tr, %ctaid.x; mov.u32 %tr2, %ntid.x; mad.lo.u32 %i, %tr, %tr2, %i;
mul.wide.u32 %o, %i, {RECORD_BYTES}; add.u64 %in, %in, %o; add.u64 %out, %out, %o;
mul.wide.u32 %o, %i, {PLACE_BYTES}; add.u64 %ga, %ga, %o;
{_lines(clears)}
{_lines(loads)}
{_lines(writer.lines)}
{_lines(stores)}
ret; }}
"""


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(lines)


def module(kernels: Sequence[str]) -> str:
    """The text of a module."""
    return ".version 8.0\n.target sm_90\n.address_size 64\n" + "".join(kernels)


def inputs(seed: int, threads: int) -> np.ndarray:
    """Records to start with, (threads, RECORD_BYTES) of bytes: random bits, edges, and floats whose exponents are near one another."""
    draw, made = np.random.default_rng(seed), np.zeros((threads, RECORD_BYTES), np.uint8)
    for name, (kind, size, count, is_float) in CLASSES.items():
        values = draw.integers(0, 1 << 64, (threads, count), dtype=np.uint64)
        values[draw.random((threads, count)) < 0.3] = draw.integers(0, 40)
        edges = draw.random((threads, count)) < 0.3
        values[edges] = draw.choice(np.array(_EDGES, np.uint64), int(edges.sum()))
        made[:, offsets()[name] :][:, : size * count] = (
            values.astype("<u8").view(np.uint8).reshape(threads, count, 8)[:, :, :size].reshape(threads, -1)
        )
        if is_float:
            at, halves = offsets()[name], 2 if kind.endswith("x2") else 1
            usual = draw.random((threads, count * halves)) < 0.7
            floats = _near_one(draw, kind.removesuffix("x2"), (threads, count * halves))
            part = made[:, at : at + size * count].copy().view(floats.dtype)
            made[:, at : at + size * count] = np.where(usual, floats, part).view(np.uint8)
    made[:, PREDICATES_AT : PREDICATES_AT + PREDICATES] = draw.integers(0, 2, (threads, PREDICATES))
    return made


def _near_one(draw: np.random.Generator, kind: str, shape: tuple[int, int]) -> np.ndarray:
    """Bits of floats of ``kind``: signs and mantissas at random or at an edge, exponents around that of 1."""
    exponent_bits, mantissa_bits = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}[kind]
    bias, spread = (1 << (exponent_bits - 1)) - 1, min(12, 1 << (exponent_bits - 2))
    exponents = draw.integers(bias - spread, bias + spread + 1, shape, dtype=np.uint64)
    mantissas = draw.integers(0, 1 << mantissa_bits, shape, dtype=np.uint64)
    edge = draw.random(shape) < 0.3
    mantissas[edge] = draw.choice(np.array([0, 1, (1 << mantissa_bits) - 1, 1 << (mantissa_bits - 1)], np.uint64), int(edge.sum()))
    bits = (
        draw.integers(0, 2, shape, dtype=np.uint64) << np.uint64(exponent_bits + mantissa_bits)
        | exponents << np.uint64(mantissa_bits)
        | mantissas
    )
    return bits.astype({16: "<u2", 32: "<u4", 64: "<u8"}[1 + exponent_bits + mantissa_bits])


def comparable(records: np.ndarray) -> np.ndarray:
    """What programs wrote of the records, with one bit pattern for all NaNs of a float class, since PTX does not say which a result has."""
    made = records[..., : PREDICATES_AT + PREDICATES].copy()
    for name, (kind, size, count, is_float) in CLASSES.items():
        if not is_float:
            continue
        exponent_bits, mantissa_bits = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}[kind.removesuffix("x2")]
        dtype = {16: "<u2", 32: "<u4", 64: "<u8"}[1 + exponent_bits + mantissa_bits]
        at = offsets()[name]
        part = made[..., at : at + size * count].copy().view(dtype)
        infinity = ((1 << exponent_bits) - 1) << mantissa_bits
        nan = (part & np.array((1 << (exponent_bits + mantissa_bits)) - 1, dtype)) > infinity
        part[nan] = infinity | (1 << mantissa_bits) - 1
        made[..., at : at + size * count] = part.view(np.uint8)
    return made
