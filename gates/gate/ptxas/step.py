"""The ptxas gate's step in a run: ptxas's log and the launches of candidate and baseline, for each architecture."""

from __future__ import annotations

from gates.core.records import GateResult
from gates.gate.ptxas import evidence
from gates.gate.ptxas.launches import launches_of
from gates.gate.session import Session
from gates.worker.process import ToolThreads


def collect(session: Session) -> GateResult | None:
    """Write ptxas.json of candidate and baseline; the verdict where the candidate was not compiled."""
    if (failed := session.without_code("ptxas", session.task)) is not None:
        return failed
    tasks = session.compiled("ptxas")
    with ToolThreads(len(tasks)) as together:  # each waits for a process of its own
        seen = list(together.map(lambda pair: launches_of(session, pair[0]), tasks))
    for (task, folder), (launches, note) in zip(tasks, seen, strict=True):
        texts = session.texts(task)
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
