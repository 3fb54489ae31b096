"""Run a tool on bytes from a kernel's process, such as ptxas on its PTX, confined like that process and with one writable folder.

``python confined_tool.py FOLDER COMMAND…`` drops its rights and becomes the command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve()


def command(folder: Path, argv: Sequence[str]) -> list[str]:
    """Return the command that runs ``argv`` with ``folder`` as its only writable folder."""
    return [sys.executable, str(HERE), str(folder), *argv]


if __name__ == "__main__":
    sys.path[0] = str(HERE.parents[3])  # what lies beside this file hides no module
    from gates.worker import sandbox

    os.environ["TMPDIR"] = sys.argv[1]
    sandbox.enter([Path(sys.argv[1])], memory_bytes=sandbox.default_memory_bytes(), file_bytes=sandbox.MOST_FILE_BYTES)
    os.execv(sys.argv[2], sys.argv[2:])
