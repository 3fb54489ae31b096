"""The ptxas gate's step in a run: ptxas's log and the launches of candidate and baseline, for each architecture."""

from __future__ import annotations

from gates.core.records import GateResult
from gates.gate.ptxas import evidence
from gates.gate.ptxas.launches import launches_of
from gates.gate.session import Session


def collect(session: Session) -> GateResult | None:
    """Write ptxas.json of candidate and baseline; the verdict where the candidate was not compiled."""
    for task, folder in session.tasks():
        failed = session.without_code("ptxas", task)
        if failed is not None and task is session.task:
            return failed
        if failed is not None:
            continue  # a broken baseline leaves the candidate's own limits to judge
        texts = session.texts(task)
        launches, note = launches_of(session, task)
        found = evidence.gather(
            texts.logs, launches, task.kernels, texts.resource_usage,
            demangled=texts.demangled, relocatable=session.builds[task.name].relocatable, launches_note=note,
        )
        session.write_evidence(f"{folder}ptxas.json", found, task)
    return None
