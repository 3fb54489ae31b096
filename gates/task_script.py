"""What a task's own two scripts call: build.py builds the task, runner.py runs its cases. Nothing else of ``gates`` is theirs to import.

from gates.task_script import build  # build.py
build(__file__)

from gates.task_script import run  # runner.py
run(__file__)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn


def build(file: str) -> NoReturn:
    """Build all that can be built here of the task whose build.py is ``file``, and exit: 0 all built, 1 something failed, 2 wrong input."""
    from gates.cli.task_build import main

    main(file)


def run(file: str, arguments: Sequence[str] | None = None) -> NoReturn:
    """Build the task whose runner.py is ``file``, run the cases that the command line (or ``arguments``) asks for, print a table, and exit.

    The exit code is 0 if every case passed, 1 if one failed, 2 for wrong input, 3 without a verdict.
    """
    from gates.cli.task_runner import main

    main(file, arguments)
