"""Options that several commands share, what a shell completes, the types of paths, and the values of options with several parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
DEVICE = click.option("--device", type=click.IntRange(min=0), default=0, show_default=True, help="CUDA device index.")
JOBS = click.option("--jobs", type=click.IntRange(min=1), help="Compilers to run at once.  [default: one per core]")


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


def task_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Tasks of `gates list`, by name; the shipped ones by the beginning up to an underscore, too."""
    return _fitting(incomplete, _tasks())


def run_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """latest:TASK of each task that has runs, recorded:DEVICE/TASK, and the run directories of the results folder."""
    from gates.evidence.run_directory import recorded

    results = Path(ctx.params.get("results") or "results")
    found = [f"latest:{folder.name}" for folder in _folders(results) if folder.name != "recorded"]
    found += [f"recorded:{device.name}/{folder.name}" for device in _folders(recorded(results)) for folder in _folders(device)]
    found += [str(path) for folder in _folders(results) if folder.name != "recorded" for path in sorted(folder.glob("[!.]*"))]
    return _fitting(incomplete, found)


def code_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Reason codes and gates."""
    from gates.diagnostics.explain import all_codes
    from gates.gate.registry import GATES

    return _fitting(incomplete, [*GATES, *sorted(all_codes())])


def _tasks() -> Iterator[str]:
    from gates.task.load import own_folders, task_folders

    names = [folder.name for folder in task_folders()]
    short = [name.partition("_")[0] for name in names]
    yield from sorted({*names, *(one for one in short if short.count(one) == 1), *(folder.name for folder in own_folders())})


def _folders(folder: Path) -> list[Path]:
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in found if path.is_dir() and not path.name.startswith(".")]


def _fitting(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
