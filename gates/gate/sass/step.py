"""The sass gate's step in a run: the disassembly of candidate and baseline, for each architecture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gates.core.records import GateResult
from gates.gate.sass import evidence
from gates.gate.session import Session


def ahead(session: Session) -> Callable[[], None]:
    """The disassembly, which is kept: the launches that the ptxas gate waits for leave cores free, even of two."""
    return lambda: _disassemble(session)


def _disassemble(session: Session) -> None:
    for task, _ in session.compiled("sass"):
        _ = session.texts(task).sass


def collect(session: Session) -> GateResult | None:
    """Write sass.json of candidate and baseline; the verdict where the candidate was not compiled."""
    if (failed := session.without_code("sass", session.task)) is not None:
        return failed
    session.begun("sass", lambda: _disassemble(session))
    for task, folder in session.compiled("sass"):
        texts = session.texts(task)
        found = evidence.gather(
            texts.sass,
            task.kernels,
            demangled=texts.demangled,
            missing_reason="; ".join(texts.reasons),
            data=texts.data,
            host=texts.host,
        )
        if not session.to_compare:
            found = replace(found, functions=tuple(replace(function, code=()) for function in found.functions))
        session.write_evidence(f"{folder}sass.json", found, task)
    return None
