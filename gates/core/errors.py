"""The one error type that reaches the user, and the exit codes of every command."""

from __future__ import annotations

EXIT_OK = 0  # every asked-for gate passed; for `decide`: merge
EXIT_FAIL = 1  # a gate failed; for `decide`: reject
EXIT_USAGE = 2  # wrong usage or invalid input
EXIT_HOLD = 3  # hold or inconclusive
EXIT_INTERNAL = 4  # a bug in this tool
EXIT_INTERRUPTED = 130  # Ctrl-C, as shells have it
EXIT_CHECKER = 86  # what a memory checker is told to exit with where it reports something: no program's own


class GatesError(Exception):
    """A problem that the user can act on.

    ``what`` says what is wrong and where, in lower case and without a full stop; ``hint`` says
    what to do about it. The command line prints them as ``error: …`` and ``hint: …`` and exits
    with ``exit_code``.
    """

    def __init__(self, what: str, *, hint: str | None = None, exit_code: int = EXIT_USAGE) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.exit_code = exit_code


WITHOUT_DEVICE = ("no_device", "not_emulated")  # reasons of NotHere that a machine with a device does not have
NOT_HERE = ("no_tool", *WITHOUT_DEVICE)


class NotHere(GatesError):
    """The kernel can't run on this machine, which is not a verdict about it: a gate is not
    run, with ``reason``, one of ``NOT_HERE`` (``gates.gate.reasons``).
    """

    def __init__(self, what: str, *, hint: str | None, reason: str) -> None:
        super().__init__(what, hint=hint, exit_code=EXIT_HOLD)
        self.reason = reason


class DoesNotWork(NotHere):
    """A package that is installed and does not work on this machine, by the ``error`` that it raised, whatever that is."""

    def __init__(self, package: str, error: Exception, hint: str = "install it again") -> None:
        super().__init__(f"{package} does not work here: {type(error).__name__}: {error}", hint=hint, reason="no_tool")
