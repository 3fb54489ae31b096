"""What a program that writes candidates has to know of a task: its texts, toggles, shapes, limits, the chips, and how fast it is now."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gates.evaluation.overlay import editable
from gates.evaluation.record import STAGES
from gates.hardware.chips import chip_of
from gates.launch import device as devices
from gates.review.history import Entry, history_or_none
from gates.task.load import Task, load_baseline

SCHEMA_VERSION = 1


def describe(task: Task, results: Path) -> dict[str, Any]:
    """The task's context as JSON data.

    ``files``: what a candidate may replace; ``judged_by``: the problem's texts, which it may not. ``figures``: p50 in us and speed-up over
    the baseline of the newest timed run under ``results``, per device.
    """
    baseline = load_baseline(task)
    found = devices.probe().devices
    archs = dict.fromkeys([*task.arch, *(device.arch for device in found[:1])])
    entries = history_or_none(results)
    return {
        "schema_version": SCHEMA_VERSION,
        "task": task.name,
        "title": task.title,
        "kind": task.kind,
        "problem": task.problem,
        "entry": task.entry,
        "kernels": list(task.kernels),
        "files": {name: _text(path) for name, path in editable(task).items()},
        "judged_by": {path.name: _text(path) for path in task.problem_files()},
        "toggles": dict(task.toggles),
        "shapes": list(task.shapes),
        "seeds": list(task.seeds),
        "limits": {gate: dict(limit) for gate, limit in task.gates.items()},
        "not_applicable": dict(task.not_applicable),
        "stages": list(STAGES),
        "device": found[0].name if found else None,
        "chips": {arch: dataclasses.asdict(chip) for arch in archs if (chip := chip_of(arch)) is not None},
        "figures": _figures(task, entries),
        "baseline": {"task": baseline.name, "title": baseline.title, "figures": _figures(baseline, entries)} if baseline else None,
    }


def _figures(task: Task, entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The newest timed run of the task on each device."""
    timed = {one.device: one for one in entries if one.task == task.name and not one.broken and one.p50_us is not None}
    return [
        {
            "device": one.device,
            "shape": one.shape,
            "cache": one.cache,
            "p50_us": one.p50_us,
            "speedup_pct": one.speedup_pct,
            "current": one.digest == task.digest(),
        }
        for one in timed.values()
    ]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
