"""``gates evolve`` searches for a faster candidate; ``gates describe`` gives a program what it has to know of a task."""

from __future__ import annotations

import re
from pathlib import Path

import click

from gates.cli.options import BUILD_DIR, FOLDER, RESULTS, task_names, toggle_values
from gates.cli.output import print_json, print_text, short_path
from gates.core.errors import GatesError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def _seconds(context: click.Context, option: click.Parameter, text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    if match is None or not float(match[1]):
        raise GatesError(f"--budget {text!r} is not a time", hint="e.g. --budget 90s, 30m or 2h")
    return float(match[1]) * _UNITS[match[2]]


@click.command("evolve")
@click.argument("task", shell_complete=task_names)
@click.option("--param", "params", multiple=True, metavar="NAME=V1,V2", help="Propose values of a toggle, one change at a time.")
@click.option("--patches", type=FOLDER, help="Propose the unified diffs in this folder, each alone and then in pairs.")
@click.option("--from", "watched", type=FOLDER, help="Propose each new folder in this one, until it has a file `done`.")
@click.option("--propose", "command", metavar="COMMAND", help="Ask this program: JSON on stdin, one candidate per line on stdout.")
@click.option(
    "--strategy", type=click.Choice(["greedy", "beam", "map-elites"]), default="beam", show_default=True, help="How parents are chosen."
)
@click.option("--generations", type=click.IntRange(min=1), default=10, show_default=True, help="At most so many generations.")
@click.option("--population", type=click.IntRange(min=1), default=5, show_default=True, help="New candidates per generation.")
@click.option("--elite", type=click.IntRange(min=1), default=3, show_default=True, help="Parents per generation, timed again each time.")
@click.option("--evaluations", type=click.IntRange(min=1), default=45, show_default=True, help="At most so many, the unchanged TASK first.")
@click.option("--budget", "budget_s", default="30m", show_default=True, callback=_seconds, help="At most so long: 90s, 30m, 2h.")
@click.option("--enough", "enough_pct", type=click.FloatRange(min=1.0, max=100.0), help="Stop at this share (%) of the hardware's limit.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of every random choice.")
@click.option(
    "--stage",
    type=click.Choice(["numbers", "memory"]),
    default="memory",
    show_default=True,
    help="Last check without a device; on one, speed follows.",
)
@click.option(
    "--against",
    type=click.Choice(["task", "baseline"]),
    default="task",
    show_default=True,
    help="Time against the unchanged task, or its baseline.",
)
@click.option("--profile", type=click.Choice(["auto", "cpu", "full"]), default="auto", show_default=True, help="cpu: without a device.")
@click.option("--scheduler", metavar="tcp://HOST:PORT", help="Join a running Dask cluster that shares the results folder.")
@click.option(
    "--workers", type=click.IntRange(min=1), help="Candidates at a time, here.  [default: one per core; on a device, three for four cores]"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: what evolution.json has.")
@click.option("--toggle", "toggles", multiple=True, metavar="NAME=VALUE", help="Begin with this value of a toggle.")
@RESULTS
@BUILD_DIR
def evolve_command(
    task: str,
    params: tuple[str, ...],
    patches: Path | None,
    watched: Path | None,
    command: str | None,
    as_json: bool,
    toggles: tuple[str, ...],
    **options: object,
) -> None:
    """Search for a faster candidate of TASK, generation by generation.

    Candidates are evaluated as by `gates evaluate`, the best become parents, and the champion gets a whole `gates run`. Without a device
    nothing is timed: candidates are ordered by spills, occupancy and registers. The same command continues a search that was interrupted.
    It needs the extra `sweep`.

    Example: gates evolve fp16_v8_tiles --param NUM_WARPS=1,2,4 --param STAGES=2,3
    """
    from functools import partial

    from gates.core.records import to_json
    from gates.evaluation.answer import worst_archs
    from gates.evaluation.evolution import strategies
    from gates.evaluation.evolution.proposers import ByCommand, ByPatches, ByToggles, FromFolder, Proposer
    from gates.evaluation.evolution.search import Options, evolve
    from gates.render.console import Progress
    from gates.render.search.evolution import evolution_table
    from gates.sweep.variants import parse_params
    from gates.task.load import find_task

    for option, folder in (("--patches", patches), ("--from", watched)):
        if folder is not None and not folder.is_dir():
            raise GatesError(f"{option} {folder}: no such folder", hint="make it, or name another")
    begin, proposers = toggle_values(toggles), list[Proposer]()
    if params:
        proposers.append(ByToggles(parse_params(params, find_task(task, begin, environ={}))))
    if patches is not None:
        proposers.append(ByPatches(patches))
    if command is not None:
        proposers.append(ByCommand(command))
    if watched is not None:  # last, since it waits
        proposers.append(FromFolder(watched))
    with Progress() as progress:
        place, found = evolve(Options(task, tuple(proposers), toggles=begin, **options), progress)  # type: ignore[arg-type]
    if as_json:
        print_json(to_json(found))
        return
    score = partial(strategies.score_of, generations=found.generations)
    evaluations = place / "evaluations" / found.task
    print_text(evolution_table(found, strategies.ranked(found), score, lambda one: worst_archs(evaluations / one.id)))
    print_text(f"evidence: {short_path(place)}\ntree:     {short_path(place / 'tree.html')}")


@click.command("describe")
@click.argument("task", shell_complete=task_names)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with all texts.")
@RESULTS
def describe_command(task: str, as_json: bool, results: Path) -> None:
    """Say what a program that writes candidates of TASK has to know.

    Sources, the problem's text, toggles, shapes, limits, chips, and the times of the newest runs.

    Example: gates describe stage2 --json
    """
    from gates.evaluation.describe import describe
    from gates.task.load import find_task

    found = describe(find_task(task), results)
    if as_json:
        print_json(found)
        return
    lines = [f"{found['task']}: {found['title']}", f"a candidate may replace: {', '.join(found['files'])}"]
    lines += [f"toggles: {', '.join(f'{name}={value}' for name, value in found['toggles'].items()) or 'none'}"]
    lines += [f"shapes: {', '.join(found['shapes'])}"]
    for gate, limits in found["limits"].items():
        lines.append(f"{gate}: {', '.join(f'{name} {value}' for name, value in limits.items()) or 'no limits of its own'}")
    for name, figures in (
        (found["task"], found["figures"]),
        *([(found["baseline"]["task"], found["baseline"]["figures"])] if found["baseline"] else []),
    ):
        lines += [f"{name} on {one['device']}, {one['shape']}: p50 {one['p50_us']:.4g} us" for one in figures]
    print_text("\n".join(lines))
