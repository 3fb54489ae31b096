"""The commands of ``gates import``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gates.cli.options import FOLDER, Commands
from gates.core.errors import GatesError

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


_SOLUTIONS = click.option(
    "--solutions",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="With a folder of problems: folder of solutions, by the problems' names.",
)


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What the commands have in common."""
    for option in (
        click.option(
            "--limit-s",
            type=click.FloatRange(min=1, max=86400),
            default=300.0,
            show_default=True,
            help="Seconds that the problem may take on the CPU, now and in later runs.",
        ),
        click.option("--name", help="Name of the task.  [default: made of the file's name]"),
        click.option(
            "--dir", "directory", type=FOLDER, default=Path("."), show_default=True, help="Folder in which the task folders are made."
        ),
    ):
        command = option(command)
    return command


@click.group("import", cls=Commands)
def import_group() -> None:
    """Make a task of a kernel in another format, and a baseline task of its reference.

    The code runs only in a process of its own, never in that of gates.

    Example: gates import kernelbench 19_ReLU.py solution.py
    """


@import_group.command()
@click.argument("problem", type=click.Path(path_type=Path, exists=True), metavar="PROBLEM.py|DIR")
@click.argument("solution", type=_FILE, required=False, metavar="[SOLUTION.py]")
@_SOLUTIONS
@click.option("--set", "given_sizes", metavar="NAME=N,…", help="Other values for whole numbers of the problem: batch_size=4,dim=4096.")
@_options
def kernelbench(problem: Path, solution: Path | None, solutions: Path | None, given_sizes: str | None, **options: Any) -> None:
    """Import a KernelBench problem with a solution, or a folder of problems.

    The problem has Model, get_inputs and get_init_inputs; the solution has ModelNew, or is a .cu file that binds forward (PYBIND11_MODULE),
    which gets the inputs alone. Without a solution the problem's own Model is the solution.
    A small shape and one with odd sizes are made of the problem's whole numbers.
    Of a folder each problem is imported with the solutions of its name in --solutions. imports.csv in --dir
    says what was imported, and what was refused and why. An interrupted import continues there.

    Example: gates import kernelbench 19_ReLU.py solution.py --name relu
    """
    from gates.importers import kernelbench as format

    if problem.is_dir():
        sys.exit(_suite(format, problem, solution or solutions, **options))
    _refuse_folder(solutions)
    _write(format.load(problem, solution, _sizes(given_sizes)), problem.stem, **options)


@import_group.command()
@click.argument("problem", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR")
@click.argument("submission", type=_FILE, required=False, metavar="[SUBMISSION.py]")
@_SOLUTIONS
@_options
def kernelbot(problem: Path, submission: Path | None, solutions: Path | None, **options: Any) -> None:
    """Import a kernelbot problem with a submission, or a folder of problems.

    DIR holds task.yml, as in reference-kernels, and the submission has custom_kernel. Without one the problem's own ref_kernel is its
    solution. If task.yml files are in folders below DIR, each problem is imported, with the submissions in the folder of its name in
    --solutions.

    Example: gates import kernelbot problems/pmpp_v2/vectorsum_py submission.py
    """
    from gates.importers import kernelbot as format

    if not (problem / format.TASK).is_file():
        sys.exit(_suite(format, problem, submission or solutions, **options))
    _refuse_folder(solutions)
    _write(format.load(problem, submission), problem.resolve().name, **options)


@import_group.command("flashinfer-bench")
@click.argument("definition", type=_FILE, metavar="DEFINITION.json")
@click.argument("solution", type=_FILE, metavar="SOLUTION.json")
@click.option("--workloads", type=_FILE, help="JSON lines of workloads or traces, for the shapes.")
@_options
def flashinfer_bench(definition: Path, solution: Path, workloads: Path | None, **options: Any) -> None:
    """Import a flashinfer-bench definition with a solution.

    SOL-ExecBench's definitions and solutions are of this format.

    Example: gates import flashinfer-bench rmsnorm_h4096.json my_rmsnorm.json --workloads rmsnorm_h4096.jsonl
    """
    from gates.importers import flashinfer_bench as format

    found = format.load(definition, solution, workloads)
    if found.details["workloads_left_out"]:
        click.echo(f"left out: {found.details['workloads_left_out']} workloads that read safetensors files which are not here", err=True)
    _write(found, found.details["solution"], **options)


@import_group.command("robust-kbench")
@click.argument("task", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR")
@click.argument("kernel", type=_FILE, required=False, metavar="[KERNEL.cu]")
@_options
def robust_kbench(task: Path, kernel: Path | None, **options: Any) -> None:
    """Import a robust-kbench task folder.

    It holds func_forward.py and config_forward.json, and forward.cu if no other kernel is named.

    Example: gates import robust-kbench tasks/layernorm
    """
    from gates.importers import robust_kbench as format

    _write(format.load(task, kernel), task.resolve().name, **options)


def _suite(format: Any, problems: Path, solutions: Path | None, directory: Path, name: str | None, limit_s: float) -> int:
    from gates.importers import bulk

    if name or (solutions is not None and solutions.is_file()):
        raise GatesError(
            "a folder of problems takes no --name and no single solution", hint="name the folder of solutions with --solutions"
        )
    rows, table = bulk.run(format, problems, solutions, directory, limit_s, lambda text: click.echo(text, err=True))
    for row in rows:
        click.echo("  ".join(filter(None, (row.status, row.problem, row.solution, row.reason))))
    imported = sum(row.status == bulk.IMPORTED for row in rows)
    click.echo(f"{imported} of {len(rows)} imported; {table}")
    return 0 if imported == len(rows) else 1


def _refuse_folder(solutions: Path | None) -> None:
    if solutions is not None:
        raise GatesError("--solutions goes with a folder of problems", hint="name the solution after the problem")


def _sizes(text: str | None) -> dict[str, int]:
    """``batch_size=4,dim=4096`` as numbers by name."""
    found = {}
    for part in filter(None, (text or "").split(",")):
        name, _, number = part.partition("=")
        if not (number.isascii() and number.isdigit() and int(number) > 0):
            raise GatesError(f"--set {part}: not NAME=N with a whole number from 1 on", hint="for example --set batch_size=4,dim=4096")
        found[name.strip()] = int(number)
    return found


def _write(imported: Any, fallback: str, directory: Path, name: str | None, limit_s: float) -> None:
    from gates.importers import folder

    made = folder.write(imported, directory, folder.task_name(name, fallback), limit_s)
    click.echo(f"task:     {made.task}")
    click.echo(f"baseline: {made.reference}")
    for shape, sizes in made.shapes.items():
        told = ", ".join(f"{dimension}={size}" for dimension, size in sizes.items())
        click.echo(f"shape:    {shape}{f' ({told})' if told else ''}")
    for shape, reason in made.untried.items():
        click.echo(f"not tried: {shape} {reason}{'; `--set` gives it other sizes' if imported.offers else ''}", err=True)
    click.echo(f"limits:   {made.limits}")
    if made.edit:
        click.echo(f"edit:     {', '.join(map(_from_here, made.edit))}")
    if imported.wanted:
        click.echo(f"solution: none: the problem's own code is judged. Import again with a file that defines {imported.wanted}")
    click.echo(f"next:     gates run {_from_here(made.task)}")


def _from_here(path: Path) -> str:
    return str(path) if path.is_absolute() else f"./{path}"
