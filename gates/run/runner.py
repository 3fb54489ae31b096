"""The runner of a task: jobs for the engine, and a table for people.

The engine starts a job through ``gates/run/entry.py``, never through a task's own code; the answer is in the job's result file,
and nothing that the process prints counts. ``runner.py`` in a task folder is for people: it is ``from gates.run.runner
import main; main(__file__)``, builds the task, runs the cases and prints a table.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gates import jsonio
from gates.errors import EXIT_OK, GatesError
from gates.run import apart, jail
from gates.run.attempt import CONFINED
from gates.run.process import die_with, hide

KINDS = ("describe", "magnitude", "correctness", "case", "launches", "timing", "timing_alone", "extension", "triton_build")


def main(file: str, arguments: Sequence[str] | None = None) -> None:
    """Run the task whose runner.py is ``file``, as the command line says, and exit."""
    folder = Path(file).resolve().parent
    options = _parser(folder.name).parse_args(arguments)
    sys.exit(_code(lambda: _run_by_hand(options, folder)))


def job_main(path: Path, folder: Path, with_apart: str = "") -> None:
    """Do the job in the JSON file ``path`` for the task in ``folder``, and exit; see ``run_job``."""
    sys.exit(_code(lambda: run_job(path, folder, with_apart)))


def _code(work: Callable[[], int]) -> int:
    """The exit code of ``work``; what is wrong with its input is printed."""
    try:
        return work()
    except GatesError as error:
        print(f"error: {error.what}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code


def run_job(path: Path, folder: Path, with_apart: str = "") -> int:
    """Do the job in the JSON file ``path``; the result goes to the file that the job names. ``with_apart``: the module that runs its kernels, in a process apart."""
    # Before the job is read, whose seeds are not the kernel's to know, and before this process confines itself: the other one
    # needs its own folder of /proc, and would inherit what holds here.
    child = apart.start(with_apart) if with_apart else None
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
    importlib.import_module(f"gates.run.{kind}").execute(job, folder)
    return EXIT_OK


def _confine(job: Mapping[str, Any]) -> None:
    """Take away what code that is judged has no business with. Tools around a replayed case need files and sockets."""
    sides = [job[key] for key in ("side", "candidate", "baseline") if job.get(key)]
    if job.get("mode") == "replay":
        return
    work = Path(job["result"]).parent
    os.environ.update(jail.caches(work))
    on_device = any(not side["emulated"] for side in sides)
    held = jail.enter([work], memory_bytes=None if on_device else jail.default_memory_bytes(), local_sockets=on_device)
    print(CONFINED + ", ".join(f"{what} {how}" for what, how in held.items()), flush=True)


def _parser(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m tasks.{name}.runner", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Run one kernel stage on its cases and print the errors against the reference.",
        epilog=f"example: python -m tasks.{name}.runner --shapes small,mission --seeds 0,1,2 --iters 500\n"
               f"one case: python -m tasks.{name}.runner --shape small --seed 0",
    )
    shapes, seeds = parser.add_mutually_exclusive_group(), parser.add_mutually_exclusive_group()
    shapes.add_argument("--shapes", type=_names, help="shapes, separated by commas (default: the task's)")
    shapes.add_argument("--shape", metavar="SHAPE", help="replay cases of this shape: no odd shapes, no input families but those named")
    seeds.add_argument("--seeds", type=_integers, help="seeds, separated by commas (default: the task's)")
    seeds.add_argument("--seed", type=int, metavar="N", help="replay cases of this seed")
    parser.add_argument("--inputs", type=_names, help="input families, or default, separated by commas: run these and nothing else")
    parser.add_argument("--iters", type=int, default=0, metavar="N", help="time N launches too (CUDA device only)")
    parser.add_argument("--device", choices=("auto", "cuda", "emulator", "cpu"), default="auto", help="where to run; emulator and cpu both mean without a device")
    parser.add_argument("--build-dir", type=Path, default=Path("build"), metavar="DIR", help="folder of build products")
    return parser


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _integers(text: str) -> list[int]:
    try:
        return [int(part) for part in _names(text)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of integers such as 0,1,2") from None


def _run_by_hand(options: argparse.Namespace, folder: Path) -> int:
    from gates import byhand

    replay = options.shape is not None or options.seed is not None
    with tempfile.TemporaryDirectory(prefix="gates-runner-") as work:
        return byhand.run(
            folder, Path(work), shapes=options.shapes if options.shape is None else [options.shape],
            seeds=options.seeds if options.seed is None else [options.seed],
            inputs=options.inputs or (["default"] if replay else []), iters=options.iters, device=options.device,
            build_dir=options.build_dir,
        )
