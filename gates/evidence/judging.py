"""From stored evidence to verdicts: which file and which judge belong to which gate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gates.core.records import Decision, GateResult, Status
from gates.evidence.run_directory import RunInfo, TaskInfo, read_record
from gates.gate.decision import decide
from gates.gate.policy import Terms, looser
from gates.gate.reasons import DEBUG_BUILD, NOT_APPLICABLE, not_run
from gates.gate.registry import GATES, ROWS


def load_evidence(folder: Path) -> dict[str, Any]:
    """Gate -> its evidence record, for each gate that left a file in ``folder``."""
    found = {}
    for gate in GATES:
        if (folder / f"{gate}.json").is_file():
            found[gate] = read_record(ROWS[gate].evidence(), folder, f"{gate}.json")
    return found


def is_left_out(gate: str, kernels: Sequence[str]) -> bool:
    """Whether a gate that is declared inapplicable is not tried at all; without names of kernels no counters can be read."""
    return not ROWS[gate].measured_anyway or (ROWS[gate].of_kernels and not kernels)


def untried(info: RunInfo, gate: str) -> GateResult | None:
    """The verdict of a gate that such a run does not try at all: it is declared inapplicable, or the build is one for debugging."""
    reason = info.task.not_applicable.get(gate)
    if reason and is_left_out(gate, info.task.kernels):
        return GateResult(gate, Status.NOT_APPLICABLE, NOT_APPLICABLE.of(gate), reason)
    if info.debug_build and ROWS[gate].of_optimised_code:
        name = info.task.name if info.task.debug_build else f"the baseline {info.baseline.name}" if info.baseline else ""
        return not_run(gate, DEBUG_BUILD, f"{name} is a debug build (nvcc -G)")
    return None


def rejudge(run: Path, info: RunInfo, gate: str) -> GateResult | None:
    """The verdict of ``gate`` from the run's stored evidence and limits; None where it left none."""
    reason = info.task.not_applicable.get(gate)
    if (verdict := untried(info, gate)) is not None:
        return verdict
    if not (run / f"{gate}.json").is_file():
        return None
    evidence = read_record(ROWS[gate].evidence(), run, f"{gate}.json")
    baseline_file = run / "baseline" / f"{gate}.json"
    baseline = read_record(ROWS[gate].evidence(), run / "baseline", f"{gate}.json") if baseline_file.is_file() else None
    options: dict[str, Any] = {"not_applicable_reason": reason or ""} if ROWS[gate].measured_anyway else {}
    options |= ROWS[gate].context_of(run, info, evidence)
    return ROWS[gate].judging()(evidence, info.task.limits.get(gate, {}), baseline, **options)


def looser_terms(task: TaskInfo, baseline: TaskInfo | None) -> tuple[str, ...]:
    """Each term by which ``task`` was judged more loosely than ``baseline`` would be."""
    return looser(_terms(task), _terms(baseline)) if baseline else ()


def decision_of(info: RunInfo, results: Sequence[GateResult], *, accepted: bool = False) -> tuple[Decision, str]:
    """The decision over a run's gates; ``accepted``: a reviewer accepted its looser terms."""
    return decide(
        results, info.task.overrides, () if accepted else looser_terms(info.task, info.baseline), debug=info.debug_build, gates=info.gates
    )


def _terms(task: TaskInfo) -> Terms:
    shapes = task.declared_shapes or task.judged_shapes or tuple(task.shapes)  # the first runs do not say what was declared
    return Terms(
        task.limits,
        task.not_applicable,
        shapes,
        task.declared_seeds or task.seeds,
        task.arch,
        task.problem,
        task.problem_sha256,
        task.shapes,
    )
