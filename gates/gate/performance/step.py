"""The performance gate's step in a run: candidate and baseline timed on the device, interleaved."""

from __future__ import annotations

from dataclasses import replace

from gates.core.records import GateResult
from gates.gate.performance import evidence
from gates.gate.performance.calibrated import read_peaks
from gates.gate.performance.collect import run_timing
from gates.gate.performance.thresholds import thresholds
from gates.gate.reasons import NOTHING_CHECKED, not_run
from gates.gate.session import NO_LIMIT, Session
from gates.stats.sampling import BUDGET_S


def collect(session: Session) -> GateResult | None:
    """Write performance.json; the verdict where nothing could be timed."""
    if (missing := session.without_device("performance")) is not None:
        return missing
    if not session.task.gates["performance"]:
        return not_run("performance", NOTHING_CHECKED, NO_LIMIT.format(gate="performance"))
    if (missing := session.missing("performance", "device") or session.after_correctness("performance")) is not None:
        return missing
    task, limits = session.task, session.task.gates["performance"]
    base, asked = session.measured_baseline(), thresholds(limits)
    sides = session.side(task, "device"), session.side(base, "device") if base else None
    found: list[evidence.PerformanceEvidence] = []
    for number, (shape, pct) in enumerate(asked.shapes.items()):
        left_s = BUDGET_S - sum(one.elapsed_s or 0.0 for one in found)  # what a quick shape leaves is for the slow ones
        session.progress.step(f"{task.name}: timing {shape} against {base.name if base else 'nothing'}, interleaved", task.time_limit_s)
        raw = run_timing(
            sides[0],
            shape=shape,
            work=session.scratch / "timing" / shape,
            limit_s=task.time_limit_s,
            bar_pct=pct or 0.0,
            baseline=sides[1],
            output_limits=task.gates["correctness"],
            device=session.cuda,
            cache=limits.get("cache", "cold"),
            budget_s=left_s / (len(asked.shapes) - number),
            confidence=asked.confidence,
            least_pairs=asked.least_pairs,
        )
        measured = evidence.parse(raw)
        found.append(replace(measured, peaks=read_peaks(session.directory.path.parents[1], measured.device)))
        if found[-1].status == evidence.NOT_RUN:
            break
    session.write_evidence("performance.json", replace(found[0], further=tuple(found[1:])), task)
    return None
