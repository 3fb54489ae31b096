"""Order the module search path: Python's own modules first, then the task's folder, then installed packages.

A helper of a task may be named random.py or types.py. It must not replace Python's own module for torch or the engine. So this
module imports nothing that such a file could replace.

Modules of a task are always compiled from their text. Python would take bytecode from __pycache__ if a source's time and size fit, and
with some flags without that check; a digest of the stage covers the text alone.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ExtensionFileLoader, FileFinder, SourceFileLoader
from types import CodeType

_HOME = os.path.dirname(os.__file__)
_folders: list[str] = []  # of tasks


class TextLoader(SourceFileLoader):
    """Load a module from its text, whatever bytecode there is."""

    def get_code(self, fullname: str) -> CodeType:
        """Return the compiled text."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def own_first() -> int:
    """Move the places of Python's own modules to the front of ``sys.path``; returns their number."""
    own = [place for place in sys.path if _is_own(place)]
    sys.path[:] = [*own, *(place for place in sys.path if not _is_own(place))]
    return len(own)


def add_folder(folder: str | os.PathLike[str]) -> None:
    """Let the modules in ``folder`` be imported from their text, before installed packages and after Python's own."""
    place = os.fspath(folder)
    if place not in _folders:
        _folders.append(place)
        if _finder not in sys.path_hooks:
            sys.path_hooks.insert(0, _finder)
        sys.path_importer_cache.pop(place, None)
    if place not in sys.path:
        sys.path.insert(own_first(), place)


def _finder(path: str) -> FileFinder:
    """Return a finder for a folder of a task, or of a package in it; raises ImportError for
    any other place, as ``sys.path_hooks`` wants.
    """
    nearest = max((place for place in {*sys.path, *_folders} if f"{path}/".startswith(f"{place}/")), key=len, default="")
    if nearest not in _folders:
        raise ImportError(f"{path} is not in a task's folder")
    return FileFinder(path, (ExtensionFileLoader, EXTENSION_SUFFIXES), (TextLoader, SOURCE_SUFFIXES))


def _is_own(place: str) -> bool:
    """Whether ``place`` is lib/python3.x, its zip file, or its folder of compiled modules."""
    return (
        place == _HOME
        or place == os.path.join(_HOME, "lib-dynload")
        or (place.endswith(".zip") and os.path.dirname(place) == os.path.dirname(_HOME))
    )
