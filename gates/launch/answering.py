"""Run a kernel in another process than its judge.

Code in the judge's process could replace the comparison, read the reference from memory, or write the result. So every kernel is
loaded and launched in its own process, which starts before the judge reads its job: no seed, nonce or problem was ever in its
memory. It gets buffers as bytes and returns them as bytes. The judge's process (``gates.launch.side``) computes the reference,
compares, and writes the result; it never loads the kernel.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gates.core.errors import GatesError, NotHere
from gates.launch.entry_point import is_c
from gates.task import problem as problems
from gates.task.problem import OutputError
from gates.worker import isolated, sandbox


def first_question(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first message to the process, which says how it confines itself; the second one names its kernel."""
    emulated = bool(job["side"]["emulated"])
    memory_bytes = job.get("memory_bytes") or (sandbox.default_memory_bytes() if emulated else None)
    return {
        "device": "cpu" if emulated else job["device"],
        "scratch": str(isolated.scratch(job, job["side"]["name"])),
        "memory_bytes": memory_bytes,
        "processes": not emulated or not is_c(job["side"]),
        "cpu_s": isolated.processor_seconds(job),
        "wakes": "turn" in job,  # the device, while the kernel is compiled
    }


def serve() -> None:
    """Run in the other process: confine it, load the kernel, and answer calls until they end."""
    asks, answers = isolated.settle()

    from gates.launch.isolated_launch import Launcher, wake
    from gates.worker import wire

    first = wire.receive(asks)
    held = isolated.confine(
        Path(first["scratch"]),
        memory_bytes=first["memory_bytes"],
        on_device=first["device"] != "cpu",
        processes=first["processes"],
        cpu_s=first["cpu_s"],
    )
    wire.send(answers, {"held": held})  # before the kernel's code is loaded, which could say anything
    if first["wakes"]:
        wake(first["device"])
    side = wire.receive(asks)["side"]
    try:
        if not is_c(side):
            problems.find(side["problem"], Path(side["folder"]))  # what stands beside it a function may import
        launcher = Launcher(side, first["device"])
    except GatesError as error:
        wire.send(answers, _refused(error))
        return
    wire.send(answers, {"loaded": True})
    wake(first["device"])
    own = os.getpid()
    while True:
        try:
            question = wire.receive(asks)
        except EOFError:
            return
        answer = _answered(launcher, question)
        if os.getpid() != own:  # a process that the kernel's code forked: what the kernel returned is the first one's
            os._exit(1)
        wire.send(answers, answer)


def _answered(launcher: Any, question: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    from gates.launch.isolated_launch import DeviceLost

    try:
        return launcher.launch(question)
    except OutputError as error:
        return {"failure": "outputs", "text": str(error)}
    except (MemoryError, torch.OutOfMemoryError) as error:
        return {"failure": "memory", "text": str(error)}
    except GatesError as error:
        return _refused(error)
    except DeviceLost as error:
        return {"failure": "lost", "text": str(error)}


def _refused(error: GatesError) -> dict[str, Any]:
    found = {"failure": "gates", "text": error.what, "hint": error.hint}
    return {**found, "failure": "here", "reason": error.reason} if isinstance(error, NotHere) else found
