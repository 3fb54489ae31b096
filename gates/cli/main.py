"""The command line: the group of all commands, and what runs it. Nothing here decides anything."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import NoReturn

import click

from gates import __version__
from gates.cli import diagnostics, results, runs, tasks
from gates.cli.evaluate import evaluate, serve
from gates.cli.evolve import describe_command, evolve_command
from gates.cli.guard import guard
from gates.cli.importers import import_group
from gates.cli.options import Commands
from gates.cli.packed import pack_command, unpack_command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="gates")
def cli() -> None:
    """Build CUDA kernel stages, judge them by gates, and say whether they may be merged.

    Exit codes: 0 all asked-for gates passed (decide: merge), 1 a gate failed (reject),
    2 wrong usage or invalid input, 3 hold or inconclusive, 4 internal error.

    TASK is a task's name in `gates list`, the beginning of one up to an underscore, or a task folder.
    RUN is a run directory, latest:TASK, or recorded:DEVICE/TASK.

    Example: gates run stage2
    """


for command in (
    tasks.list_command,
    tasks.new_command,
    tasks.build,
    runs.run,
    evaluate,
    serve,
    evolve_command,
    describe_command,
    runs.profile,
    runs.sweep,
    results.compare,
    results.decide,
    results.judge,
    results.plot,
    results.history_command,
    results.insights,
    results.elite_command,
    results.report,
    results.attest_command,
    results.export_command,
    results.verify,
    diagnostics.doctor,
    diagnostics.lint_task,
    diagnostics.selftest_command,
    diagnostics.calibrate_command,
    diagnostics.explain,
    import_group,
    pack_command,
    unpack_command,
):
    cli.add_command(command)


def main() -> NoReturn:
    """Run the command line: GatesErrors become `error:` and `hint:` lines, anything else exit 4."""
    if sys.flags.optimize > 1:
        _restore_help(cli)
    sys.exit(guard(lambda: cli.main(standalone_mode=False)))


def _restore_help(command: click.Command) -> None:
    """Read the help of a command and of those in its group from their docstrings, which Python leaves out under -OO."""
    function = getattr(command.callback, "__code__")  # noqa: B009
    source = ast.parse(Path(function.co_filename).read_text(encoding="utf-8"))
    command.help = next(
        ast.get_docstring(node) for node in ast.walk(source) if isinstance(node, ast.FunctionDef) and node.name == function.co_name
    )
    for one in getattr(command, "commands", {}).values():
        _restore_help(one)
