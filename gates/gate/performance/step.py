"""The performance gate's step in a run: candidate and baseline timed on the device, interleaved."""

from __future__ import annotations

from gates.core.records import GateResult
from gates.gate.performance import evidence
from gates.gate.performance.collect import run_timing
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
    base = session.measured_baseline()
    session.progress.step(f"{task.name}: timing against {base.name if base else 'nothing'}, interleaved", task.time_limit_s)
    raw = run_timing(
        session.side(task, "device"),
        shape=limits["shape"],
        work=session.scratch / "timing",
        limit_s=task.time_limit_s,
        bar_pct=limits["min_speedup_pct"],
        baseline=session.side(base, "device") if base else None,
        output_limits=task.gates["correctness"],
        device=session.cuda,
        cache=limits.get("cache", "cold"),
        also=limits.get("also", ()),
    )
    session.write_evidence("performance.json", evidence.parse(raw), task)
    return None
