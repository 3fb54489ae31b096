"""``gates evaluate`` judges one candidate; ``gates serve`` judges those that a program sends."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from gates.cli.guard import told
from gates.cli.options import BUILD_DIR, JOBS, RESULTS, TOGGLE, task_names, toggle_values
from gates.cli.output import print_json, print_text
from gates.core.errors import GatesError
from gates.evaluation.record import STAGES

_STAGE = click.option(
    "--stage",
    type=click.Choice(list(STAGES)),
    default="memory",
    show_default=True,
    help="Last check to make; speed needs a device.",
)
_AGAINST = click.option(
    "--against",
    metavar="task|baseline|elite|RUN",
    default="task",
    show_default=True,
    help="What to time against: the unchanged task, its baseline, its best version that may be merged, or that of a run.",
)
_BUDGET = click.option(
    "--budget", "budget_s", type=click.FloatRange(min=1.0), default=10.0, show_default=True, help="Seconds of timing, at most."
)
_PROFILE = click.option(
    "--profile", type=click.Choice(["auto", "cpu", "full"]), default="auto", show_default=True, help="cpu: without a device."
)


@click.command("evaluate")
@click.argument("task", shell_complete=task_names)
@click.option("--source", "sources", multiple=True, metavar="NAME=FILE", help="Replace a file of the stage; - reads stdin.")
@_STAGE
@_AGAINST
@_BUDGET
@_PROFILE
@click.option("--device", type=click.IntRange(min=0), default=0, show_default=True, help="Index of the CUDA device.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as one JSON object.")
@click.option("--watch", is_flag=True, help="Judge again when a file of the task or a FILE is saved, until Ctrl-C.")
@TOGGLE
@RESULTS
@BUILD_DIR
@JOBS
def evaluate(
    task: str,
    sources: tuple[str, ...],
    stage: str,
    against: str,
    budget_s: float,
    profile: str,
    device: int,
    as_json: bool,
    watch: bool,
    toggles: tuple[str, ...],
    results: Path,
    build_dir: Path,
    jobs: int | None,
) -> None:
    """Judge a candidate: TASK with other source text or toggles.

    Checks stop at the first that fails. The answer has a status, a score (the low end of the speed-up over TASK without changes), figures
    and a text that says what to fix. It is kept under RESULTS/evaluations and given again at once. Exit codes: 0 pass, 1 fail,
    3 no verdict. With --watch the exit code is that of the last answer. With --json an error is {"error": {"what", "hint"}}.

    Example: gates evaluate stage2 --source kernel.cu=mine.cu --json
    """
    from gates.worker.job import warm_up

    warm_up()  # torch's import takes longer than those below

    from gates.evaluation.terms import Terms

    terms = Terms(stage, against, profile, device, budget_s, results, build_dir, jobs)
    if not watch:
        with _error_as_json(as_json):
            code = _judge(task, _files(sources), toggles, terms, as_json)
        sys.exit(code)

    from gates.evaluation.watch import Watched

    if None in (replacing := _files(sources)).values():
        raise GatesError("--watch can't read a source from stdin", hint="--source NAME=FILE, and save FILE to have it judged")
    watched = Watched(task, [path for path in replacing.values() if path is not None])
    while True:
        try:
            with _error_as_json(as_json):
                code = _judge(task, replacing, toggles, terms, as_json)
        except GatesError as error:
            code = told(error)
        print(f"watching {len(watched)} files of {task}; save one to judge again, Ctrl-C to stop", file=sys.stderr, flush=True)
        try:
            watched.wait()
        except KeyboardInterrupt:
            sys.exit(code)
        watched.read()


@contextlib.contextmanager
def _error_as_json(as_json: bool) -> Iterator[None]:
    """Print what the block raises as one JSON object too, if JSON is asked for: {"error": {"what", "hint"}}, as ``gates serve`` answers."""
    try:
        yield
    except Exception as error:
        if as_json:
            from gates.evaluation import serve

            print_json({"error": serve.told(error)})
        raise


def _judge(task: str, replacing: Mapping[str, Path | None], toggles: tuple[str, ...], terms: Any, as_json: bool) -> int:
    """Judge by ``Terms`` and print the answer; its exit code."""
    from gates.launch import device
    from gates.worker.process import ToolThreads

    with ToolThreads(1) as early:
        probe = early.submit(device.probe)  # the driver takes longer than the imports below

        from gates.core.records import to_json
        from gates.evaluation.evaluate import evaluate_task
        from gates.evaluation.overlay import Candidate
        from gates.render.console import Progress

        candidate = Candidate({name: _text(name, path) for name, path in replacing.items()}, toggle_values(toggles))
        with Progress() as progress:
            found = evaluate_task(task, candidate, terms, progress, probe.result)
    if as_json:
        print_json(to_json(found))
    else:
        again = " (stored answer)" if found.cached else ""
        print_text(f"{found.status}: {found.task} {found.id}, last check: {found.stage}{again}")
        if found.score is not None:
            print_text(
                f"score {found.score:.4f} ({found.score:.3f} to {found.score_high:.3f} of the incumbent's speed, p50 {found.p50_us:.4g} us)"
            )
        print_text(found.feedback)
        print_text(f"evidence: {terms.results / found.evidence}")
    sys.stdout.flush()
    return found.exit_code


def _files(sources: tuple[str, ...]) -> dict[str, Path | None]:
    """Name -> file of each ``NAME=FILE``; None stands for stdin."""
    found: dict[str, Path | None] = {}
    for given in sources:
        name, equals, place = given.partition("=")
        if not equals or not name or not place:
            raise GatesError(f"--source {given!r} is not NAME=FILE", hint="e.g. --source kernel.cu=mine.cu, or kernel.cu=- for stdin")
        if name in found:
            raise GatesError(f"--source {name} is given twice", hint="each file once")
        found[name] = None if place == "-" else Path(place)
    return found


def _text(name: str, path: Path | None) -> str:
    try:
        return (sys.stdin.buffer.read() if path is None else path.read_bytes()).decode("utf-8")
    except OSError as error:
        raise GatesError(f"--source {name}={path}: {error.strerror or error}", hint="name a file that can be read") from None
    except UnicodeDecodeError:
        raise GatesError(f"--source {name}={path or '-'}: not UTF-8 text", hint="a kernel source is text") from None


@click.command("serve")
@click.argument("tasks", nargs=-1, required=True, shell_complete=task_names)
@click.option(
    "--http",
    "port",
    type=click.IntRange(min=0, max=65535),
    help="HTTP on this port of 127.0.0.1 (0: a free one).  [default: JSON lines on stdin and stdout]",
)
@click.option("--mcp", is_flag=True, help="Model Context Protocol on stdin and stdout; needs the extra mcp.")
@_STAGE
@_AGAINST
@_BUDGET
@_PROFILE
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    help="Candidates at a time.  [default: one for two cores; on a device, three for four and no more than fit it]",
)
@click.option("--scheduler", metavar="tcp://HOST:PORT", help="Have the workers of a running Dask cluster judge, on all their cards.")
@RESULTS
@BUILD_DIR
def serve(
    tasks: tuple[str, ...],
    port: int | None,
    mcp: bool,
    stage: str,
    against: str,
    budget_s: float,
    profile: str,
    workers: int | None,
    scheduler: str | None,
    results: Path,
    build_dir: Path,
) -> None:
    """Evaluate candidates for a program that asks, by lines, HTTP or MCP.

    A request of JSON lines is one line, and so is its answer.

    Methods: evaluate (params: task, files, toggles, name, parent, note), describe, insights, elite, status and cancel (params: id).
    With --http: POST /evaluate, GET /status/ID, POST /cancel/ID, GET /describe/TASK, /insights/TASK, /elite/TASK, /health.

    Example: gates serve stage2 --http 8080
    """
    from gates.evaluation.evaluator import Evaluator
    from gates.evaluation.serve import Service, http_server, serve_lines
    from gates.evaluation.terms import Terms
    from gates.task.load import find_task

    if mcp and port is not None:
        raise GatesError("--mcp and --http exclude each other", hint="choose one")
    make = _mcp_server() if mcp else None
    terms = Terms(stage, against, profile, 0, budget_s, results, build_dir)
    with contextlib.ExitStack() as stack:
        evaluators = {find_task(task).name: stack.enter_context(Evaluator(task, terms, workers, scheduler)) for task in tasks}
        service = Service(evaluators)
        if make is not None:
            make(service).run()
            return
        if port is None:
            serve_lines(service, sys.stdin, sys.stdout)
            return
        try:
            server = http_server(service, port)
        except OSError as error:
            raise GatesError(f"port {port} can't be taken: {error.strerror}", hint="--http 0 takes a free one") from None
        with server:
            print(f"serving {', '.join(evaluators)} on http://127.0.0.1:{server.server_address[1]}", file=sys.stderr, flush=True)
            server.serve_forever()


def _mcp_server() -> Callable[[Any], Any]:
    """What makes the MCP server; raises GatesError without its SDK."""
    try:
        from gates.evaluation.mcp_server import mcp_server
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        raise GatesError("the Model Context Protocol's SDK is not installed", hint="pip install 'kernel-gates[mcp]'") from None
    return mcp_server
