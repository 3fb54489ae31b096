"""Faults that the sass gate must refuse, and sound evidence that it must pass, for `gates selftest`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gates.core.records import GateResult
from gates.gate.plant import KERNEL, SOUND, Outcome
from gates.gate.sass import judge
from gates.gate.sass.evidence import gather

GATE = "sass"


def judged(text: str | None, required: str, arch: str = "sm_89") -> GateResult:
    """The verdict on a disassembly of which a class of instructions is required; local memory is forbidden."""
    return judge.judge(gather({arch: text}, [KERNEL]), {"require": {required: 1}, "forbid": ["local_memory"]})


def _text(name: str) -> str:
    return (Path(__file__).parent / "planted_data" / name).read_text(encoding="utf-8")


def planted() -> Iterator[Outcome]:
    """Plant after plant, each through the gate's own parser and judge."""
    yield Outcome(GATE, SOUND, judged(_text("tensor.sass"), "tensor"))
    yield Outcome(GATE, "scalar code where tensor cores are required", judged(_text("scalar.sass"), "tensor"))
    yield Outcome(GATE, "no disassembly", judged(None, "tensor"))
