"""Import a whole suite: a task per problem, and one table that says what was imported, what was refused, and why.

The table is written line by line. A problem whose line is there with the same bytes is not imported again, so an interrupted import
continues where it ended.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NamedTuple, Protocol

from gates.core.errors import GatesError
from gates.importers import folder

TABLE = "imports.csv"
IMPORTED, REFUSED = "imported", "refused"


@dataclass(frozen=True)
class Row:
    """One problem with its solution; ``sha256`` is of all their files, ``reason`` of a refusal or of a shape that was not tried."""

    problem: str
    solution: str
    sha256: str
    status: str
    task: str
    reason: str


class Pair(NamedTuple):
    """A problem, a solution of it (None: the problem's own code) and a label for their task."""

    problem: Path
    solution: Path | None
    label: str


class Format(Protocol):
    """What a format's module has if a suite of it can be imported."""

    def pairs(self, problems: Path, solutions: Path | None) -> Iterator[Pair]:
        """Each problem below ``problems`` with each of its solutions below ``solutions``, else with None."""

    def load(self, problem: Path, solution: Path | None) -> folder.Imported:
        """Return the contents of problem and solution."""


def run(
    format: Format, problems: Path, solutions: Path | None, directory: Path, limit_s: float, say: Callable[[str], None] = lambda _: None
) -> tuple[list[Row], Path]:
    """Import each problem below ``problems`` with its solutions below ``solutions``, else with its own code as its solution.

    Returns the rows of all, also those of before, and the table. Raises GatesError for a folder without problems.
    """
    pairs = list(format.pairs(problems, solutions))
    if not pairs:
        raise GatesError(
            f"{problems} has no problem with a solution", hint="a solution has its problem's name, in the folder of --solutions"
        )
    answered = {pair.problem for pair in pairs}
    for problem in [pair.problem for pair in format.pairs(problems, None) if pair.problem not in answered]:
        say(f"left out: {problem.relative_to(problems)} has no solution of its name in {solutions}")
    directory.mkdir(parents=True, exist_ok=True)
    table = directory / TABLE
    known = {(row.problem, row.solution, row.sha256): row for row in _read(table)}
    found = []
    for number, pair in enumerate(pairs, start=1):
        solution = "" if pair.solution is None or solutions is None else pair.solution.relative_to(solutions).as_posix()
        names = pair.problem.relative_to(problems).as_posix(), solution
        try:
            imported, refusal = format.load(pair.problem, pair.solution), ""
            sha256 = digest(imported)
        except Exception as error:  # one problem does not end the others' import
            imported, refusal, sha256 = None, in_one_line(error), ""
        if (row := known.get((*names, sha256))) is None:
            say(f"{number} of {len(pairs)}: {names[0]}")
            row = Row(*names, sha256, *(_written(imported, pair.label, directory, limit_s) if imported else (REFUSED, "", refusal)))
            _append(table, row)
        found.append(row)
    return found, table


def digest(imported: folder.Imported) -> str:
    """The sha256 of all files of a problem and its solution."""
    return hashlib.sha256(b"\0".join(one.content for one in imported.originals)).hexdigest()


def by_numbers(path: Path) -> list[str]:
    """Sort key: 2_x comes before 10_x."""
    return [part.zfill(20) for part in path.as_posix().split("_")]


def _written(imported: folder.Imported, label: str, directory: Path, limit_s: float) -> tuple[str, str, str]:
    """Status, task and reason."""
    try:
        made = folder.write(imported, directory, folder.task_name(None, label), limit_s)
    except Exception as error:
        return REFUSED, "", in_one_line(error)
    return IMPORTED, made.task.name, "; ".join(f"{shape} {reason}" for shape, reason in made.untried.items())


def in_one_line(error: Exception) -> str:
    """What an error says, for a cell of a table."""
    return " ".join((error.what if isinstance(error, GatesError) else f"{type(error).__name__}: {error}").split())


def _read(table: Path) -> list[Row]:
    if not table.is_file():
        return []
    with table.open(encoding="utf-8", newline="") as file:
        try:
            return [Row(**line) for line in csv.DictReader(file, strict=True)]
        except (TypeError, csv.Error):
            raise GatesError(f"{table} is not a table of imports", hint="name another --dir, or remove the file") from None


def _append(table: Path, row: Row) -> None:
    new = not table.is_file()
    with table.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(asdict(row))
