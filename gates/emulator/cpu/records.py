"""What the CPU device tells of a run, as typed records."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """Something wrong with a kernel or its launcher, the same at the same place counted once."""

    code: str
    message: str
    kernel: str  # mangled; empty if it is no kernel's
    where: str | None  # FILE:LINE of the user's own source
    other: str | None  # of the second access of a race
    block: tuple[int, ...] | None
    thread: tuple[int, ...] | None
    count: int


@dataclass(frozen=True)
class LaunchRecord:
    """A launch that was executed, or refused: then with the reason."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    static_smem_bytes: int
    dynamic_smem_bytes: int
    opt_in_smem_bytes: int  # what cudaFuncSetAttribute allowed; 0: it was not asked
    max_threads: int  # of __launch_bounds__; 0: it has none
    error: str
    warp_instructions: int


def _fields(item: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in item.items()}


def findings(text: str) -> tuple[Finding, ...]:
    """Of the runtime's JSON."""
    return tuple(Finding(**_fields(item)) for item in json.loads(text))


def launches(text: str) -> tuple[LaunchRecord, ...]:
    """Of the runtime's JSON."""
    return tuple(LaunchRecord(**_fields(item)) for item in json.loads(text))
