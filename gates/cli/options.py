"""Options that several commands share, the types of paths, and the values of options with several parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gates.core.errors import GatesError


class Commands(click.Group):
    """A group whose help has the whole first sentence of each command, on several lines if need be."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.commands[name].get_short_help_str(1000)) for name in self.list_commands(ctx)])


class _Named(click.Path):
    """A path with a name; an empty one, as an unset shell variable leaves it, would be the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the name is empty: is a shell variable unset?", param, ctx)
        return super().convert(value, param, ctx)


FOLDER = _Named(path_type=Path, file_okay=False)
FILE = _Named(path_type=Path, dir_okay=False)
PATH = _Named(path_type=Path)
RESULTS = click.option(
    "--results",
    type=FOLDER,
    default=Path("results"),
    show_default=True,
    help="Folder of run directories.",
)
BUILD_DIR = click.option(
    "--build-dir",
    type=FOLDER,
    default=Path("build"),
    show_default=True,
    help="Folder of build products.",
)
TOGGLE = click.option("--toggle", "toggles", multiple=True, metavar="NAME=VALUE", help="Override a toggle of the task.")
DEBUG = click.option(
    "--debug", is_flag=True, help="Compile device code with nvcc -G, for a debugger; such a run judges neither resources nor speed."
)
JOBS = click.option("--jobs", type=click.IntRange(min=1), help="Compilers to run at once.  [default: one a core]")


def toggle_values(pairs: tuple[str, ...]) -> dict[str, str]:
    """Return the toggles of --toggle by name; GatesError for what is not NAME=VALUE."""
    values = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise GatesError(f"--toggle {pair!r} is not NAME=VALUE", hint="e.g. --toggle USE_CP_ASYNC=0")
        values[name] = value
    return values


def name_values(text: str | None, option: str, example: str) -> tuple[str, ...] | None:
    """Return the comma-separated names in ``text``, None if it is None; GatesError if they are no list of plain names."""
    if text is None:
        return None
    names, hint = tuple(part.strip() for part in text.split(",") if part.strip()), f"e.g. {option} {example}"
    if not names:
        raise GatesError(f"{option}: {text!r} is an empty list", hint=hint)
    if len(set(names)) != len(names):
        raise GatesError(f"{option}: {text!r} names something twice", hint=f"each once, {hint}")
    if not text.isprintable():
        raise GatesError(f"{option}: {text!r} is not plain text", hint=hint)
    return names


def number_values(text: str | None, option: str) -> tuple[int, ...] | None:
    """Return the comma-separated whole numbers in ``text``, None if it is None; GatesError for other text."""
    from gates.task.problem import MAX_SEED

    names = name_values(text, option, "0,1,2")
    if names is None:
        return None
    for name in names:
        if not (name.isascii() and name.isdigit() and len(name) <= 10 and int(name) <= MAX_SEED):
            raise GatesError(f"{option}: {name[:40]!r} is not a whole number from 0 to {MAX_SEED}", hint=f"e.g. {option} 0,1,2")
    return tuple(map(int, names))
