"""What of a torch extension can't be built for the CPU device, which says nothing about the extension itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from gates.build.failure import Failure
from gates.build.result import Target
from gates.task.load import Task

_HINT = "the compiler's gates judge its .cu here; behind a C launcher the same .cu runs on the emulator (docs/start/your-kernel.md)"
_CPU_ONLY = Failure("", "", hint=_HINT, unsupported="a torch extension runs on a CUDA device alone")


def on_cpu(task: Task, targets: Sequence[Target], want: Collection[str]) -> tuple[Target, ...]:
    """The targets, with the reason why there is none for the emulator: nothing on the CPU calls it, or it could not be built."""
    if "emulator" in want and task.script is None:
        return (*targets, Target("emulator", None, failure=_CPU_ONLY))
    return tuple(map(_excused, targets))


def _excused(target: Target) -> Target:
    if target.kind != "emulator" or not target.failure or target.failure.missing_tool:
        return target
    reason = f"this torch extension can't be built for the CPU: {next(iter(target.failure.errors), target.failure.cause)}"
    return replace(target, failure=Failure(target.failure.command, target.failure.cause, hint=_HINT, unsupported=reason))
