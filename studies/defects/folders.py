"""Task folders of the defects, in a workshop folder that mirrors the project where tasks look for their parts."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from defects.record import Defect

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
_LEFT_OUT = shutil.ignore_patterns("__pycache__")


class Workshop:
    """``root`` with copies of tasks/, kernels/ and the toolbox; each defect gets a task folder beside its baseline."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root).resolve()
        for name in ("tasks", "kernels"):
            shutil.copytree(ROOT / name, self.root / name, ignore=_LEFT_OUT)
        shutil.copytree(HERE / "toolbox", self.root / "toolbox", ignore=_LEFT_OUT)

    def folder(self, name: str) -> Path:
        """Where the honest stage or the toolbox's task ``name`` lies."""
        return next(self.root / group / name for group in ("tasks", "toolbox") if (self.root / group / name).is_dir())

    def plant(self, defect: Defect) -> Path:
        """The task folder of ``defect``: that of the honest task, with another kernel; no limit is changed."""
        honest = self.folder(defect.stage or "mix")
        task = yaml.safe_load((honest / "task.yaml").read_text(encoding="utf-8"))
        limits = yaml.safe_dump(task["gates"])
        folder = honest.parent / defect.name
        shutil.copytree(honest, folder)
        task.update(name=defect.name, title=defect.what, time_limit_s=defect.time_limit_s)
        if defect.stage:
            source = Path(task["sources"][0])
            copy_sources(self.root / source.parent, folder)
            patch(folder / "kernel", defect.edits)
            task["sources"] = [f"kernel/{source.name}"]
            task["toggles"].update(defect.toggles)
        else:
            task.update(entry=defect.entry, kernels=list(defect.kernels), sources=[defect.source])
        assert yaml.safe_dump(task["gates"]) == limits
        (folder / "task.yaml").write_text(yaml.safe_dump(task, sort_keys=False, allow_unicode=True), encoding="utf-8")
        return folder


def copy_sources(family: Path, folder: Path) -> None:
    """Copy the sources of a stage's ``family`` to ``folder``/kernel, and the folders that they include beside it: ../cuda, ../sdpa."""
    shutil.copytree(family, folder / "kernel")
    for shared in ("cuda", "sdpa"):
        shutil.copytree(family.parent / shared, folder / shared)


def patch(folder: Path, edits: tuple[tuple[str, str, str], ...]) -> None:
    """Replace in the sources of ``folder``; each text must occur exactly once, or the defect has lost its place."""
    for file, text, replacement in edits:
        path = folder / file
        source = path.read_text(encoding="utf-8")
        assert source.count(text) == 1, f"{source.count(text)} times in {file}: {text}"
        path.write_text(source.replace(text, replacement), encoding="utf-8")
