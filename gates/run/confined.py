"""A tool that works on bytes which a kernel's process made, such as ptxas on its PTX: confined as that process is, it can write to one folder alone.

``python confined.py FOLDER COMMAND…`` gives its rights up and becomes the command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent


def command(folder: Path, argv: Sequence[str]) -> list[str]:
    """What to start so that ``argv`` runs with ``folder`` alone to write to."""
    return [sys.executable, str(HERE / "confined.py"), str(folder), *argv]


if __name__ == "__main__":
    sys.path[0] = str(HERE.parent.parent)  # what lies beside this file hides no module
    from gates.run import jail

    os.environ["TMPDIR"] = sys.argv[1]
    jail.enter([Path(sys.argv[1])], memory_bytes=jail.default_memory_bytes(), file_bytes=jail.MOST_FILE_BYTES)
    os.execv(sys.argv[2], sys.argv[2:])
