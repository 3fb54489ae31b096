"""Which revision of the sources a run judged."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from gates.evidence import Git
from gates.run import process

_LIMIT_S = 20.0


def revision(folder: Path) -> Git:
    """The git commit of ``folder``, and whether anything but results differs from it.

    Where there is no git checkout (a container, a copy), the variable GATES_REVISION tells:
    ``<sha>`` or ``<sha>-dirty``.
    """
    told = re.fullmatch(r"([0-9a-f]{7,40})(-dirty)?", os.environ.get("GATES_REVISION", "").strip())
    git = shutil.which("git")
    if git is not None:
        head = process.run([git, "-C", folder, "rev-parse", "HEAD"], limit_s=_LIMIT_S)
        if head.returncode == 0:
            status = process.run([git, "-C", folder, "status", "--porcelain", "--", ":/", ":!/results"], limit_s=_LIMIT_S)
            return Git(head.output.strip(), status.returncode != 0 or bool(status.output.strip()), "git")
    if told:
        return Git(told[1], told[2] is not None, "GATES_REVISION")
    return Git(None, False, "none")
