"""Do one job of the engine, in a process of its own: the work of ``gates/worker/entry.py``.

The answer is in the job's result file; nothing that the process prints counts.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gates.core import jsonio
from gates.core.errors import EXIT_OK, GatesError
from gates.worker import isolated, sandbox
from gates.worker.job import CONFINED, KINDS
from gates.worker.process import die_with, hide


def job_main(path: Path, folder: Path, kernel_process: str = "") -> None:
    """Do the job in the JSON file ``path`` for the task in ``folder``, and exit; see ``do_job``."""
    sys.exit(_code(lambda: do_job(path, folder, kernel_process)))


def _code(work: Callable[[], int]) -> int:
    """The exit code of ``work``; what is wrong with its input is printed."""
    try:
        return work()
    except GatesError as error:
        print(f"error: {error.what}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code


def do_job(path: Path, folder: Path, kernel_process: str = "") -> int:
    """Do the job in the JSON file ``path``; the result goes to the file that the job names.

    ``kernel_process``: the module that runs its kernels, in an isolated process.
    """
    # Before the job is read, whose seeds are not the kernel's to know, and before this process confines itself: the other one
    # needs its own folder of /proc, and would inherit what holds here.
    child = isolated.start(kernel_process) if kernel_process else None
    if child is not None:
        hide()
    job = jsonio.read(path)
    kind = job.get("kind") if isinstance(job, dict) else None
    if kind not in KINDS:
        raise GatesError(f"{path}: job kind {kind!r} is not one of {', '.join(KINDS)}")
    if isinstance(job.get("engine"), int):
        die_with(job["engine"])
    _confine(job)
    if child is not None:
        path.unlink()  # nor is it the kernel's to read, nor the result
        job |= {"child": child, "nameless": True}
    importlib.import_module(KINDS[kind].module).execute(job, folder)
    return EXIT_OK


def _confine(job: Mapping[str, Any]) -> None:
    """Take away what code that is judged has no business with. Tools around a replayed case need files and sockets."""
    sides = [job[key] for key in ("side", "candidate", "baseline") if job.get(key)]
    if job.get("mode") == "replay":
        return
    work = Path(job["result"]).parent
    os.environ.update(sandbox.caches(work))
    on_device = any(not side["emulated"] for side in sides)
    held = sandbox.enter([work], memory_bytes=None if on_device else sandbox.default_memory_bytes(), local_sockets=on_device)
    print(CONFINED + ", ".join(f"{what} {how}" for what, how in held.items()), flush=True)
