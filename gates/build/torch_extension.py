"""Excuse a torch extension that can't be built for the CPU device: that alone says nothing about the extension."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from gates.build.failure import Failure
from gates.build.result import Target
from gates.task.load import Task

_HINT = "the compiler's gates judge its .cu here; behind a C launcher the same .cu runs on the emulator (docs/start/your-kernel.md)"
_CPU_ONLY = Failure("", "", hint=_HINT, unsupported="a torch extension runs on a CUDA device alone")


def on_cpu(task: Task, targets: Sequence[Target], want: Collection[str]) -> tuple[Target, ...]:
    """Return the targets, with the reason if there is none for the emulator: nothing on the CPU calls it, or it could not be built.

    If the compilers refuse the sources as they are on a device, that is the reason.
    """
    if "emulator" in want and task.script is None:
        return (*targets, Target("emulator", None, failure=_CPU_ONLY))
    refused = next((failure for one in targets if one.kind in ("cubin", "binding") and (failure := _of_sources(one))), None)
    return tuple(
        replace(one, failure=refused or _excuse(failure)) if (failure := _of_sources(one)) and one.kind == "emulator" else one
        for one in targets
    )


def _of_sources(target: Target) -> Failure | None:
    return target.failure if target.failure and not (target.failure.missing_tool or target.failure.unsupported) else None


def _excuse(failure: Failure) -> Failure:
    reason = f"this torch extension can't be built for the CPU: {next(iter(failure.errors), failure.cause)}"
    return Failure(failure.command, failure.cause, hint=_HINT, unsupported=reason)
