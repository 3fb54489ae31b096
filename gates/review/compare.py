"""Two run directories side by side: what differs between them, and what may be said all the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gates.comparison.machine_code import machine_code
from gates.comparison.record import SCHEMA_VERSION, Comparison
from gates.comparison.sections import sections
from gates.comparison.within import override_notes, policy_notes, side, slower_notes, speed_of, speeds_of, weak_notes
from gates.core.errors import GatesError
from gates.core.records import Decision, GateResult, Status
from gates.evidence.judging import load_evidence, looser_terms
from gates.evidence.packed_runs import origin
from gates.evidence.run_directory import RunInfo, TaskInfo, Verdict, read_record
from gates.gate.registry import ROWS
from gates.verify.run import require_sound


def compare_runs(first: Path, second: Path, *, force: bool = False) -> Comparison:
    """Run ``second`` (the candidate) against run ``first``.

    Raises GatesError for a run that is not sound, and for runs of different problems or on other inputs unless ``force``. Different
    shapes, seeds or devices are named, and hold. Speed is judged only where the second run measured the first one's stage
    interleaved with its own; figures of two runs are shown side by side and decide nothing.
    """
    for run in dict.fromkeys((first, second)):
        require_sound(run)
    infos = [read_record(RunInfo, run, "run.json") for run in (first, second)]
    verdict: Verdict = read_record(Verdict, second, "verdict.json")
    before, after = load_evidence(first), load_evidence(second)
    strange = list(_strange(infos[0], infos[1], before.get("correctness"), after.get("correctness")))
    if strange and not force:
        raise GatesError(
            f"{origin(first)} and {origin(second)} can't be compared: {'; '.join(strange)}",
            hint="--force compares them anyway; the decision is then hold",
        )
    differences = [*strange, *_differences(*infos)]
    is_baseline = infos[1].baseline is not None and infos[1].baseline.digest == infos[0].task.digest
    decision, reason = verdict.decision, verdict.reason
    looser = looser_terms(infos[1].task, infos[0].task)
    speeds = speeds_of(after, infos[1].task.limits.get("performance", {})) if is_baseline else ()
    notes = [*slower_notes(speeds), *policy_notes(looser), *(f"different: {text}" for text in differences), *_environment_notes(*infos)]
    notes += [f"{name}: {text}" for name, info in zip(("baseline", "candidate"), infos, strict=True) for text in override_notes(info)]
    notes += weak_notes(verdict)
    if more := sorted(infos[1].task.shapes.keys() - infos[0].task.shapes.keys()):
        notes.append(f"the candidate's run alone has the shape{'s' * (len(more) > 1)} {', '.join(more)}")
    base_verdict: Verdict = read_record(Verdict, first, "verdict.json")
    if base_verdict.decision is Decision.REJECT:
        notes.append(f"the baseline's own run was rejected: {base_verdict.reason}")
    if not is_baseline:
        notes.append("the candidate's run did not measure this baseline: times are of two runs, not interleaved, and decide nothing")
    if decision is Decision.MERGE and not is_baseline:
        decision, reason = Decision.HOLD, f"the candidate's run did not judge it against {infos[0].task.name} as recorded here"
    elif decision is Decision.MERGE and differences:
        decision, reason = Decision.HOLD, f"the runs differ: {'; '.join(differences)}"
    elif decision is Decision.MERGE and looser:
        decision, reason = Decision.HOLD, f"judged by looser terms than {infos[0].task.name}: {'; '.join(looser)}"
    gates = verdict.gates if is_baseline else tuple(_against(result, infos[1].baseline) for result in verdict.gates)
    return Comparison(
        SCHEMA_VERSION,
        side(infos[0].task, first, infos[0]),
        side(infos[1].task, second, infos[1]),
        decision,
        reason,
        gates,
        speed_of(after) if is_baseline else None,
        tuple(notes),
        tuple(sections(before, after, after if is_baseline else None)),
        speeds,
        machine_code(before, after, after if is_baseline else None),
    )


def _against(result: GateResult, baseline: TaskInfo | None) -> GateResult:
    """A verdict that rests on another baseline than the one shown beside it, marked so."""
    if baseline is None or not ROWS[result.gate].measured_anyway or result.status not in (Status.PASS, Status.FAIL, Status.INCONCLUSIVE):
        return result
    return replace(result, sentence=f"{result.sentence} (that is against {baseline.name})")


def _strange(first: RunInfo, second: RunInfo, before: Any, after: Any) -> Iterator[str]:
    """Why the figures of two runs are of different things; ``before`` and ``after`` are their correctness evidence, or None."""
    if first.task.problem != second.task.problem:
        yield f"problem {first.task.problem} and {second.task.problem}"
    elif first.task.problem_sha256 != second.task.problem_sha256:
        yield f"problem {first.task.problem} was changed between the runs"
    ours, theirs = ({case.key: case for case in side.cases if case.inputs_sha256} if side else {} for side in (after, before))
    others = [ours[key].where for key in ours.keys() & theirs.keys() if ours[key].inputs_sha256 != theirs[key].inputs_sha256]
    if others and first.task.shapes == second.task.shapes:
        yield f"other inputs from the same seed, in {len(others)} cases: {min(others)}"


def _differences(first: RunInfo, second: RunInfo) -> Iterator[str]:
    for name, one in sorted(first.task.shapes.items()):  # a shape of the candidate alone only adds to what was judged
        two = second.task.shapes.get(name)
        if one != two:
            yield f"shape {name} is {_sizes(one)} and {_sizes(two)}"
    if first.task.seeds != second.task.seeds:
        yield f"seeds {list(first.task.seeds)} and {list(second.task.seeds)}"
    names = [info.device.name if info.device else "no CUDA device" for info in (first, second)]
    if names[0] != names[1]:
        yield f"device {names[0]} and {names[1]}"


def _sizes(shape: Mapping[str, int] | None) -> str:
    """The sizes of a shape; "missing" if there is none."""
    return ", ".join(f"{dimension} {size}" for dimension, size in shape.items()) if shape else "missing"


def _environment_notes(first: RunInfo, second: RunInfo) -> Iterator[str]:
    one_card, other_card = first.device, second.device
    if one_card and other_card and one_card.name == other_card.name and one_card.uuid != other_card.uuid:
        yield f"another card of the kind: {one_card.uuid} and {other_card.uuid}"
    for tool in sorted({*first.toolchain, *second.toolchain}):
        one, two = first.toolchain.get(tool), second.toolchain.get(tool)
        if one != two:
            yield f"{tool} {one or 'missing'} and {two or 'missing'}"
    drivers = [info.device.driver if info.device else None for info in (first, second)]
    if drivers[0] != drivers[1]:
        yield f"driver {drivers[0]} and {drivers[1]}"
