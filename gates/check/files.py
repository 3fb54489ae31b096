"""Which files make a run directory. The list is closed: a file that is not in it is no evidence, whatever the manifest says."""

from __future__ import annotations

from gates.task import GATES

_OF_A_STAGE = ("build.json", "build.log", *(f"{gate}.json" for gate in GATES), "profile.ncu-rep")
FILES = frozenset((
    "run.json", "verdict.json", "manifest.json", "COMPARE.md", *_OF_A_STAGE, *(f"baseline/{name}" for name in _OF_A_STAGE),
))

def strangers(names: set[str]) -> list[str]:
    """Those of ``names``, a run's files, that are not files of a run, one sentence each."""
    return [f"{name} is not a file of a run" for name in sorted(names - FILES)]
