"""What an evaluation answers, from the gates' word and the evidence alone, so that it can be checked later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gates.core import jsonio
from gates.core.records import GateResult, Status
from gates.evaluation.feedback import feedback
from gates.evaluation.record import FAIL, INCONCLUSIVE, PASS, GateSeen
from gates.evidence.run_directory import read_record
from gates.gate.performance import judge as performance
from gates.gate.performance.evidence import PerformanceEvidence
from gates.gate.performance.thresholds import one_shape
from gates.gate.ptxas.evidence import PtxasEvidence
from gates.gate.sass.evidence import SassEvidence
from gates.render.findings import findings
from gates.review.insights.facts import Facts
from gates.review.insights.measured import facts_of
from gates.review.insights.rules import steps_of
from gates.sweep.record import Timing

_GOOD = (Status.PASS.value, Status.NOT_APPLICABLE.value)


def timed_status(timing: Timing, evidence: PerformanceEvidence, limits: Mapping[str, Any]) -> Status:
    """PASS if there is an interval, however slow the candidate is; FAIL if the performance gate refuses the timing itself."""
    if timing.low is not None:
        return Status.PASS
    refused = timing.ratio is None and performance.judge(evidence, one_shape(limits)).status is Status.FAIL
    return Status.FAIL if refused else Status.INCONCLUSIVE


def answer(folder: Path, seen: Sequence[GateSeen], results: Sequence[GateResult], timing: Timing | None) -> dict[str, Any]:
    """The fields of an evaluation that follow from the gates' word and the evidence in ``folder``."""
    worst = next((one for one in seen if one.status not in _GOOD), seen[-1])
    failed = any(one.status == Status.FAIL.value for one in seen)
    first = next(iter(findings([one for one in results if one.status is Status.FAIL])), None)  # causes come before what follows from them
    valid = not failed and any((one.gate, one.status) == ("correctness", Status.PASS.value) for one in seen)
    facts, _ = facts_of(folder)
    metrics, speed = dict(_metrics(folder, facts)), ""
    if timing is not None and timing.ratio:
        speed = f"{timing.ratio:.3f} of the incumbent's speed" + (f", {timing.low:.3f} to {timing.high:.3f}" if timing.low else "")
    return {
        "status": FAIL if failed else PASS if worst.status in _GOOD else INCONCLUSIVE,
        "code": first.code if first is not None and worst.status == Status.FAIL.value else worst.code,
        "valid": valid,
        "score": timing.low if timing is not None and valid else None,
        "score_high": timing.high if timing is not None and valid else None,
        "p50_us": timing.p50_us if timing is not None else None,
        "metrics": metrics,
        "feedback": feedback(results, metrics, speed, steps_of(facts), worst_archs(folder)),
    }


def worst_archs(folder: Path) -> dict[str, str]:
    """Name of a resource -> the architectures on which it is as bad as the metrics say."""
    return {name: archs for name, _, archs in _resources(folder)}


def _resources(folder: Path) -> Iterator[tuple[str, float, str]]:
    """(name, the worst kernel's figure, the architectures with it) of each resource that the compiler told."""
    if not (folder / "ptxas.json").is_file():
        return
    kernels = read_record(PtxasEvidence, folder, "ptxas.json").kernels
    spills = [(one.spill_store_bytes or 0) + (one.spill_load_bytes or 0) for one in kernels]
    for name, values, choose in (
        ("registers", [one.final.registers for one in kernels], max),
        ("smem_bytes", [one.smem_bytes for one in kernels], max),
        ("spill_bytes", spills, max),
        ("occupancy_pct", [one.occupancy_pct for one in kernels], min),
    ):
        known = [(float(value), kernel.arch) for value, kernel in zip(values, kernels, strict=True) if value is not None]
        if known:
            worst, _ = choose(known)
            yield name, worst, ", ".join(dict.fromkeys(arch for value, arch in known if value == worst))


def _metrics(folder: Path, facts: Facts) -> Iterator[tuple[str, float]]:
    """Flat figures of the evidence: the worst kernel's resources, instructions of all kernels, the largest error over its bound, the share
    of the hardware's limit.
    """
    for name, worst, _ in _resources(folder):
        yield name, worst
    if (folder / "sass.json").is_file():
        functions = read_record(SassEvidence, folder, "sass.json").functions
        for name in dict.fromkeys(name for one in functions for name in one.classes):
            yield f"sass.{name}", float(sum(one.classes.get(name, 0) for one in functions))
    if (folder / "correctness.json").is_file():
        cases = jsonio.read(folder / "correctness.json")["cases"]
        ratios = [
            output["max_err_over_bound"] for case in cases for output in case["outputs"] if output.get("max_err_over_bound") is not None
        ]
        if ratios:
            yield "max_err_over_bound", float(max(ratios))
    if over_limit := facts.number("over_floor"):
        yield "limit_share_pct", 100.0 / over_limit
