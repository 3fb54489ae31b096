"""Where modules are looked for: Python's own first, then beside the task, then installed packages.

A helper of a task may be called random.py or types.py; it must not take the place of Python's own module for torch or for
the engine. Imports nothing that such a file could replace.
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
