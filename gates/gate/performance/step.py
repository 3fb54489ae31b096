"""The performance gate's step in a run: candidate and baseline timed on the device, interleaved."""

from __future__ import annotations

from dataclasses import replace

from gates.core.records import GateResult
from gates.gate.performance import evidence
from gates.gate.performance.calibrated import read_peaks
from gates.gate.performance.collect import run_timings
from gates.gate.performance.thresholds import thresholds
from gates.gate.reasons import NOTHING_CHECKED, not_run
from gates.gate.session import NO_LIMIT, Session


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
    against, timed = base.name if base else "nothing", ", ".join(asked.shapes)
    session.progress.step(f"{task.name}: timing {timed} against {against}, interleaved", task.time_limit_s)
    raws = run_timings(
        sides[0],
        shapes={shape: pct or 0.0 for shape, pct in asked.shapes.items()},
        work=session.scratch / "timing",
        limit_s=task.time_limit_s,
        baseline=sides[1],
        output_limits=task.gates["correctness"],
        device=session.cuda,
        cache=limits.get("cache", "cold"),
        confidence=asked.confidence,
        least_pairs=asked.least_pairs,
    )
    found = [evidence.parse(raw) for raw in raws]
    found = [replace(one, peaks=read_peaks(session.directory.path.parents[1], one.device)) for one in found]
    session.write_evidence("performance.json", replace(found[0], further=tuple(found[1:])), task)
    return None
