"""`gates` and `python -m gates`: the command, quiet at Ctrl-C while its modules are imported, too."""

import sys

from gates.core.python_path import own_first

own_first()  # `python -m` looks in the current folder before: a task's random.py would take the place of Python's own

from typing import NoReturn  # noqa: E402

from gates.core.errors import EXIT_INTERRUPTED  # noqa: E402


def main() -> NoReturn:
    """Run the command line."""
    try:
        from gates.cli.main import main as command

        command()
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    finally:
        exec("")  # else `python -m` ends by the signal, not the exit code, where Ctrl-C came in such text: a dataclass is made of some


if __name__ == "__main__":
    main()
