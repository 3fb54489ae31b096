"""The command line: parse arguments, call the library, print. Nothing here decides anything."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from gates import __version__
from gates.cli.guard import guard, told
from gates.cli.importers import import_group
from gates.cli.options import FILE, FOLDER, PATH
from gates.cli.packed import pack_command, unpack_command
from gates.core.errors import EXIT_FAIL, EXIT_USAGE, GatesError
from gates.core.text import plain_json, plain_lines
from gates.evidence.packed_runs import origin
from gates.task.problem import MAX_SEED

RESULTS = click.option(
    "--results", type=FOLDER, default=Path("results"), show_default=True,
    help="Folder of run directories.",
)
BUILD_DIR = click.option(
    "--build-dir", type=FOLDER, default=Path("build"), show_default=True,
    help="Folder of build products.",
)
TOGGLE = click.option("--toggle", "toggles", multiple=True, metavar="NAME=VALUE", help="Override a toggle of the task.")
DEBUG = click.option("--debug", is_flag=True, help="Compile device code with nvcc -G, for a debugger; such a run judges neither resources nor speed.")
JOBS = click.option("--jobs", type=click.IntRange(min=1), help="Compilers to run at once.  [default: one a core]")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="gates")
def cli() -> None:
    """Build CUDA kernel stages, judge them by gates, and say whether they may be merged.

    Exit codes: 0 all asked-for gates passed (decide: merge), 1 a gate failed (reject),
    2 wrong usage or invalid input, 3 hold or inconclusive, 4 internal error.

    TASK is a task's name in `gates list`, the beginning of one up to an underscore, or a task folder.
    RUN is a run directory, latest:TASK, or recorded:DEVICE/TASK.

    Example: gates run stage2
    """


for command in (import_group, pack_command, unpack_command):
    cli.add_command(command)


@cli.command("list")
def list_command() -> None:
    """List the tasks here: name, baseline, title.

    Example: gates list
    """
    from gates.task.load import load_task, task_folders

    for folder in task_folders():
        task = load_task(folder, environ={})
        _out(f"{task.name:24} {task.baseline or '-':24} {task.title}")


@cli.command("new")
@click.argument("name")
@click.option("--kind", type=click.Choice(["cuda", "torch-extension", "triton", "python"]), help="What the kernel is written in.")
@click.option("--from", "source", metavar="TASK", help="Copy TASK as the next rung, with TASK as its baseline, next to it.")
@click.option("--dir", "directory", type=FOLDER, help="Folder in which the new ones are made.  [default: .]")
def new_command(name: str, kind: str | None, source: str | None, directory: Path | None) -> None:
    """Make the task NAME, which runs at once, for you to change.

    --kind makes the folder NAME, its baseline NAME_eager in plain PyTorch, and NAME_problem.py. --from makes the next
    rung of another task. Nothing is overwritten.

    Example: gates new my_norm --kind triton
    """
    from gates.task.load import find_task
    from gates.task.scaffold import new_task, next_rung

    if (kind is None) == (source is None):
        what = "both --kind and --from are given" if kind else "neither --kind nor --from is given"
        raise GatesError(f"{what}: --kind makes a new task, --from the next rung of one", hint="e.g. gates new my_norm --kind triton")
    if source is not None:
        if directory is not None:
            raise GatesError("--dir goes with --kind", hint="--from writes the next rung next to the rung before, whose problem and baseline it shares")
        made = [next_rung(name, find_task(source, environ={}))]
    else:
        made = new_task(name, kind, directory or Path())
    for path in made:
        _out(f"made: {_short(path)}")
    _out(f"next: gates run {made[0] if made[0].is_absolute() else f'./{made[0]}'}")


@cli.command("lint-task")
@click.argument("folder", type=PATH)
def lint_task(folder: Path) -> None:
    """Name everything that is wrong in the task in FOLDER, without building it.

    The kernel does not run either. The exit code is 0 if nothing is wrong, 1 with findings, 2 if FOLDER has no task.

    Example: gates lint-task ./my_norm
    """
    from gates.diagnostics.lint import lint

    found = lint(folder)
    for text in found:
        _out(text)
    _out(f"{len(found)} finding{'s' * (len(found) != 1)}" if found else "nothing found")
    sys.exit(1 if found else 0)


@cli.command()
@click.argument("task")
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

    found = find_task(task, _toggles(toggles))
    text, built = report(found.for_debugging() if debug else found, build_dir, jobs=jobs)
    _out(text)
    sys.exit(0 if built else 1)


@cli.command()
@click.argument("task")
@click.option("--profile", type=click.Choice(["auto", "cpu", "full"]), default="auto", show_default=True,
              help="Gates to ask for: cpu needs no device, full needs one.")
@click.option("--shapes", help="Comma-separated shapes instead of the task's; such a run can't be merge.")
@click.option("--seeds", help="Comma-separated seeds instead of the task's; such a run can't be merge.")
@click.option("--inputs", help="Comma-separated input families, or default: try these on the shapes and seeds and nothing else, "
              "to replay a case; such a run can't be merge.")
@click.option("--thorough", is_flag=True, help="Try all edge shapes, and the input families on more shapes and seeds.")
@DEBUG
@click.option("--device", type=click.IntRange(min=0), default=0, show_default=True, help="CUDA device index.")
@TOGGLE
@RESULTS
@BUILD_DIR
@JOBS
def run(task: str, profile: str, shapes: str | None, seeds: str | None, inputs: str | None, thorough: bool, debug: bool, device: int,
        toggles: tuple[str, ...], results: Path, build_dir: Path, jobs: int | None) -> None:
    """Build TASK, judge it by its gates against its baseline, write a run directory.

    Example: gates run stage2 --profile cpu
    """
    from gates.pipeline.run import Options, run_task
    from gates.render.console import Progress, verdict_table

    if inputs is not None and thorough:
        raise GatesError("--inputs and --thorough exclude each other", hint="--inputs tries the named cases and nothing else")
    options = Options(
        task=task, profile=profile, shapes=_list(shapes, "--shapes", "small,mission"), seeds=_numbers(seeds, "--seeds"),
        inputs=_list(inputs, "--inputs", "default,zeros") or (),
        thorough=thorough, debug=debug, device=device,
        toggles=_toggles(toggles), results=results, build_dir=build_dir, jobs=jobs, argv=tuple(sys.argv[1:]),
    )
    with Progress() as progress:
        outcome = run_task(options, progress)
    _out(verdict_table(outcome.info, outcome.verdict))
    _out(f"evidence: {_short(outcome.path)}")
    _out(f"report:   {_short(outcome.path / 'COMPARE.md')}")
    sys.exit(outcome.exit_code)


@cli.command()
@click.argument("runs", nargs=-1, required=True, metavar="BASELINE_RUN CANDIDATE_RUN [MORE_RUNS]...")
@click.option("--out", type=FOLDER, help="Folder for the report and its JSON.  [default: results/compare/…]")
@click.option("--force", is_flag=True, help="Show two runs of different problems or inputs too; the decision is hold.")
@click.option("--plot", "picture", is_flag=True, help="Draw the ladder too (more than two runs).")
@RESULTS
def compare(runs: tuple[str, ...], out: Path | None, force: bool, picture: bool, results: Path) -> None:
    """Put two run directories side by side, or more as a ladder of stages.

    A run is a run directory, a packed run, latest:TASK, or recorded:DEVICE/TASK. Two runs give COMPARE.md and compare.json; more
    give LADDER.md and ladder.json: what each stage gained over the one before, and all of them together.

    Example: gates compare latest:stage1 latest:stage2
    """
    from gates.evidence.run_directory import resolve_run

    paths = [resolve_run(name, results) for name in runs]
    if len(paths) < 2:
        raise GatesError("compare needs two runs or more", hint="gates compare latest:stage1 latest:stage2")
    if twice := [name for number, name in enumerate(runs) if paths[number].resolve() in {path.resolve() for path in paths[:number]}]:
        raise GatesError(f"{twice[0]} is named twice: compare needs different runs", hint="`gates decide RUN` gives the decision of one run")
    if len(paths) > 2:
        sys.exit(_ladder(paths, out or results / "compare", force, picture))
    if picture:
        raise GatesError("--plot draws a ladder of three runs or more", hint="`gates plot RUN` draws one run's samples")
    from gates.render.markdown import read
    from gates.review.compare import compare_runs

    comparison = compare_runs(*paths, force=force)
    folder = comparison.write(out or results / "compare")
    _out(read(comparison.markdown(folded=False)), end="")
    _out(f"\nresources, errors, instructions and counters: {_short(folder / 'COMPARE.md')}")
    sys.exit(comparison.exit_code)


def _ladder(paths: list[Path], out: Path, force: bool, picture: bool) -> int:
    from gates.render.markdown import read
    from gates.review.ladder import ladder_of

    if force:
        raise GatesError("--force is for two runs", hint="compare them two by two")
    ladder = ladder_of(paths)
    folder = ladder.write(out, picture=picture)
    _out(read(ladder.markdown()), end="")
    _out(f"\nwritten: {_short(folder / 'LADDER.md')}" + (f", {_short(folder / 'ladder.png')}" if picture else ""))
    return ladder.exit_code


@cli.command()
@click.argument("run_directory", metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print the decision as JSON.")
@click.option("--junit", type=FILE, help="Write the gates as JUnit XML too.")
@click.option("--sarif", type=FILE, help="Write what did not pass as SARIF too, at its source lines.")
@click.option("--accept-policy-change", "reason", metavar="REASON", help="Accept terms looser than the baseline's; kept with the evidence.")
@RESULTS
def decide(run_directory: str, as_json: bool, junit: Path | None, sarif: Path | None, reason: str | None, results: Path) -> None:
    """Say merge, reject or hold for a run; the exit code says it too (0, 1, 3).

    The evidence is verified first, and the decision is taken again from the gates' verdicts.

    Example: gates decide latest:stage2
    """
    from gates.evidence.run_directory import resolve_run
    from gates.gate.decision import EXIT_CODES
    from gates.review.decide import accept_looser_terms, decide_run, decision_in, write_junit, write_sarif

    path = resolve_run(run_directory, results)
    decision, why = decide_run(path)
    if junit is not None:
        write_junit(path, junit)
    if sarif is not None:
        write_sarif(path, sarif)
    if reason is not None:  # last: nothing is accepted where something else went wrong
        accepted = accept_looser_terms(path, reason)
        print(f"written: {_short(accepted)}", file=sys.stderr)
        decision, why = decision_in(path)
    if as_json:
        _json({"decision": decision.value, "reason": why})
    else:
        _out(f"{decision.value}: {why}")
    sys.exit(EXIT_CODES[decision])


@cli.command()
@click.argument("run_directory", metavar="RUN")
@click.option("--set", "settings", multiple=True, metavar="GATE.KEY=VALUE", help="Judge by another limit, named as in task.yaml.")
@RESULTS
def judge(run_directory: str, settings: tuple[str, ...], results: Path) -> None:
    """Judge a run's stored evidence again, under other limits if asked; writes nothing.

    The exit code is that of the new decision: 0 merge, 1 reject, 3 hold; 2 for a run that gates verify does not find sound.

    Example: gates judge latest:stage2 --set performance.min_speedup_pct=20
    """
    from gates.evidence.run_directory import resolve_run
    from gates.render.judgement import judgement_table
    from gates.review.rejudge import judge_again

    judgement = judge_again(resolve_run(run_directory, results), settings)
    _out(judgement_table(judgement))
    sys.exit(judgement.exit_code)


@cli.command()
@click.argument("run_directory", metavar="RUN")
@click.option("-o", "--out", type=FILE, help="The picture, .png or .svg.  [default: results/TASK-timing.png]")
@RESULTS
def plot(run_directory: str, out: Path | None, results: Path) -> None:
    """Draw a run's timing: its samples with clock and power, its pair ratios and the bar.

    Example: gates plot latest:stage2 -o stage2.svg
    """
    from gates.evidence.run_directory import resolve_run
    from gates.review.timing_plot import picture_of

    _out(f"written: {_short(picture_of(resolve_run(run_directory, results), out))}")


@cli.command("history")
@click.argument("task", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@RESULTS
def history_command(task: str | None, as_json: bool, as_csv: bool, results: Path) -> None:
    """Show times, speed-up and decision of all runs of TASK, or of every task.

    The newest run is last. The beginning of several names up to an underscore takes all of these tasks. The runs are
    read, not verified; those that can't be read are named with the reason.

    Example: gates history stage2
    """
    from gates.render.history import history_csv, history_json, history_table
    from gates.review.history import history

    if as_json and as_csv:
        raise GatesError("--json and --csv exclude each other", hint="choose one")
    entries = history(results, task)
    if as_json:
        _json(history_json(entries))
    elif as_csv:
        _out(history_csv(entries), end="")
    else:
        _out(history_table(entries))


@cli.command()
@click.argument("run_directories", nargs=-1, required=True, metavar="RUN...")
@click.option("--format", "form", type=click.Choice(["md", "json"]), default="md", show_default=True, help="Markdown, or JSON for a program.")
@RESULTS
def insights(run_directories: tuple[str, ...], form: str, results: Path) -> None:
    """Say what to try next, with the evidence for it.

    Shown are where the time goes, what limits it and what was tried, each with the file and field of the evidence.

    Example: gates insights latest:stage2
    """
    from gates.evidence.run_directory import resolve_run
    from gates.render.insights import insights_json, insights_markdown
    from gates.render.markdown import read
    from gates.review.history import history_or_none
    from gates.review.insights.insights import insights_of

    runs = [resolve_run(name, results) for name in run_directories]
    entries = history_or_none(results)
    found = [insights_of(run, entries) for run in runs]
    _json(insights_json(found)) if form == "json" else _out(read(insights_markdown(found)), end="")


@cli.command("elite")
@click.argument("task")
@click.option("-k", type=click.IntRange(min=1), default=3, show_default=True, help="How many to list.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@RESULTS
def elite_command(task: str, k: int, as_json: bool, results: Path) -> None:
    """List the K best variants of TASK that may be merged.

    They are ranked by speed-up over the same baseline on the same device.

    Example: gates elite stage2 -k 3
    """
    from gates.render.elite import elite_json, elite_table
    from gates.review.leaderboard import elite

    found = elite(results, task, k)
    _json(elite_json(found)) if as_json else _out(elite_table(found))


@cli.command()
@click.argument("run_directories", nargs=-1, metavar="[RUN]...")
@click.option("--all", "everything", is_flag=True, help="The newest run of every task and device, instead of named runs.")
@click.option("-o", "--out", type=FILE, help="The HTML file.  [default: results/report.html]")
@RESULTS
def report(run_directories: tuple[str, ...], everything: bool, out: Path | None, results: Path) -> None:
    """Write runs as one HTML page for a browser.

    The page shows decision, gates, timing, errors, resources, counters and history. It needs no network. Runs are
    verified; the page reports one that is not sound.

    Example: gates report latest:stage2 -o stage2.html
    """
    from gates.report.write import write_report

    if everything == bool(run_directories):
        raise GatesError("name runs, or say --all", hint="e.g. gates report latest:stage2, or gates report --all")
    _out(f"written: {_short(write_report(results, run_directories, out))}")


@cli.command("attest")
@click.argument("run_directory", metavar="RUN")
@click.option("-o", "--out", type=FILE, help="File for the statement.  [default: RUN.attestation.json next to the run]")
@click.option("--key", type=FILE, help="Sign the statement with this SSH key, by ssh-keygen. The name of the signature file ends in .sig.")
@RESULTS
def attest_command(run_directory: str, out: Path | None, key: Path | None, results: Path) -> None:
    """Write an in-toto statement about RUN, and sign it if a key is given.

    The statement has the digest of the manifest, the decision, builds, device and tool version. The run is verified
    first. `gates verify RUN --signers FILE` checks the signature, and that the statement is about this run.

    Example: gates attest latest:stage2 --key ~/.ssh/id_ed25519
    """
    from gates.evidence.run_directory import resolve_run
    from gates.review.attestation import NAMESPACE, attest

    files = attest(resolve_run(run_directory, results), out, key)
    for path in files:
        _out(f"written: {_short(path)}")
    if key is None:
        _out(f"to sign it: ssh-keygen -Y sign -f KEY -n {NAMESPACE} {_short(files[0])}")


@cli.command()
@click.argument("run_directories", nargs=-1, required=True, metavar="RUN...")
@click.option("--signers", type=FILE, help="Check each run's attestation against this file of allowed signers (ssh-keygen).")
@RESULTS
def verify(run_directories: tuple[str, ...], signers: Path | None, results: Path) -> None:
    """Check that runs are whole and that each decision follows from the evidence.

    Digests, schemas, counts and every verdict are checked. RUN may be a sweep's folder, too: its variants, drops, timings
    and winner are checked. recorded:DEVICE is all that was recorded on it. A note says if this checkout's stage or problem
    is no longer what the run judged; that is not a fault of the run.

    Example: gates verify latest:stage2
    """
    from gates.cli.findings import findings, verifiable

    code = 0
    for name in run_directories:
        try:
            folders = verifiable(name, results)
        except GatesError as error:  # the others are checked all the same
            code = max(code, told(error))
            continue
        for folder in folders:
            try:
                problems, notes = findings(folder, signers)
            except Exception as error:
                _out(f"{_short(folder)}: not checked")
                code = max(code, told(error))
                continue
            _out(f"{_short(folder)}: {'sound' if not problems else 'not sound'}")
            for text in (*problems, *(f"note: {note}" for note in notes)):
                _out(f"  {text}")
            code = max(code, EXIT_USAGE if problems else 0)
    sys.exit(code)


@cli.command()
@click.argument("tasks", nargs=-1, required=True)
@click.option("--shape", help="Shape to profile.  [default: the performance gate's]")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the inputs.")
@click.option("--out", type=FOLDER, default=Path("build/profile"), show_default=True,
              help="Folder for the Nsight Compute reports.")
@TOGGLE
@BUILD_DIR
def profile(tasks: tuple[str, ...], shape: str | None, seed: int, out: Path, toggles: tuple[str, ...], build_dir: Path) -> None:
    """Show hardware counters of TASKS side by side, read by Nsight Compute.

    It needs a CUDA device.

    Example: gates profile stage0 stage3 --shape mission
    """
    from gates.pipeline.run import profile_tasks

    text, code = profile_tasks(tasks, shape=shape, seed=seed, out=out, toggles=_toggles(toggles), build_dir=build_dir)
    _out(text)
    sys.exit(code)


@cli.command()
@click.argument("task", required=False)
@click.option("--param", "params", multiple=True, metavar="NAME=V1,V2", help="Values of a toggle to try; several: every combination.")
@click.option("--resume", type=FOLDER, help="Continue the sweep in this folder, which knows its TASK. The same command as before continues it, too.")
@click.option("--profile", type=click.Choice(["auto", "cpu", "full"]), default="auto", show_default=True,
              help="cpu: resources and numbers alone; full needs a device.")
@click.option("--scheduler", metavar="tcp://HOST:PORT", help="Join a running Dask cluster instead of starting workers here.")
@click.option("--workers", type=click.IntRange(min=1), help="Workers for builds, here.  [default: one a core]")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: what sweep.json holds.")
@click.option("--plot", "picture", type=FILE, help="Draw time against resources, .png or .svg; needs a device.")
@RESULTS
@BUILD_DIR
def sweep(task: str | None, params: tuple[str, ...], resume: Path | None, profile: str, scheduler: str | None, workers: int | None, as_csv: bool,
          as_json: bool, picture: Path | None, results: Path, build_dir: Path) -> None:
    """Try every combination of toggles of TASK: build, check, time, and judge the winner.

    Variants over the task's budget or with wrong numbers are dropped, with the reason. The others are timed on a device by
    successive halving against the task as it is, and only a faster one wins. It needs the extra `sweep`.

    Example: gates sweep stage3 --param USE_CP_ASYNC=0,1
    """
    from gates.render.console import Progress
    from gates.render.sweep import draw, require_drawable, sweep_csv, sweep_json, sweep_table
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
        _json(sweep_json(found))
    else:
        _out(sweep_csv(found) if as_csv else f"{sweep_table(found)}\nevidence: {_short(folder)}", end="" if as_csv else "\n")
    if not found.left():
        raise GatesError(f"no variant is left: all {len(found.variants)} were dropped", hint=f"{_short(folder)}/sweep.json has the reasons", exit_code=EXIT_FAIL)
    if picture is not None:
        draw(found, picture)


@cli.command()
def doctor() -> None:
    """Say what was found on this machine, and what each missing tool costs.

    Example: gates doctor
    """
    from gates.diagnostics.doctor import report

    _out(report())


@cli.command("selftest")
def selftest_command() -> None:
    """Plant a fault in every gate on this machine and show that each gate refuses it.

    Exit code 0 only if every fault was refused and sound evidence passed in every gate, else 1.

    Example: gates selftest
    """
    from gates.diagnostics.selftest import selftest, whole
    from gates.render.console import plant_line

    outcomes, left_out = [], list[str]()
    for outcome in selftest(left_out):
        outcomes.append(outcome)
        _out(plant_line(outcome.gate, outcome.fault, outcome.result, sound=outcome.sound, good=outcome.good))
    for text in left_out:
        _out(f"left out: {text}")
    trusted = whole(outcomes)
    _out("every gate refused its faults and passed sound evidence" if trusted else "a gate can't be trusted on this machine")
    sys.exit(0 if trusted else 1)


@cli.command()
@click.argument("code")
def explain(code: str) -> None:
    """Explain a reason code, a gate, or a word of a verdict.

    A code (ptxas.spills) and a gate (ptxas) are explained by what is judged, why, and what to do. The words are weak,
    inconclusive, not run and the like.

    Example: gates explain ptxas.spills
    """
    from gates.diagnostics.explain import explain as explanation

    _out(explanation(code))


def main() -> NoReturn:
    """Run the command line: GatesErrors become `error:` and `hint:` lines, anything else exit 4."""
    if sys.flags.optimize > 1:
        _restore_help(cli)
    sys.exit(guard(lambda: cli.main(standalone_mode=False)))


def _restore_help(command: click.Command) -> None:
    """Read the help of a command and of those in its group from their docstrings, which Python leaves out under -OO."""
    function = getattr(command.callback, "__code__")  # noqa: B009
    source = ast.parse(Path(function.co_filename).read_text(encoding="utf-8"))
    command.help = next(ast.get_docstring(node) for node in ast.walk(source) if isinstance(node, ast.FunctionDef) and node.name == function.co_name)
    for one in getattr(command, "commands", {}).values():
        _restore_help(one)


def _out(text: str, *, end: str = "\n") -> None:
    """Print to stdout what may hold text of evidence or of kernels."""
    _print(plain_lines(text), end)


def _json(data: Any) -> None:
    """Print data as JSON."""
    from gates.core import jsonio

    _print(plain_json(jsonio.dumps(data)), "")


def _print(text: str, end: str) -> None:
    try:
        print(text, end=end)
    except UnicodeEncodeError:
        print(text.encode("ascii", "backslashreplace").decode(), end=end)


def _toggles(pairs: tuple[str, ...]) -> dict[str, str]:
    values = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise GatesError(f"--toggle {pair!r} is not NAME=VALUE", hint="e.g. --toggle USE_CP_ASYNC=0")
        values[name] = value
    return values


def _list(text: str | None, option: str, example: str) -> tuple[str, ...] | None:
    if text is None:
        return None
    names, hint = tuple(part.strip() for part in text.split(",") if part.strip()), f"e.g. {option} {example}"
    if not names:
        raise GatesError(f"{option}: {text!r} is an empty list", hint=hint)
    if len(set(names)) != len(names):
        raise GatesError(f"{option}: {text!r} names something twice", hint=f"each once, {hint}")
    if not text.isprintable():
        raise GatesError(f"{option}: {text!r} is not plain text", hint=hint)
    return names


def _numbers(text: str | None, option: str) -> tuple[int, ...] | None:
    names = _list(text, option, "0,1,2")
    if names is None:
        return None
    for name in names:
        if not (name.isascii() and name.isdigit() and len(name) <= 10 and int(name) <= MAX_SEED):
            raise GatesError(f"{option}: {name[:40]!r} is not a whole number from 0 to {MAX_SEED}", hint=f"e.g. {option} 0,1,2")
    return tuple(map(int, names))


def _short(path: Path) -> str:
    place = origin(path)
    try:
        return str(place.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(place)
