"""Turn what a command raises into one clear error and an exit code, and let no closed stream change that code."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import click

from gates.core.errors import EXIT_INTERNAL, EXIT_INTERRUPTED, EXIT_USAGE, GatesError
from gates.core.streams import tolerant_stdout
from gates.core.text import plain_lines


def guard(command: Callable[[], Any]) -> int:
    """Call ``command`` and return its exit code; print one clear error for what it raises.

    If stdout can't be written, a verdict's exit code stays; a command that only tells something ends with 2.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed before this process began
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    with tolerant_stdout() as stdout:
        try:
            for number in (signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                    signal.signal(number, signal.default_int_handler)  # as Ctrl-C: children killed, nothing half-written
            result = command()
        except SystemExit as exit_:
            return exit_.code if isinstance(exit_.code, int) else 0
        except BaseException as error:
            return told(error)
        return result if isinstance(result, int) and result else EXIT_USAGE if stdout.error else 0


def told(error: BaseException) -> int:
    """Print the one clear error that an exception stands for; returns the exit code."""
    match error:
        case GatesError():
            return _fail(error.what, error.hint, error.exit_code)
        case click.exceptions.Abort() | KeyboardInterrupt():
            return _fail("interrupted", "nothing was left half-written; run the command again", EXIT_INTERRUPTED)
        case click.exceptions.Exit():
            return error.exit_code
        case click.exceptions.NoArgsIsHelpError():
            return _say(f"{error.format_message()}\n", EXIT_USAGE)
        case click.ClickException():
            where = getattr(error, "ctx", None)
            path = where.command_path if where else "gates"
            example = _example(where) if isinstance(error, click.MissingParameter) else ""
            return _fail(error.format_message().rstrip("."), f"{example}{path} --help", EXIT_USAGE)
        case OSError():
            place = f" ({error.filename})" if error.filename else ""
            return _fail(f"{error.strerror or error}{place}", "free space or permissions may be missing; nothing was published", EXIT_USAGE)
    if os.environ.get("GATES_TRACEBACK"):
        raise error
    return _fail(
        f"internal error: {type(error).__name__}: {error}",
        "this is a bug in gates: set GATES_TRACEBACK=1 for the traceback and report it",
        EXIT_INTERNAL,
    )


def _example(context: click.Context | None) -> str:
    """The example at the end of a command's help, for a command that was given too little."""
    _, found, example = (context.command.help or "").partition("Example: ") if context else ("", "", "")
    return f"e.g. {example.strip()}; see " if found else ""


def _fail(what: str, hint: str | None, code: int) -> int:
    return _say(f"error: {what}\n" + (f"hint: {hint}\n" if hint else ""), code)


def _say(text: str, code: int) -> int:
    with contextlib.suppress(OSError):  # a full or closed stderr changes no exit code
        sys.stderr.write(plain_lines(text))
        sys.stderr.flush()
    return code
