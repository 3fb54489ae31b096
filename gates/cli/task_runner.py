"""A task's runner as people start it: build, run the cases, print the errors and, on a device, times.

This is for looking at one kernel while writing it, and for replaying one case of a run that failed. It has no
baseline and writes no evidence; ``gates run`` does that.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from gates.build.build import build
from gates.build.toolchain import find_toolchain
from gates.cli.guard import guard
from gates.core.errors import EXIT_FAIL, EXIT_HOLD, EXIT_OK, GatesError
from gates.core.records import Check, GateResult, Status
from gates.core.text import plain_lines
from gates.gate.correctness import evidence as correctness
from gates.gate.correctness import judge
from gates.gate.correctness.collect import run_correctness
from gates.gate.correctness.failed_case import clearest_first
from gates.gate.correctness.limits import BOUND, FIGURES
from gates.gate.performance import evidence as performance
from gates.gate.performance.collect import run_timing
from gates.gate.registry import ROWS
from gates.launch import device as devices
from gates.render.console import story
from gates.task.load import WITHOUT_DEVICE, Task, load_task
from gates.task.problem import MAX_SEED, asked_inputs
from gates.task.reproduce import limit_places, runner_command
from gates.worker.describe import describe
from gates.worker.job import own_lines

_EXIT = {Status.PASS: EXIT_OK, Status.FAIL: EXIT_FAIL}
_FULL = 3  # failing cases that are told in full


def main(file: str, arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the task whose runner.py is ``file``, as the command line says, and exit."""
    folder = Path(file).resolve().parent
    options = _parser(folder.name).parse_args(arguments)
    sys.exit(guard(lambda: _main(folder, options)))


def _main(folder: Path, options: argparse.Namespace) -> int:
    replay = options.shape is not None or options.seed is not None
    with tempfile.TemporaryDirectory(prefix="gates-runner-") as work:
        return run(
            folder,
            Path(work),
            shapes=options.shapes if options.shape is None else [options.shape],
            seeds=options.seeds if options.seed is None else [options.seed],
            inputs=options.inputs or (["default"] if replay else []),
            iters=options.iters,
            device=options.device,
            build_dir=options.build_dir,
        )


def run(
    folder: Path,
    work: Path,
    *,
    shapes: Sequence[str] | None,
    seeds: Sequence[int] | None,
    inputs: Sequence[str] = (),
    iters: int,
    device: str,
    build_dir: Path,
) -> int:
    """Run the task in ``folder`` and print to stdout; the exit code. ``device``: auto, cuda, or emulator or cpu for none.

    With ``inputs`` (families, or "default"), or with a drawn shape, just shapes x seeds x inputs are run, each case as in a whole run;
    without, the odd shapes and the families too.
    Raises GatesError for an unknown shape or family, a failed build, and where there is no CUDA device for ``cuda``.
    """
    task = load_task(folder)
    shapes, seeds = tuple(shapes or task.shapes), tuple(seeds if seeds is not None else task.seeds)
    inputs = asked_inputs(shapes, inputs)
    if wrong := [seed for seed in seeds if not 0 <= seed <= MAX_SEED]:
        raise GatesError(f"seed {wrong[0]} is not a whole number from 0 to {MAX_SEED}", hint="e.g. --seed 0")
    describe(task.folder, task.problem, shapes, work=work, limit_s=task.time_limit_s, inputs=inputs, arguments=task.arguments)
    found = _device(device)
    side = _build(task, found, build_dir)
    print(f"{task.name} on {found.name if found else WITHOUT_DEVICE[task.kind]}")
    cuda = f"cuda:{found.index}" if found else "cpu"
    limits = ROWS["correctness"].own_limits(task.gates["correctness"])
    raw = run_correctness(
        side,
        shapes,
        seeds,
        work=work,
        limit_s=task.time_limit_s,
        device=cuda,
        bad_atol=limits.get("bad_atol"),
        end_to_end_bad_atol=limits.get("end_to_end", {}).get("bad_atol"),
        inputs=inputs,
        limits=limits,
        runner=runner_command(task),
        limits_at=limit_places(task),
    )
    if printed := [line for tried in raw["candidate"]["jobs"] for line in own_lines(tried["output_tail"])]:
        print(plain_lines("\n".join(["printed by the kernel's process, the end of it:", *printed])), file=sys.stderr)
    evidence = correctness.parse(raw)
    result = judge.judge(evidence, limits)
    print(plain_lines(table(evidence, result)))
    print(plain_lines(f"correctness: {result.status.value}: {result.sentence}"))
    for text in _findings(result):
        print(plain_lines(f"  {text}"))
    if iters and found is None:
        print("timing: left out: times on the emulator say nothing about a device")
    elif iters:
        for shape in shapes:
            print(_timing(task, side, shape, cuda, iters, work))
    return _EXIT.get(result.status, EXIT_HOLD)


def _parser(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python {name}/runner.py",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Run one kernel stage on its cases and print the errors against the reference.",
        epilog=f"example: python {name}/runner.py --shapes small,mission --seeds 0,1,2 --iters 500\n"
        f"one case: python {name}/runner.py --shape small --seed 0",
    )
    shapes, seeds = parser.add_mutually_exclusive_group(), parser.add_mutually_exclusive_group()
    shapes.add_argument("--shapes", type=_names, help="shapes, separated by commas (default: the task's)")
    shapes.add_argument("--shape", metavar="SHAPE", help="replay cases of this shape: no odd shapes, no input families but those named")
    seeds.add_argument("--seeds", type=_integers, help="seeds, separated by commas (default: the task's)")
    seeds.add_argument("--seed", type=int, metavar="N", help="replay cases of this seed")
    parser.add_argument("--inputs", type=_names, help="input families, or default, separated by commas: run these and nothing else")
    parser.add_argument("--iters", type=int, default=0, metavar="N", help="time N launches too (CUDA device only)")
    parser.add_argument(
        "--device",
        choices=("auto", "cuda", "emulator", "cpu"),
        default="auto",
        help="where to run; emulator and cpu both mean without a device",
    )
    parser.add_argument("--build-dir", type=Path, default=Path("build"), metavar="DIR", help="folder of build products")
    return parser


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _integers(text: str) -> list[int]:
    try:
        return [int(part) for part in _names(text)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of integers such as 0,1,2") from None


def table(evidence: correctness.CorrectnessEvidence, result: GateResult) -> str:
    """The cases as aligned text: one line each, whether it passed, the worst output's errors, or what became of it."""
    failed = {check.where for check in result.checks if check.status is Status.FAIL}
    width = max(28, *(len(case.where) for case in evidence.cases)) if evidence.cases else 28
    lines = [f"{'case':{width}} {'status':13} {'max_abs_err':>12} {'mean_abs_err':>12} {'bad_pct':>8} {'err/bound':>9} {'seconds':>8}"]
    for case in evidence.cases:
        seconds = "" if case.wall_s is None else f"{case.wall_s:.2f}"
        if case.status != "ok":
            lines.append(f"{case.where:{width}} {case.status:13} {case.message}")
            continue
        worst = [_worst([getattr(output, figure) for output in case.outputs]) for figure in (*FIGURES, BOUND)]
        lines.append(
            f"{case.where:{width}} {'FAIL' if case.where in failed else 'pass':13} {worst[0]:>12} {worst[1]:>12} {worst[2]:>8} "
            f"{worst[3]:>9} {seconds:>8}"
        )
    return "\n".join(lines)


def _device(asked: str) -> devices.DeviceInfo | None:
    if asked in ("emulator", "cpu"):
        return None
    probe = devices.probe()
    if probe.devices:
        return probe.devices[0]
    if asked == "cuda":
        raise GatesError(probe.reason, hint="--device emulator runs the kernel on the CPU", exit_code=EXIT_HOLD)
    return None


def _build(task: Task, found: devices.DeviceInfo | None, build_dir: Path) -> dict[str, Any]:
    kind = "device" if found else "emulator"
    result = build(
        task,
        find_toolchain(),
        build_dir,
        device_arch=found.arch if found else None,
        want={kind},
        progress=lambda text: print(text, file=sys.stderr),
    )
    if result.path(kind) is None:
        failure = result.failure(kind)
        raise GatesError(
            failure.sentence if failure else f"{task.name} was not built", hint=failure.hint if failure else None, exit_code=EXIT_FAIL
        )
    return result.side(task, kind)


def _timing(task: Task, side: dict[str, Any], shape: str, cuda: str, iters: int, work: Path) -> str:
    """One line of kernel times of a shape, without a verdict: that needs a baseline, see ``gates run``."""
    raw = run_timing(
        side,
        shape=shape,
        work=work / f"timing-{shape}",
        limit_s=task.time_limit_s,
        bar_pct=0.0,
        output_limits=task.gates["correctness"],
        device=cuda,
        iters=iters,
    )
    evidence = performance.parse(raw)
    if evidence.status != performance.MEASURED:
        return f"timing {shape}: {evidence.message}"
    figures = evidence.figures[evidence.gated_mode]["candidate"]
    p90 = f"{figures.p90_us:.2f} us" if figures.p90_us is not None else f"unknown ({figures.p90_reason})"
    return f"timing {shape}: p50 {figures.p50_us:.2f} us, p90 {p90}, mean {figures.mean_us:.2f} us ({evidence.gated_mode} L2)"


def _worst(values: Sequence[float | None]) -> str:
    return "-" if None in values else f"{max(value for value in values if value is not None):.3g}"


def _findings(result: GateResult) -> list[str]:
    """The first failing cases with all their checks, each hint once, and each case's story; then how many more there are."""
    cases: dict[str, list[Check]] = {}
    for check in clearest_first(result.checks):
        if check.status is not Status.PASS and check.hint:
            cases.setdefault(check.where, []).append(check)
    lines: list[str] = []
    for checks in list(cases.values())[:_FULL]:
        mapped = any(check.notes for check in checks)
        for check in checks[:1] if mapped else checks:
            hint = f"{check.name} ({check.where}): {check.hint}"
            lines += [hint] if check.hint not in "".join(lines) else []
        if mapped and len(checks) > 1:
            lines.append(f"also: {', '.join(check.name for check in checks[1:])}")
        lines += [line for check in checks for line in check.notes]
        lines += [line for line in story(checks[0]) if line.startswith("reproduce")]
    more = len(cases) - _FULL
    return [*lines, f"and {more} more failing case{'s' * (more > 1)}"] if more > 0 else lines
