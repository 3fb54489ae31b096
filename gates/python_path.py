"""Order the module search path: Python's own modules first, then the task's folder, then installed packages.

A helper of a task may be named random.py or types.py. It must not replace Python's own module for torch or the engine. So this
module imports nothing that such a file could replace.
"""

from __future__ import annotations

import os
import sys

_HOME = os.path.dirname(os.__file__)


def own_first() -> int:
    """Move the places of Python's own modules to the front of ``sys.path``; returns their number."""
    own = [place for place in sys.path if _is_own(place)]
    sys.path[:] = [*own, *(place for place in sys.path if not _is_own(place))]
    return len(own)


def add_folder(folder: str | os.PathLike[str]) -> None:
    """Let the modules in ``folder`` be imported, before installed packages and after Python's own."""
    if os.fspath(folder) not in sys.path:
        sys.path.insert(own_first(), os.fspath(folder))


def _is_own(place: str) -> bool:
    """Whether ``place`` is lib/python3.x, its zip file, or its folder of compiled modules."""
    return place == _HOME or place == os.path.join(_HOME, "lib-dynload") or (place.endswith(".zip") and os.path.dirname(place) == os.path.dirname(_HOME))
