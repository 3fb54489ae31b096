"""What this machine's sandbox can deny."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def sandbox_here(folder: Path) -> bool:
    """Whether this machine can deny all that ``sandbox.enter`` denies, asked in a process that is thrown away."""
    code = (
        f"from gates.worker import sandbox; from pathlib import Path; print(set(list(sandbox.enter([Path({str(folder)!r})], "
        f"processes=False).values())[:4]) == {{'denied'}})"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "True"
