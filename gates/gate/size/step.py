"""The size gate's step in a run: the cubins of candidate and baseline, for each architecture."""

from __future__ import annotations

import os
from pathlib import Path

from gates.build.result import BuildResult
from gates.core.records import GateResult
from gates.gate.session import Session
from gates.gate.size.evidence import SizeEvidence, gather
from gates.task.sources.identity import product_name


def collect(session: Session) -> GateResult | None:
    """Write size.json of candidate and baseline; the verdict where the candidate was not compiled."""
    if (failed := session.without_code("size", session.task)) is not None:
        return failed
    for task, folder in session.compiled("size"):
        session.write_evidence(f"{folder}size.json", measured(session.builds[task.name]), task)
    return None


def measured(built: BuildResult) -> SizeEvidence:
    """The sizes of what was built."""
    cubins = {
        arch: [
            (product_name(os.path.relpath(one.path, built.folder)), Path(one.path), one.sha256) for one in built.cubins(arch) if one.path
        ]
        for arch in built.archs
    }
    return gather(built.archs, cubins)
