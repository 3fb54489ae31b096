"""Types of options that name a file or a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


class _Named(click.Path):
    """A path with a name; an empty one, as an unset shell variable leaves it, would be the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the name is empty: is a shell variable unset?", param, ctx)
        return super().convert(value, param, ctx)


FOLDER = _Named(path_type=Path, file_okay=False)
FILE = _Named(path_type=Path, dir_okay=False)
PATH = _Named(path_type=Path)
