"""Faults that the sanitizer gate must refuse, and sound evidence that it must pass, for `gates selftest`."""

from __future__ import annotations

from collections.abc import Iterator

from gates.core.records import GateResult
from gates.gate.plant import SOUND, Outcome
from gates.gate.sanitizer import judge
from gates.gate.sanitizer.evidence import parse

GATE = "sanitizer"
_RULES = {"clean": "ERROR SUMMARY: 0 errors", "racecheck": "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"}
_INVALID_WRITE = """========= Invalid __global__ write of size 4 bytes
=========     at selftest_kernel(const float *, const float *, float *, long, float)+0x160 in selftest.cu:34
=========     by thread (0,0,0) in block (3,0,0)
========= ERROR SUMMARY: 1 error
"""


def _judged_reports(memcheck: str, returncode: int = 0) -> GateResult:
    """compute-sanitizer's four tools, with ``memcheck`` for what the first one wrote."""
    proof = [
        '{"nonce": "n", "type": "case", "launches": 2, "error": "", "findings": []}',
        '{"nonce": "n", "type": "done"}',
    ]
    runs = []
    for tool in judge.DEVICE_TOOLS:
        log = memcheck if tool == "memcheck" else f"========= {_RULES.get(tool, _RULES['clean'])}\n"
        job = {
            "nonce": "n",
            "lines": proof,
            "returncode": returncode if tool == "memcheck" else 0,
            "timed_out": False,
            "cause": f"exit {returncode}",
            "output_tail": "",
        }
        runs.append(
            {
                "tool": tool,
                "shapes": ["small"],
                "order": "",
                "expected_launches": 2,
                "job": job,
                "log": f"========= COMPUTE-SANITIZER\n{log}",
            }
        )
    raw = {"mode": "device", "target": "selftest", "tool_version": "", "neutralised": [], "unavailable": "", "remedy": "", "runs": runs}
    return judge.judge(parse(raw))


def planted() -> Iterator[Outcome]:
    """Plant after plant, each through the gate's own parser and judge."""
    yield Outcome(GATE, SOUND, _judged_reports(f"========= {_RULES['clean']}\n"))
    yield Outcome(GATE, "log without a summary", _judged_reports(""))
    yield Outcome(GATE, "an invalid write", _judged_reports(_INVALID_WRITE, returncode=1))
