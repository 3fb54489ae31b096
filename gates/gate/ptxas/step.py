"""The ptxas gate's step in a run: ptxas's log and the launches of candidate and baseline, for each architecture."""

from __future__ import annotations

from gates.core.records import GateResult
from gates.gate.ptxas import evidence
from gates.gate.ptxas.launches import launches_of
from gates.gate.session import Session


def collect(session: Session) -> GateResult | None:
    """Write ptxas.json of candidate and baseline; the verdict where the candidate was not compiled."""
    if (failed := session.without_code("ptxas", session.task)) is not None:
        return failed
    for task, folder in session.compiled("ptxas"):
        texts = session.texts(task)
        launches, note = launches_of(session, task)
        found = evidence.gather(
            texts.logs,
            launches,
            task.kernels,
            texts.resource_usage,
            demangled=texts.demangled,
            relocatable=session.builds[task.name].relocatable,
            launches_note=note,
        )
        session.write_evidence(f"{folder}ptxas.json", found, task)
    return None
