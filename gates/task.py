"""A task: one kernel stage, as its task.yaml describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GATES = ("ptxas", "sass", "correctness", "sanitizer", "performance", "ncu")


@dataclass(frozen=True)
class Task:
    """One kernel stage. Paths are absolute; ``toggles`` hold the values in force, overrides included."""

    name: str
    title: str
    folder: Path
    problem: str
    sources: tuple[Path, ...]
    entry: str  # the extern "C" launcher
    kernels: tuple[str, ...]  # base names of the __global__ functions that the stage consists of
    toggles: Mapping[str, int]
    arch: tuple[str, ...]
    shapes: tuple[str, ...]
    seeds: tuple[int, ...]
    gates: Mapping[str, Mapping[str, Any]]
    baseline: str | None = None
    not_applicable: Mapping[str, str] = field(default_factory=dict)  # gate -> reason
    overrides: Mapping[str, int] = field(default_factory=dict)  # toggles set from outside
    nvcc_flags: tuple[str, ...] = ()
    time_limit_s: float = 300.0
