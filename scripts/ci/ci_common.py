"""What the steps of the workflows share: the event, outputs, the step summary, and errors that read well.

The steps run on GitHub's runners, but need nothing of them: every file and address comes from the
environment, so a test can give its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

MAX_SUMMARY_BYTES = 1_000_000  # GitHub takes 1 MiB a step
_HIDDEN = ("GITHUB_", "ACTIONS_", "RUNNER_", "INPUT_")


class CiError(Exception):
    """Something that stops a step: ``what`` is wrong and where; ``hint`` says what to do."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


def run_step(step: Callable[[], int]) -> int:
    """Call a step and return its exit code; a CiError becomes one message and exit code 2."""
    try:
        return step()
    except CiError as error:
        print(f"error: {in_one_line(error.what)}", file=sys.stderr)
        if error.hint:
            print(f"hint: {in_one_line(error.hint)}", file=sys.stderr)
        return 2


def in_one_line(text: str) -> str:
    """``text`` without line ends: in a log, a line that begins with ``::`` is a command to the runner."""
    return " ".join(text.split())


def variable(name: str) -> str:
    """An environment variable that the step can't do without."""
    value = os.environ.get(name, "")
    if not value:
        raise CiError(f"{name} is not set", "a workflow step sets it; by hand, set it yourself")
    return value


def read_event() -> tuple[str, dict[str, Any]]:
    """(name, payload) of the event that started the workflow."""
    path = Path(variable("GITHUB_EVENT_PATH"))
    try:
        payload = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CiError(f"can't read the event {path}: {error}") from None
    if not isinstance(payload, dict):
        raise CiError(f"the event {path} is no object")
    return variable("GITHUB_EVENT_NAME"), payload


def set_output(name: str, value: str) -> None:
    """Set a step output; without GITHUB_OUTPUT (by hand) it is printed alone."""
    print(f"{name}: {in_one_line(value)}")
    path = os.environ.get("GITHUB_OUTPUT")
    if path:
        fence = f"end-{secrets.token_hex(16)}"  # a value can't end its own block
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{name}<<{fence}\n{value}\n{fence}\n")


def add_summary(text: str) -> None:
    """Append Markdown to the step summary; what does not fit is left out, and that is said."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    used = os.path.getsize(path) if os.path.exists(path) else 0
    data = text.encode("utf-8", "replace") + b"\n\n"
    if used + len(data) > MAX_SUMMARY_BYTES:
        data = b"\n\nThe rest is too long for this page; it is in the uploaded runs.\n"
        if used + len(data) > MAX_SUMMARY_BYTES + 200:
            return
    with open(path, "ab") as file:
        file.write(data)


def run_untrusted(command: Sequence[str], cwd: Path, writable: Sequence[Path]) -> int:
    """Run a command whose kernels and Python nobody has vetted; returns its exit code.

    It and all that it starts can write beneath ``writable`` and to a temporary folder alone, so neither the runner's command files nor
    the actions and scripts of later steps. It sees no token, and what it prints is no workflow command; of a process
    that it leaves behind nothing is printed. Raises CiError on a runner whose system can't hold it so.
    """
    from gates.worker import sandbox

    for folder in writable:
        folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="judged-", ignore_cleanup_errors=True) as scratch, _no_workflow_commands():
        places = [*writable, Path(scratch), *_tools_folder()]
        told, tell = os.pipe()

        def confine() -> None:
            os.write(tell, sandbox.deny_writes(places).encode())

        environ = {**clean_environment(os.environ), **sandbox.caches(Path(scratch))}
        with os.fdopen(told, "rb") as word:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=environ,
                preexec_fn=confine,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            os.close(tell)
            held = word.read().decode()
            if held != "denied" and os.environ.get("GITHUB_ACTIONS") == "true":
                process.kill()
                process.wait()
                raise CiError(
                    f"what is judged can't be kept from the runner's files ({held})",
                    "use a runner with Linux 5.13 or later and Landlock enabled",
                )
            _relay(process)
        return process.returncode


def _tools_folder() -> list[Path]:
    """/tmp, in which profilers keep locks and sockets, unless something of the runner lies beneath it."""
    names = (
        "RUNNER_TEMP",
        "RUNNER_WORKSPACE",
        "GITHUB_WORKSPACE",
        "GITHUB_ENV",
        "GITHUB_OUTPUT",
        "GITHUB_PATH",
        "GITHUB_STEP_SUMMARY",
        "GITHUB_STATE",
    )
    theirs = [Path.cwd(), Path.home(), *(Path(os.environ[name]).resolve() for name in names if os.environ.get(name))]
    tmp = Path("/tmp").resolve()
    return [] if any(path.is_relative_to(tmp) for path in theirs) else [tmp]


def _relay(process: subprocess.Popen[bytes]) -> None:
    """Print what the process prints until it ends; a process that it leaves behind keeps the pipe open, and is not waited for."""
    assert process.stdout is not None
    sys.stdout.flush()
    with process.stdout as output:
        ended = False
        while True:
            if select.select([output], [], [], 0 if ended else 0.2)[0]:
                if not (data := os.read(output.fileno(), 65536)):
                    break
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            elif ended:
                break
            ended = ended or process.poll() is not None
    process.wait()


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` without what the runner and the workflow put there."""
    return {name: value for name, value in environ.items() if not name.startswith(_HIDDEN)}


@contextlib.contextmanager
def _no_workflow_commands() -> Iterator[None]:
    if os.environ.get("GITHUB_ACTIONS") != "true":
        yield
        return
    token = secrets.token_hex(16)
    print(f"::stop-commands::{token}", flush=True)
    try:
        yield
    finally:
        print(f"::{token}::", flush=True)
