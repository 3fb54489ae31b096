"""Distinguish a package that does not work in this environment from an error of the function that uses it.

A kernel language can be missing, or broken by another package (a Numba that needs a name which NumPy no longer has). That is a
finding about this machine. An error in the function's own files, or in a call that it makes, is a finding about the function.
"""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from gates.core.errors import NotHere

_NO_ATTRIBUTE = re.compile(r"module '(?P<module>[\w.]+)' has no attribute '(?P<name>\w+)'")
_ON_DEVICES = ("numba.cuda", "cupy", "cutlass", "tilelang", "cuda.tile", "warp")  # kernel languages that need a device
_REFUSAL = re.compile(r"numba\..*errors$")  # the module of the errors by which Numba refuses a kernel
_OF_DEVICE = re.compile(r"\b(?:device|driver|GPU|CUDA)")
_INSTALLED = ("site-packages", "dist-packages")
_INSTALLED_BY = {"cuda": "cuda-tile[tileiras]", "cupy": "cupy-cuda13x", "cutlass": "nvidia-cutlass-dsl", "tilelang": "tilelang"}


class NeedsPackage(NotHere):
    """A package that the function needs is missing, or can't be imported in this environment."""

    def __init__(self, package: str, said: str, *, absent: bool = False) -> None:
        broken = f"{package} does not work in this environment (`pip check` names versions that do not fit together)"
        missing = f"{package} is not installed" + (f": pip install '{_INSTALLED_BY[package]}'" if package in _INSTALLED_BY else "")
        super().__init__(said, hint=missing if absent else broken, reason="no_tool")


def unusable(error: BaseException, folder: Path) -> NeedsPackage | None:
    """Return the package's failure if ``error`` is about a package; None if it is about the function with files in ``folder``."""
    said = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:300]}"
    if isinstance(error, ImportError):
        missing = (error.name or "").partition(".")[0]
        own = not missing or (folder / f"{missing}.py").exists() or (folder / missing).is_dir()
        absent = isinstance(error, ModuleNotFoundError) and error.name == missing
        return None if own or is_own(error.path, folder) else NeedsPackage(error.name or missing, said, absent=absent)
    frames = traceback.extract_tb(error.__traceback__)
    while frames and frames[-1].name == "__getattr__":  # of the module that lacks a name, not of the one that asks for it
        frames.pop()
    last = max((number for number, frame in enumerate(frames) if is_own(frame.filename, folder)), default=-1)
    package = next((found for frame in reversed(frames[last + 1 :]) if (found := _package(frame.filename))), None)  # compiled code has none
    if package is None:
        return None
    if any(frame.name == "<module>" and _package(frame.filename) for frame in frames[last + 1 :]):  # its import is under way
        return NeedsPackage(package, said)
    lacks = _NO_ATTRIBUTE.search(said) if isinstance(error, AttributeError) else None
    if lacks and lacks["module"].partition(".")[0] != package and not _names(folder, lacks["name"]):
        return NeedsPackage(package, said)
    return None


def needs_device(error: BaseException, on_emulator: bool = False) -> bool:
    """Return whether the error comes from a kernel language that can't run without a device: there it tells nothing of the function.

    ``on_emulator``: the language has a device, so it counts only if it speaks of one, or of what the language itself does not have.
    """
    if isinstance(error, AttributeError) and type(error.obj).__module__.startswith("gates."):  # of what stands for a device
        return True
    names = [str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(error.__traceback__)]
    if not on_emulator:
        return any(f"{name}.".startswith(f"{language}.") for name in names for language in _ON_DEVICES)
    refusal = _REFUSAL.match(type(error).__module__)
    spoken_of = isinstance(error, NotImplementedError) or _OF_DEVICE.search(str(error).partition("\n")[0])
    return names[-1].startswith("cuda.") or bool(names[-1].startswith(("numba.", "warp.")) and spoken_of and not refusal)


def is_own(filename: str | None, folder: Path) -> bool:
    """Whether a file is one of the function's own, in ``folder``."""
    return bool(filename) and Path(str(filename)).is_relative_to(folder) and _package(str(filename)) is None


def _package(filename: str) -> str | None:
    """The installed package that a file belongs to; None for any other file."""
    parts = Path(filename).parts
    place = next((number for number, part in enumerate(parts) if part in _INSTALLED), None)
    return parts[place + 1].partition(".")[0] if place is not None and place + 1 < len(parts) else None


def _names(folder: Path, name: str) -> bool:
    """Whether a Python file of the folder uses the name itself."""
    return any(re.search(rf"\b{re.escape(name)}\b", path.read_text(encoding="utf-8", errors="replace")) for path in folder.glob("*.py"))
