"""A killed run's temporary folder goes with the next run; a living one's, and whatever else lies there, stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from gates.core.scratch_folder import ScratchFolder

HOLD = (
    "import sys; from pathlib import Path; from gates.core.scratch_folder import ScratchFolder\nwith ScratchFolder(Path(sys.argv[1]), "
    "'gates-run-') as path:\n    print(path, flush=True); sys.stdin.read()"
)


def hold(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that holds a folder, an hour old."""
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    path = Path(child.stdout.readline().strip())
    (path / "work").mkdir()
    os.utime(path, (0, 0))
    return child, path


def test_a_killed_owner_s_folder_is_removed_and_no_other(tmp_path: Path) -> None:
    (killed, left), (living, kept) = hold(tmp_path), hold(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.wait(timeout=30)
    others = [tmp_path / "gates-runs", tmp_path / "elsewhere", tmp_path / "gates-run-file"]
    others[0].mkdir()
    others[1].mkdir()
    others[2].touch()
    (tmp_path / "gates-run-link").symlink_to(others[1])
    young = tmp_path / "gates-run-young"
    young.mkdir()
    for path in others:
        os.utime(path, (0, 0))
    assert left.exists()
    with ScratchFolder(tmp_path, "gates-run-") as mine:
        assert mine.is_dir() and not left.exists()
        assert all(path.exists() for path in (kept, young, *others, tmp_path / "gates-run-link"))
    living.communicate("", timeout=30)
    assert living.returncode == 0 and not mine.exists() and not kept.exists()
