"""Faults that the ptxas gate must refuse, and sound evidence that it must pass, for `gates selftest`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gates.core.records import GateResult
from gates.gate.plant import KERNEL, SOUND, Outcome
from gates.gate.ptxas import judge
from gates.gate.ptxas.evidence import gather

GATE = "ptxas"
_LAUNCH = {"kernel": KERNEL, "block": [128, 1, 1], "dynamic_smem_bytes": 0, "static_smem_bytes": 0, "opt_in_smem_bytes": 0}
_LIMITS = {"max_registers": 64, "max_smem_bytes": 1024, "max_spill_bytes": 0}


def judged(log: str, arch: str = "sm_89") -> GateResult:
    """The verdict on the log of a compiler."""
    return judge.judge(gather({arch: log}, [_LAUNCH], [KERNEL], {}), _LIMITS)


def _text(name: str) -> str:
    return (Path(__file__).parent / "planted_data" / name).read_text(encoding="utf-8")


def planted() -> Iterator[Outcome]:
    """Plant after plant, each through the gate's own parser and judge."""
    yield Outcome(GATE, SOUND, judged(_text("ptxas.log")))
    yield Outcome(GATE, "log without the kernel", judged(_text("ptxas.log").splitlines()[0] + "\n"))
    yield Outcome(GATE, "log cut short", judged("".join(_text("ptxas.log").splitlines(keepends=True)[:3])))
    yield Outcome(GATE, "spilled registers", judged(_text("ptxas_spills.log")))
