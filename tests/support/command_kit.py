"""`gates` in the tests' own process: what a command's start costs, and torch's import in the server of runners, is paid once a worker.

A process of its own is for tests of signals, of streams and of the start itself.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

from gates.cli.guard import guard
from gates.cli.main import cli

_TAKEN_OVER = (signal.SIGTERM, signal.SIGHUP)  # by the command


def gates(*arguments: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``gates ARGUMENTS`` in ``cwd``, with ``env`` beside the environment.

    An exception is an ``error:`` of exit code 4, as users see it.
    """
    words, out, err = [str(argument) for argument in arguments], io.StringIO(), io.StringIO()
    before, handlers = Path.cwd(), {number: signal.getsignal(number) for number in _TAKEN_OVER}
    os.chdir(cwd or before)
    try:
        with patch.dict(os.environ, env or {}), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = guard(lambda: cli.main(words, prog_name="gates", standalone_mode=False))
    finally:
        os.chdir(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
