"""Faults that the ncu gate must refuse, and sound evidence that it must pass, for `gates selftest`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gates.core.records import GateResult
from gates.gate.ncu import judge
from gates.gate.ncu.evidence import parse
from gates.gate.plant import KERNEL, SOUND, Outcome
from gates.hardware import ncu_metrics

GATE = "ncu"
_LIMITS = {"rises": ["tensor_pipe"], "steady": {"dram_bytes_pct": 10}}


def _profile(values: Mapping[str, str] | None, log: str = "", report: str | None = "stored") -> dict[str, Any]:
    """One side as the profiler left it; ``values``: metric -> text, everything else 1. None: an empty table."""
    sources = ncu_metrics.sources("sm_90", (2025, 3))
    header, units = ["ID", "Kernel Name", *sources.values()], ["", "", *(ncu_metrics.METRICS[name].unit for name in sources)]
    rows = [] if values is None else [["0", KERNEL, *(values.get(name, "5000" if name == "duration_ns" else "1") for name in sources)]]
    text = "\n".join(",".join(f'"{cell}"' for cell in row) for row in (header, units, *rows)) + "\n"
    proof = '{"nonce": "n", "type": "case", "launches": 1, "error": ""}'
    return {
        "name": "selftest",
        "kernels": [KERNEL],
        "sources": sources,
        "unknown": [],
        "report": report,
        "csv": text if report else None,
        "log": log,
        "job": {"nonce": "n", "lines": [proof], "returncode": 0, "timed_out": False, "cause": "exit 0"},
    }


def _judged_counters(candidate: dict[str, Any]) -> GateResult:
    raw = {
        "task": "selftest",
        "baseline": "selftest",
        "shape": "small",
        "chip": "sm_90",
        "version": "2025.3",
        "code": "",
        "message": "",
        "sides": {"candidate": candidate, "baseline": _profile({"tensor_pipe": "9"})},
    }
    return judge.judge(parse(raw), _LIMITS)


def planted() -> Iterator[Outcome]:
    """Plant after plant, each through the gate's own parser and judge."""
    yield Outcome(GATE, SOUND, _judged_counters(_profile({"tensor_pipe": "21"})))
    yield Outcome(GATE, "empty counter report", _judged_counters(_profile(None)))
    yield Outcome(GATE, "a counter that is NaN", _judged_counters(_profile({"tensor_pipe": "nan"})))
    denied = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters"
    yield Outcome(GATE, "no permission to read counters", _judged_counters(_profile(None, denied, report=None)))
    yield Outcome(GATE, "a throughput of 108.9 %", _judged_counters(_profile({"tensor_pipe": "21", "sm_throughput": "108.9"})))
    yield Outcome(GATE, "a counter that should rise and falls", _judged_counters(_profile({"tensor_pipe": "8"})))
