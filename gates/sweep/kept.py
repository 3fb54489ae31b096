"""The sweep on disk: changed whole, a piece at a time, by one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.evidence.run_directory import RunDirectory
from gates.render.console import Progress
from gates.sweep.record import FILE, Sweep, Variant, read_sweep, write_sweep
from gates.sweep.work import Done


class Kept:
    """The sweep as it stands on disk."""

    def __init__(self, folder: Path, sweep: Sweep, progress: Progress) -> None:
        self.folder, self.sweep, self.progress = folder, sweep, progress

    def change(self, **values: object) -> None:
        """Replace fields of the sweep, on disk before this returns."""
        self.sweep = replace(self.sweep, **values)  # type: ignore[arg-type]
        write_sweep(self.folder, self.sweep)

    def change_variant(self, name: str, **values: object) -> Variant:
        """Replace fields of a variant."""
        changed = replace(self.sweep.variant(name), **values)  # type: ignore[arg-type]
        self.change(variants=tuple(changed if one.name == name else one for one in self.sweep.variants))
        return changed

    def counts(self) -> str:
        """How much there is, in words."""
        compiled, checked = (sum(getattr(one, gate) is not None for one in self.sweep.variants) for gate in ("ptxas", "correctness"))
        timings = sum(len(part.timings) for part in self.sweep.rounds)
        return f"{compiled} of {len(self.sweep.variants)} variants compiled, {checked} checked" + (
            f", {timings} timings" if timings else ""
        )

    def files(self, done: Done, rename: Callable[[str], str] = lambda name: name) -> None:
        """Put a job's evidence into the variant's folder."""
        for name, content in done.files.items():
            path = self.folder / "variants" / done.variant / rename(name)
            make_folder(path.parent)
            jsonio.write_text(path, content.decode("utf-8"))


def begun(folder: Path, new: Sweep) -> Sweep:
    """The sweep that ``folder`` holds, else ``new``, written; raises GatesError for one that can't be gone on with."""
    if not (folder / FILE).is_file():
        write_sweep(folder, new)
        return new
    old = read_sweep(folder)
    if old.id != new.id:
        raise GatesError(
            f"the task, its compiler, the device or gates changed since {folder} began", hint="start a new sweep: leave --resume out"
        )
    variants, planned = ([(one.name, one.toggles, one.digest) for one in sweep.variants] for sweep in (old, new))
    if variants != planned or old.incumbent != new.incumbent or not old.spoken_of() <= {name for name, _, _ in planned}:
        raise GatesError(
            f"{folder / FILE} was edited: its variants are not those of its parameters", hint="remove the folder to start again"
        )
    return old


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep others from the folder meanwhile; raises GatesError where one is at it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise GatesError(f"another process is using {folder}", hint="wait until it finishes") from None
    finally:
        os.close(descriptor)


def publish(done: Done, results: Path, task: str) -> Path:
    """The run directory that a worker sent, in its place among the task's runs."""
    assert done.run is not None, "only a whole run is published"
    with RunDirectory(results, task) as directory:
        for name, content in done.files.items():
            if name != "manifest.json":  # written by publish, over the same files
                (directory.path / name).parent.mkdir(exist_ok=True)
                (directory.path / name).write_bytes(content)
        return directory.publish(done.run[0])


def require_writable(folder: Path) -> None:
    """Raise GatesError where nothing can be kept in ``folder``; makes nothing."""
    with _told(folder):
        jsonio.probe_folder(folder)


def make_folder(folder: Path) -> None:
    """Make ``folder``; raises GatesError where that can't be."""
    with _told(folder):
        folder.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def _told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise GatesError(f"can't write {folder}: {error.strerror}", hint="name a writable directory with --results") from None
