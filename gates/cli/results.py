"""Commands that read finished runs: ``compare``, ``decide``, ``judge``, ``verify`` and the like."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gates.cli.guard import told
from gates.cli.options import FILE, FOLDER, RESULTS, run_names, task_names
from gates.cli.output import print_json, print_text, short_path, width
from gates.core.errors import EXIT_USAGE, GatesError


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="BASELINE_RUN CANDIDATE_RUN [MORE_RUNS]...", shell_complete=run_names)
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
        raise GatesError(
            f"{twice[0]} is named twice: compare needs different runs", hint="`gates decide RUN` gives the decision of one run"
        )
    if len(paths) > 2:
        sys.exit(_ladder(paths, out or results / "compare", force, picture))
    if picture:
        raise GatesError("--plot draws a ladder of three runs or more", hint="`gates plot RUN` draws one run's samples")
    from gates.render.markdown import read
    from gates.review.compare import compare_runs

    comparison = compare_runs(*paths, force=force)
    folder = comparison.write(out or results / "compare")
    print_text(read(comparison.markdown(folded=False), width()), end="")
    print_text(f"\nresources, errors, instructions and counters: {short_path(folder / 'COMPARE.md')}")
    sys.exit(comparison.exit_code)


def _ladder(paths: list[Path], out: Path, force: bool, picture: bool) -> int:
    from gates.render.markdown import read
    from gates.review.ladder import ladder_of

    if force:
        raise GatesError("--force is for two runs", hint="compare them two by two")
    ladder = ladder_of(paths)
    folder = ladder.write(out, picture=picture)
    print_text(read(ladder.markdown(), width()), end="")
    print_text(f"\nwritten: {short_path(folder / 'LADDER.md')}" + (f", {short_path(folder / 'ladder.png')}" if picture else ""))
    return ladder.exit_code


@click.command()
@click.argument("run_directory", metavar="RUN", shell_complete=run_names)
@click.option("--json", "as_json", is_flag=True, help="Print the decision as JSON.")
@click.option("--junit", type=FILE, help="Write the gates as JUnit XML too.")
@click.option("--sarif", type=FILE, help="Write what did not pass as SARIF too, at its source lines.")
@click.option("--accept-policy-change", "reason", metavar="REASON", help="Accept terms looser than the baseline's; kept with the evidence.")
@click.option(
    "--gpu-verdict-of",
    "gpu_run",
    metavar="GPU_RUN",
    shell_complete=run_names,
    help="Take over the verdict of a run on a GPU, if machine code, host code and terms are unchanged.",
)
@RESULTS
def decide(
    run_directory: str, as_json: bool, junit: Path | None, sarif: Path | None, reason: str | None, gpu_run: str | None, results: Path
) -> None:
    """Say merge, reject or hold for a run; the exit code says it too (0, 1, 3).

    The evidence is verified first, and the decision is taken again from the gates' verdicts.

    Example: gates decide latest:stage2
    """
    from gates.evidence.run_directory import Verdict, read_record, resolve_run
    from gates.gate.decision import EXIT_CODES
    from gates.render.findings import fact
    from gates.review.decide import accept_looser_terms, decision_in, write_junit, write_sarif
    from gates.review.takeover import take_over
    from gates.verify.run import require_sound

    path = resolve_run(run_directory, results)
    require_sound(path)
    takeover = take_over(path, resolve_run(gpu_run, results)) if gpu_run else None
    gates = takeover.gates if takeover else read_record(Verdict, path, "verdict.json").gates
    if junit is not None:
        write_junit(path, gates, junit)
    if sarif is not None:
        write_sarif(path, gates, sarif)
    if reason is not None:  # last: nothing is accepted where something else went wrong
        accepted = accept_looser_terms(path, reason)
        print(f"written: {short_path(accepted)}", file=sys.stderr)
    decision, why = decision_in(path, gates)
    why += f"; {takeover.words}" if takeover else ""
    behind = fact(decision, gates, why)
    if as_json:
        taken = {"taken_over": list(takeover.taken)} if takeover else {}
        print_json({"decision": decision.value, "reason": why, "fact": behind, **taken})
    else:
        print_text(f"{decision.value}: {behind}" + (f"\n{why}" if behind != why else ""))
    sys.exit(EXIT_CODES[decision])


@click.command()
@click.argument("run_directory", metavar="RUN", shell_complete=run_names)
@click.option("--set", "settings", multiple=True, metavar="GATE.KEY=VALUE", help="Judge by another limit, named as in task.yaml.")
@RESULTS
def judge(run_directory: str, settings: tuple[str, ...], results: Path) -> None:
    """Judge a run's stored evidence again, under other limits if asked; writes nothing.

    The exit code is that of the new decision: 0 merge, 1 reject, 3 hold; 2 for a run that gates verify does not find sound.

    Example: gates judge latest:stage2 --set performance.shapes.mission=20
    """
    from gates.evidence.run_directory import resolve_run
    from gates.render.judgement import judgement_table
    from gates.review.rejudge import judge_again

    judgement = judge_again(resolve_run(run_directory, results), settings)
    print_text(judgement_table(judgement))
    sys.exit(judgement.exit_code)


@click.command()
@click.argument("run_directory", metavar="RUN", shell_complete=run_names)
@click.option("-o", "--out", type=FILE, help="The picture, .png or .svg.  [default: results/TASK-timing.png]")
@RESULTS
def plot(run_directory: str, out: Path | None, results: Path) -> None:
    """Draw a run's timing: its samples with clock and power, its pair ratios and the threshold.

    Example: gates plot latest:stage2 -o stage2.svg
    """
    from gates.evidence.run_directory import resolve_run
    from gates.review.timing_plot import picture_of

    print_text(f"written: {short_path(picture_of(resolve_run(run_directory, results), out))}")


@click.command("history")
@click.argument("task", required=False, shell_complete=task_names)
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
        print_json(history_json(entries))
    elif as_csv:
        print_text(history_csv(entries), end="")
    else:
        print_text(history_table(entries, width()))


@click.command()
@click.argument("run_directories", nargs=-1, required=True, metavar="RUN...", shell_complete=run_names)
@click.option(
    "--format", "form", type=click.Choice(["md", "json"]), default="md", show_default=True, help="Markdown, or JSON for a program."
)
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
    print_json(insights_json(found)) if form == "json" else print_text(read(insights_markdown(found), width()), end="")


@click.command("elite")
@click.argument("task", shell_complete=task_names)
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
    print_json(elite_json(found)) if as_json else print_text(elite_table(found))


@click.command()
@click.argument("run_directories", nargs=-1, metavar="[RUN]...", shell_complete=run_names)
@click.option("--all", "everything", is_flag=True, help="The newest run of every task and device, instead of named runs.")
@click.option("-o", "--out", type=FILE, help="The HTML file.  [default: results/report.html]")
@RESULTS
def report(run_directories: tuple[str, ...], everything: bool, out: Path | None, results: Path) -> None:
    """Write runs as one HTML page for a browser.

    The page shows decision, gates, timing, errors, resources, counters and history. It needs no network. Runs are
    verified; the page reports one that is not sound.

    Example: gates report latest:stage2 -o stage2.html
    """
    from gates.review.report.write import write_report

    if everything == bool(run_directories):
        raise GatesError("name runs, or say --all", hint="e.g. gates report latest:stage2, or gates report --all")
    print_text(f"written: {short_path(write_report(results, run_directories, out))}")


@click.command("export")
@click.argument("run_directory", metavar="RUN", shell_complete=run_names)
@click.option("--format", "suite", type=click.Choice(["kernelbench", "flashinfer-bench", "kernelbot"]), required=True, help="Whose format.")
@click.option("-o", "--out", type=FILE, help="File to write.  [default: stdout]")
@RESULTS
def export_command(run_directory: str, suite: str, out: Path | None, results: Path) -> None:
    """Write the verdict of RUN in the format of a public suite.

    The run is verified first. kernelbench: an entry of eval_results.json; flashinfer-bench: a trace; kernelbot: the lines of a
    submission's run.

    Example: gates export latest:stage2 --format kernelbench
    """
    from gates.evidence.run_directory import resolve_run, write_outside_runs
    from gates.review.export import export

    text = export(resolve_run(run_directory, results), suite)
    if out is None:
        print_text(text, end="")
    else:
        write_outside_runs(out, text, hint="name another file with -o")


@click.command("attest")
@click.argument("run_directory", metavar="RUN", shell_complete=run_names)
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
        print_text(f"written: {short_path(path)}")
    if key is None:
        print_text(f"to sign it: ssh-keygen -Y sign -f KEY -n {NAMESPACE} {short_path(files[0])}")


@click.command()
@click.argument("run_directories", nargs=-1, required=True, metavar="RUN...", shell_complete=run_names)
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

    code, folders, sound, noted, unread = 0, list[Path](), 0, dict[str, list[Path]](), 0
    for name in run_directories:
        try:
            folders += verifiable(name, results)
        except GatesError as error:  # the others are checked all the same
            code, unread = max(code, told(error)), unread + 1
    for folder in folders:
        try:
            problems, notes = findings(folder, signers)
        except Exception as error:
            print_text(f"{short_path(folder)}: not checked")
            code = max(code, told(error))
            continue
        print_text(f"{short_path(folder)}: {'sound' if not problems else 'not sound'}")
        for problem in problems:
            print_text(f"  {problem}")
        sound += not problems
        for note in notes:
            noted.setdefault(note, []).append(folder)
        code = max(code, EXIT_USAGE if problems else 0)
    if len(folders) + unread > 1:
        print_text(f"{sound} of {len(folders) + unread} sound")
    for note, runs in noted.items():  # many runs share a note
        of = "" if len(folders) == 1 else f" ({short_path(runs[0]) if len(runs) == 1 else f'{len(runs)} runs'})"
        print_text(f"  note{of}: {note}")
    sys.exit(code)
