"""The runner of a task: the one process that loads a kernel.

``runner.py`` in a task folder is ``from gates.run.runner import main; main(__file__)``. With
``--job FILE`` it does one job for the engine and answers in the job's result file; nothing that it
prints counts. Without, it is for people: it builds the task, runs the cases and prints a table.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gates import jsonio
from gates.errors import EXIT_OK, GatesError
from gates.run.process import die_with

KINDS = ("describe", "correctness", "case", "timing")


def main(file: str, arguments: Sequence[str] | None = None) -> None:
    """Run the task whose runner.py is ``file``, as the command line says, and exit."""
    folder = Path(file).resolve().parent
    options = _parser(folder.name).parse_args(arguments)
    try:
        code = run_job(options.job, folder) if options.job else _run_by_hand(options, folder)
    except GatesError as error:
        print(f"error: {error.what}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        code = error.exit_code
    sys.exit(code)


def run_job(path: Path, folder: Path) -> int:
    """Do the job in the JSON file ``path``; the result goes to the file that the job names."""
    job = jsonio.read(path)
    kind = job.get("kind") if isinstance(job, dict) else None
    if kind not in KINDS:
        raise GatesError(f"{path}: job kind {kind!r} is not one of {', '.join(KINDS)}")
    if isinstance(job.get("engine"), int):
        die_with(job["engine"])
    importlib.import_module(f"gates.run.{kind}").execute(job, folder)
    return EXIT_OK


def _parser(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m tasks.{name}.runner", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Run one kernel stage on its cases and print the errors against the reference.",
        epilog=f"example: python -m tasks.{name}.runner --shapes small,mission --seeds 0,1,2 --iters 500\n"
               f"one case: python -m tasks.{name}.runner --shape small --seed 0",
    )
    parser.add_argument("--job", type=Path, metavar="JSON", help="do one job for the engine")
    shapes, seeds = parser.add_mutually_exclusive_group(), parser.add_mutually_exclusive_group()
    shapes.add_argument("--shapes", type=_names, help="shapes, separated by commas (default: the task's)")
    shapes.add_argument("--shape", metavar="SHAPE", help="replay cases of this shape: no odd shapes, no input families but those named")
    seeds.add_argument("--seeds", type=_integers, help="seeds, separated by commas (default: the task's)")
    seeds.add_argument("--seed", type=int, metavar="N", help="replay cases of this seed")
    parser.add_argument("--inputs", type=_names, help="input families, or default, separated by commas: run these and nothing else")
    parser.add_argument("--iters", type=int, default=0, metavar="N", help="time N launches too (CUDA device only)")
    parser.add_argument("--device", choices=("auto", "cuda", "emulator"), default="auto")
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
