"""Define the files of a run directory. Any other file is not evidence, even if the manifest lists it."""

from __future__ import annotations

from gates.gate.registry import GATES

_OF_A_STAGE = ("build.json", "build.log", *(f"{gate}.json" for gate in GATES), "profile.ncu-rep")
FILES = frozenset(
    (
        "run.json",
        "verdict.json",
        "manifest.json",
        "COMPARE.md",
        *_OF_A_STAGE,
        *(f"baseline/{name}" for name in _OF_A_STAGE),
    )
)


def strangers(names: set[str]) -> list[str]:
    """Return one sentence for each of ``names`` that does not belong to a run directory."""
    return [f"{name} is not a file of a run" for name in sorted(names - FILES)]
