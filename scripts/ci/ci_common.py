"""What the steps of the workflows share: the event, outputs, the step summary, and errors that read well.

The steps run on GitHub's runners, but need nothing of them: every file and address comes from the
environment, so a test can give its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
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
        print(f"error: {error.what}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return 2


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
    print(f"{name}: {value}")
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
        data = b"\n\nThe rest is too long for this page; it is in the uploaded run directories.\n"
        if used + len(data) > MAX_SUMMARY_BYTES + 200:
            return
    with open(path, "ab") as file:
        file.write(data)


def run_untrusted(command: Sequence[str], cwd: Path) -> int:
    """Run a command whose kernels and Python nobody has vetted; returns its exit code.

    It sees no token and none of the runner's command files, and what it prints is no workflow command.
    That keeps accidents out; code that means harm needs a machine of its own all the same.
    """
    with _no_workflow_commands():
        return subprocess.run(command, cwd=cwd, env=clean_environment(os.environ), check=False).returncode


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
