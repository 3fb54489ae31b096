"""Which revision of the sources a run judged."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from gates.evidence.run_directory import Git
from gates.worker import process
from gates.worker.process import Finished

_LIMIT_S = 20.0
# What a hook or a wrapper sets to lead git to another repository, index or set of objects than the folder's own.
_LEADING = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_GRAFT_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_LITERAL_PATHSPECS",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_ATTR_SOURCE",
)


def revision(folder: Path) -> Git:
    """The git commit of ``folder``, and whether anything but results differs from it.

    Where there is no git checkout (a container, a copy), or git refuses to read it, the variable GATES_REVISION tells:
    ``<sha>`` or ``<sha>-dirty``. Without it a checkout that git refuses is unknown, with the reason, and not called clean.
    """
    told = re.fullmatch(r"([0-9a-f]{7,40})(-dirty)?", os.environ.get("GATES_REVISION", "").strip())
    head = _git(folder, "rev-parse", "HEAD")
    if head is not None and head.returncode == 0:
        status = _git(folder, "status", "--porcelain", "--", ":/", ":!/results")
        return Git(head.output.strip().splitlines()[-1], status is None or status.returncode != 0 or bool(status.output.strip()), "git")
    if told:
        return Git(told[1], told[2] is not None, "GATES_REVISION")
    if head is not None and any((above / ".git").exists() for above in (folder, *folder.parents)):
        return Git(None, True, f"unknown: git refused ({_reason(head)})")
    return Git(None, False, "none")


def changed_files(sha: str, files: Sequence[Path]) -> list[str] | None:
    """Return those of the files, by paths in the repository, that differ from the commit; None if git does not have the commit."""
    if not files:
        return []
    changed = list[str]()
    for command in (("diff", "--name-only", sha), ("ls-files", "--others", "--full-name")):
        done = _git(files[0].parent, *command, "--", *map(str, files))
        if done is None or done.returncode != 0:
            return None
        changed += done.output.splitlines()
    return changed


def _git(folder: Path, *arguments: str) -> Finished | None:
    """git in ``folder``, in its own repository whatever the environment says; None where it is not installed."""
    git = shutil.which("git")
    if git is None:
        return None
    environ = {name: value for name, value in os.environ.items() if name not in _LEADING} | {"LC_ALL": "C"}
    return process.run([git, "-C", folder, *arguments], limit_s=_LIMIT_S, env=environ)


def _reason(head: Finished) -> str:
    if "dubious ownership" in head.output:
        return "dubious ownership"
    lines = [line for line in head.output.splitlines() if line.strip()]
    return lines[0].removeprefix("fatal: ")[:200] if lines else head.cause
