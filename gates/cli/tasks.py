"""Commands that make, list and build tasks: ``list``, ``new``, ``build``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gates.cli.options import BUILD_DIR, DEBUG, FOLDER, JOBS, TOGGLE, task_names, toggle_values
from gates.cli.output import print_text, short_path
from gates.core.errors import GatesError
from gates.task.load import KINDS


@click.command("list")
def list_command() -> None:
    """List the tasks in the working folder and the shipped ones: name, baseline, title.

    Example: gates list
    """
    from gates.task.load import load_task, own_folders, task_folders

    own = own_folders()
    shown = {f"./{folder}": folder for folder in own}
    shown |= {folder.name: folder for folder in task_folders() if folder not in map(Path.resolve, own)}
    if not shown:
        raise GatesError(f"no task folder in {Path.cwd()} or in tasks/ there", hint="gates new my_norm --kind cuda makes a task here")
    broken = []
    for name, folder in shown.items():
        try:
            task = load_task(folder, environ={})
        except GatesError as error:
            broken.append(error)
        else:
            print_text(f"{name:24} {task.baseline or '-':24} {task.title}")
    if broken:
        raise broken[0]


@click.command("new")
@click.argument("name")
@click.option("--kind", type=click.Choice(KINDS), help="What the kernel is written in.")
@click.option("--from", "source", metavar="TASK", help="Copy TASK as the next rung, with TASK as its baseline, next to it.")
@click.option("--dir", "directory", type=FOLDER, help="Folder in which the new ones are made.  [default: .]")
def new_command(name: str, kind: str | None, source: str | None, directory: Path | None) -> None:
    """Make the task NAME, which runs at once, for you to change.

    --kind makes the folder NAME, its baseline NAME_eager in plain PyTorch, and NAME_problem.py. --from makes the next
    rung of another task, with a copy of the source that has the task's name. Nothing is overwritten.

    Example: gates new my_norm --kind triton
    """
    from gates.task.load import find_task, load_task
    from gates.task.scaffold import new_task, next_rung

    if (kind is None) == (source is None):
        what = "both --kind and --from are given" if kind else "neither --kind nor --from is given"
        raise GatesError(f"{what}: --kind makes a new task, --from the next rung of one", hint="e.g. gates new my_norm --kind triton")
    if source is not None:
        if directory is not None:
            raise GatesError(
                "--dir goes with --kind", hint="--from writes the next rung next to the rung before, whose problem and baseline it shares"
            )
        before = find_task(source, environ={})
        made = next_rung(name, before)
    else:
        made = new_task(name, str(kind), directory or Path())
    for path in made:
        print_text(f"made: {short_path(path)}")
    if source is not None:
        for shared in (path for path in load_task(made[0], environ={}).sources if path in before.sources):
            print_text(f"shared with {before.name}: {short_path(shared)}; to change it, copy it and name the copy under `sources`")
    task = short_path(made[0])
    print_text(f"next: gates run {task if Path(task).is_absolute() else f'./{task}'}")


@click.command()
@click.argument("task", shell_complete=task_names)
@DEBUG
@TOGGLE
@BUILD_DIR
@JOBS
def build(task: str, debug: bool, toggles: tuple[str, ...], build_dir: Path, jobs: int | None) -> None:
    """Build TASK: cubins, device library and emulator library.

    Example: gates build stage2
    """
    from gates.cli.task_build import report
    from gates.task.load import find_task

    found = find_task(task, toggle_values(toggles))
    text, built = report(found.for_debugging() if debug else found, build_dir, jobs=jobs)
    print_text(text)
    sys.exit(0 if built else 1)
