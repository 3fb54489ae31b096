"""Faults that the size gate must refuse, and sound evidence that it must pass, for `gates selftest`."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gates.core.records import GateResult
from gates.gate.plant import SOUND, Outcome
from gates.gate.size import judge
from gates.gate.size.evidence import Binary, SizeEvidence, loaded_bytes

GATE = "size"
_LIMITS = {"max_bytes": 4096, "max_growth_pct": 10}


def cubin(code: int, debug: int = 64) -> bytes:
    """An ELF file with ``code`` bytes that are loaded, ``debug`` bytes that are not, and shared memory, of which it holds nothing."""
    kinds = ((1, 6, code), (1, 0, debug), (8, 3, 10**6))  # (type, flags, bytes) of each section
    head = struct.pack("<16s2HI3QI6H", b"\x7fELF\x02\x01", 2, 190, 1, 0, 0, 64 + code + debug, 0, 64, 0, 0, 64, len(kinds), 0)
    starts = (64, 64 + code, 64 + code + debug)
    table = b"".join(
        struct.pack("<2I4Q2I2Q", 0, kind, flags, 0, at, size, 0, 0, 1, 0) for (kind, flags, size), at in zip(kinds, starts, strict=True)
    )
    return head + bytes(code + debug) + table


def judged(code: int, before: int, debug: int = 64) -> GateResult:
    """The verdict on a cubin with so many bytes of code, whose baseline has ``before``."""
    sides = [SizeEvidence(("sm_90",), (Binary("k", "sm_90", loaded_bytes(cubin(*one)), ""),)) for one in ((code, debug), (before,))]
    return judge.judge(sides[0], _LIMITS, sides[1])


def planted() -> Iterator[Outcome]:
    """Plant after plant, each through the gate's own parser and judge."""
    yield Outcome(GATE, f"{SOUND}, 10 % more code and long line tables", judged(2200, 2000, debug=10**4))
    yield Outcome(GATE, "code that grew by a byte more than the task allows", judged(2201, 2000))
    yield Outcome(GATE, "code a byte larger than the task allows", judged(4097, 4000))
    yield Outcome(GATE, "a baseline without code", judged(2000, 0))
