"""Commands that run kernels: ``run``, ``profile``, ``sweep``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gates.cli.options import (
    BUILD_DIR,
    DEBUG,
    DEVICE,
    FILE,
    FOLDER,
    JOBS,
    RESULTS,
    TOGGLE,
    name_values,
    number_values,
    task_names,
    toggle_values,
)
from gates.cli.output import print_json, print_text, short_path, width
from gates.core.errors import EXIT_FAIL, GatesError


@click.command()
@click.argument("task", shell_complete=task_names)
@click.option(
    "--profile",
    type=click.Choice(["auto", "cpu", "full"]),
    default="auto",
    show_default=True,
    help="Gates to ask for: cpu needs no device, full needs one.",
)
@click.option("--shapes", help="Comma-separated shapes instead of the task's; such a run can't be merge.")
@click.option("--seeds", help="Comma-separated seeds instead of the task's; such a run can't be merge.")
@click.option(
    "--inputs",
    help="Comma-separated input families, or default: try these on the shapes and seeds and nothing else, "
    "to replay a case; such a run can't be merge.",
)
@click.option("--thorough", is_flag=True, help="Try all edge shapes, and the input families on more shapes and seeds.")
@DEBUG
@DEVICE
@TOGGLE
@RESULTS
@BUILD_DIR
@JOBS
def run(
    task: str,
    profile: str,
    shapes: str | None,
    seeds: str | None,
    inputs: str | None,
    thorough: bool,
    debug: bool,
    device: int,
    toggles: tuple[str, ...],
    results: Path,
    build_dir: Path,
    jobs: int | None,
) -> None:
    """Build TASK, judge it by its gates against its baseline, write a run directory.

    Example: gates run stage2 --profile cpu
    """
    from gates.worker.job import warm_up

    warm_up()  # torch's import takes longer than those below

    from gates.pipeline.run import Options, run_task
    from gates.render.console import Progress, verdict_table
    from gates.review.takeover import fitting

    if inputs is not None and thorough:
        raise GatesError("--inputs and --thorough exclude each other", hint="--inputs tries the named cases and nothing else")
    options = Options(
        task=task,
        profile=profile,
        shapes=name_values(shapes, "--shapes", "small,mission"),
        seeds=number_values(seeds, "--seeds"),
        inputs=name_values(inputs, "--inputs", "default,zeros") or (),
        thorough=thorough,
        debug=debug,
        device=device,
        toggles=toggle_values(toggles),
        results=results,
        build_dir=build_dir,
        jobs=jobs,
        argv=tuple(sys.argv[1:]),
    )
    with Progress() as progress:
        outcome = run_task(options, progress)
    print_text(verdict_table(outcome.info, outcome.verdict, width()))
    print_text(f"evidence: {short_path(outcome.path)}")
    print_text(f"report:   {short_path(outcome.path / 'COMPARE.md')}")
    if outcome.info.device is None and (known := fitting(outcome.path, results)) is not None:
        command = f"gates decide {short_path(outcome.path)} --gpu-verdict-of {short_path(known)}"
        print_text(f"machine code unchanged since a run on a GPU, whose verdict holds here, too: {command}")
    sys.exit(outcome.exit_code)


@click.command()
@click.argument("tasks", nargs=-1, required=True, shell_complete=task_names)
@click.option("--shape", help="Shape to profile.  [default: the performance gate's]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the inputs.")
@click.option("--out", type=FOLDER, default=Path("build/profile"), show_default=True, help="Folder for the Nsight Compute reports.")
@TOGGLE
@BUILD_DIR
def profile(tasks: tuple[str, ...], shape: str | None, seed: int, out: Path, toggles: tuple[str, ...], build_dir: Path) -> None:
    """Show hardware counters of TASKS side by side, read by Nsight Compute.

    It needs a CUDA device.

    Example: gates profile stage0 stage3 --shape mission
    """
    from gates.pipeline.profile import profile_tasks

    text, code = profile_tasks(tasks, shape=shape, seed=seed, out=out, toggles=toggle_values(toggles), build_dir=build_dir)
    print_text(text)
    sys.exit(code)


@click.command()
@click.argument("task", required=False, shell_complete=task_names)
@click.option("--param", "params", multiple=True, metavar="NAME=V1,V2", help="Values of a toggle to try; several: every combination.")
@click.option(
    "--resume", type=FOLDER, help="Continue the sweep in this folder, which knows its TASK. The same command as before continues it, too."
)
@click.option(
    "--profile",
    type=click.Choice(["auto", "cpu", "full"]),
    default="auto",
    show_default=True,
    help="cpu: resources and numbers alone; full needs a device.",
)
@click.option("--scheduler", metavar="tcp://HOST:PORT", help="Join a running Dask cluster instead of starting workers here.")
@click.option("--workers", type=click.IntRange(min=1), help="Workers for builds, here.  [default: one per core]")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: what sweep.json holds.")
@click.option("--plot", "picture", type=FILE, help="Draw time against resources, .png or .svg; needs a device.")
@RESULTS
@BUILD_DIR
def sweep(
    task: str | None,
    params: tuple[str, ...],
    resume: Path | None,
    profile: str,
    scheduler: str | None,
    workers: int | None,
    as_csv: bool,
    as_json: bool,
    picture: Path | None,
    results: Path,
    build_dir: Path,
) -> None:
    """Try every combination of toggles of TASK: build, check, time, and judge the winner.

    Variants over the task's budget or with wrong numbers are dropped, with the reason. The others are timed on a device by
    successive halving against the task as it is, and only a faster one wins. It needs the extra `sweep`.

    Example: gates sweep stage3 --param USE_CP_ASYNC=0,1
    """
    from gates.render.console import Progress
    from gates.render.search.sweep import draw, require_drawable, sweep_csv, sweep_json, sweep_table
    from gates.sweep.plan import Options
    from gates.sweep.schedule import run_sweep

    if as_csv and as_json:
        raise GatesError("--json and --csv exclude each other", hint="choose one")
    if scheduler is not None and workers is not None:
        raise GatesError("--workers starts workers here, --scheduler has its own", hint="choose one")
    if task is None and resume is None:
        raise click.MissingParameter(ctx=click.get_current_context(), param_hint="'TASK'", param_type="argument")
    if picture is not None:
        if profile == "cpu":
            raise GatesError("--plot draws times, and --profile cpu takes none", hint="choose one")
        require_drawable(picture)
    options = Options(task, params, resume, profile, scheduler, workers, results, build_dir, timed=picture is not None)
    with Progress() as progress:
        folder, found = run_sweep(options, progress)
    if as_json:
        print_json(sweep_json(found))
    else:
        print_text(sweep_csv(found) if as_csv else f"{sweep_table(found)}\nevidence: {short_path(folder)}", end="" if as_csv else "\n")
    if not found.left():
        raise GatesError(
            f"no variant is left: all {len(found.variants)} were dropped",
            hint=f"{short_path(folder)}/sweep.json has the reasons",
            exit_code=EXIT_FAIL,
        )
    if picture is not None:
        draw(found, picture)
