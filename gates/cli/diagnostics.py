"""Commands about this machine, a task folder and the words of a verdict: ``doctor``, ``lint-task``, ``selftest``, ``explain``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gates.cli.options import DEVICE, PATH, RESULTS, code_names
from gates.cli.output import print_text
from gates.core.errors import EXIT_HOLD, EXIT_OK


@click.command()
def doctor() -> None:
    """Say what was found on this machine, and what each missing tool costs.

    Example: gates doctor
    """
    from gates.diagnostics.doctor import report

    print_text(report())


@click.command("lint-task")
@click.argument("folder", type=PATH)
def lint_task(folder: Path) -> None:
    """Name everything that is wrong in the task in FOLDER, without building it.

    The kernel does not run either. The exit code is 0 if nothing is wrong, 1 with findings, 2 if FOLDER has no task.

    Example: gates lint-task ./my_norm
    """
    from gates.diagnostics.lint import lint

    found = lint(folder)
    for text in found:
        print_text(text)
    print_text(f"{len(found)} finding{'s' * (len(found) != 1)}" if found else "nothing found")
    sys.exit(1 if found else 0)


@click.command("selftest")
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
        print_text(plant_line(outcome.gate, outcome.fault, outcome.result, sound=outcome.sound, good=outcome.good))
    for text in left_out:
        print_text(f"left out: {text}")
    trusted = whole(outcomes)
    print_text("every gate refused its faults and passed sound evidence" if trusted else "a gate can't be trusted on this machine")
    sys.exit(0 if trusted else 1)


@click.command("calibrate")
@RESULTS
@DEVICE
def calibrate_command(results: Path, device: int) -> None:
    """Measure the peaks of this card: memory, FP32 units, powers and tensor cores.

    The samples are kept in RESULTS. Later runs on this card and driver compare kernels with these peaks instead of the data sheet's.
    It needs a CUDA device. The exit code is 3 if a unit could not be measured.

    Example: gates calibrate
    """
    from gates.diagnostics.calibrate import calibrate
    from gates.gate.performance.calibrated import peaks_of, summary
    from gates.render.console import Progress

    with Progress() as progress:
        card, path, missing = calibrate(results, device, progress)
    print_text("\n".join([*summary(card.device, peaks_of(card)), *missing, f"kept in {path}"]))
    sys.exit(EXIT_HOLD if missing else EXIT_OK)


@click.command()
@click.argument("code", shell_complete=code_names)
def explain(code: str) -> None:
    """Explain a reason code, a gate, or a word of a verdict.

    A code (ptxas.spills) and a gate (ptxas) are explained by what is judged, why, and what to do. The words are weak,
    inconclusive, not run and the like.

    Example: gates explain ptxas.spills
    """
    from gates.diagnostics.explain import explain as explanation

    print_text(explanation(code))
