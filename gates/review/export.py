"""A finished run in the formats in which public suites keep results: one object or text per format, made of the run's evidence alone.

The decision and its reasons go along where a format has room for text; what a run did not measure is absent, never 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gates.core.errors import GatesError
from gates.core.records import GateResult, Status
from gates.evidence.judging import load_evidence
from gates.evidence.run_directory import RunInfo, Verdict, read_record
from gates.gate.performance.evidence import summaries
from gates.stats.samples import BASELINE, CANDIDATE
from gates.verify.run import require_sound

_NS_PER_US, _US_PER_MS = 1000.0, 1000.0


@dataclass(frozen=True)
class _Run:
    """What the formats ask of a run. Times are of the mode that was judged, in us; None if nothing was timed."""

    info: RunInfo
    verdict: Verdict
    gates: Mapping[str, GateResult]
    evidence: Mapping[str, Any]
    ours: Any
    theirs: Any

    @property
    def compiled(self) -> bool:
        return not any(str(result.code).endswith(".build_failed") for result in self.gates.values())

    @property
    def correct(self) -> bool:
        return self.gates["correctness"].status is Status.PASS

    @property
    def device(self) -> str:
        return self.info.device.name if self.info.device else "CPU"

    @property
    def reasons(self) -> dict[str, str]:
        """The sentence of each gate."""
        return {name: f"{result.status.value}: {result.sentence}" for name, result in self.gates.items()}

    def errors(self, figure: str) -> float | None:
        """The largest of a figure over the task's own shapes and seeds."""
        cases = [case for case in self.evidence["correctness"].cases if case.role == "headline"] if "correctness" in self.evidence else ()
        found = [getattr(output, figure) for case in cases for output in case.outputs]
        return max((value for value in found if value is not None), default=None)


def kernelbench(run: _Run) -> str:
    """An entry of KernelBench's eval_results.json; times in ms."""
    result: dict[str, Any] = {
        "sample_id": 0,
        "compiled": run.compiled,
        "correctness": run.correct,
        "metadata": {"hardware": run.device, "decision": run.verdict.decision.value, "reason": run.verdict.reason, **run.reasons},
    }
    for name, figures in (("runtime", run.ours), ("ref_runtime", run.theirs)):
        result[name] = figures.p50_us / _US_PER_MS if figures else -1.0  # the format's own value for what was not timed
    return _json({run.info.task.name: [result]})


def flashinfer_bench(run: _Run) -> str:
    """A trace of flashinfer-bench, one line of JSON; times in ms. Raises GatesError if a right solution was not timed."""
    failed = (
        "COMPILE_ERROR" if not run.compiled else _FLASHINFER.get(str(run.gates["correctness"].code).rpartition(".")[2], "RUNTIME_ERROR")
    )
    status = "PASSED" if run.correct else failed
    if run.correct and not (run.ours and run.theirs):
        raise GatesError("a trace of a right solution has times, and this run has none", hint="export a run on a CUDA device")
    evaluation: dict[str, Any] = {
        "status": status,
        "environment": {"hardware": run.device, "libs": {name: version for name, version in run.info.toolchain.items() if version}},
        "timestamp": run.info.started,
        "log": f"{run.verdict.decision.value}: {run.verdict.reason}",
    }
    if (largest := run.errors("max_abs_err")) is not None:
        reference = run.errors("reference_max_abs") or 0.0
        evaluation["correctness"] = {
            "max_absolute_error": largest,
            "max_relative_error": largest / reference if reference else 0.0,
        }
    if run.ours and run.theirs:
        evaluation["performance"] = {
            "latency_ms": run.ours.p50_us / _US_PER_MS,
            "reference_latency_ms": run.theirs.p50_us / _US_PER_MS,
            "speedup_factor": run.theirs.p50_us / run.ours.p50_us,
        }
    trace = {"definition": run.info.task.problem.partition(".")[0], "solution": run.info.task.name, "evaluation": evaluation}
    return json.dumps(trace, allow_nan=False) + "\n"


def kernelbot(run: _Run) -> str:
    """The lines that kernelbot reads from a submission's run; times in ns."""
    lines = [f"check: {'pass' if run.correct else 'fail'}"]
    if not run.correct:
        lines.append(f"error: {' '.join(run.gates['correctness'].sentence.split())}")
    if run.ours:
        shape = run.evidence["performance"].shape
        sizes = "; ".join(f"{name}: {size}" for name, size in run.info.task.shapes.get(shape, {}).items())
        lines += ["benchmark-count: 1", f"benchmark.0.spec: {sizes or shape}"]
        figures = (("runs", run.ours.samples, 1.0), ("mean", run.ours.mean_us, _NS_PER_US), ("std", run.ours.std_us, _NS_PER_US))
        lines += [f"benchmark.0.{name}: {value * unit:.10g}" for name, value, unit in figures if value is not None]
    return "\n".join(lines) + "\n"


FORMATS: dict[str, Callable[[_Run], str]] = {"kernelbench": kernelbench, "flashinfer-bench": flashinfer_bench, "kernelbot": kernelbot}
_FLASHINFER = {  # reasons of the correctness gate
    "bad_output": "INCORRECT_SHAPE",
    "timeout": "TIMEOUT",
    **dict.fromkeys(
        ("max_abs_err", "mean_abs_err", "bad_pct", "max_err_over_bound", "non_finite", "unwritten"),
        "INCORRECT_NUMERICAL",
    ),
}


def export(run: Path, format: str) -> str:
    """Return the run in ``format``, one of FORMATS. Raises GatesError if the run is not sound."""
    require_sound(run)
    info, verdict, evidence = read_record(RunInfo, run, "run.json"), read_record(Verdict, run, "verdict.json"), load_evidence(run)
    timed = evidence.get("performance")
    found = summaries(timed).get(str(info.task.limits.get("performance", {}).get("cache", "cold")), {}) if timed else {}
    gates = {result.gate: result for result in verdict.gates}
    return FORMATS[format](_Run(info, verdict, gates, evidence, found.get(CANDIDATE), found.get(BASELINE)))


def _json(data: Any) -> str:
    return json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
