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

from gates.core.errors import GatesError
from gates.importers import folder, kernelbench

TABLE = "imports.csv"
IMPORTED, REFUSED = "imported", "refused"


@dataclass(frozen=True)
class Row:
    """One problem with its solution; ``sha256`` is of both files, ``reason`` of a refusal or of a shape that was not tried."""

    problem: str
    solution: str
    sha256: str
    status: str
    task: str
    reason: str


def run(
    problems: Path, solutions: Path | None, directory: Path, limit_s: float, say: Callable[[str], None] = lambda _: None
) -> tuple[list[Row], Path]:
    """Import each problem below ``problems`` with the solutions of its name below ``solutions``, else with its own Model.

    Returns the rows of all, also those of before, and the table. Raises GatesError for a folder without problems.
    """
    pairs = list(_pairs(problems, solutions))
    if not pairs:
        raise GatesError(
            f"{problems} has no problem with a solution", hint="a solution has its problem's file name, in the folder of --solutions"
        )
    directory.mkdir(parents=True, exist_ok=True)
    table = directory / TABLE
    known = {(row.problem, row.solution, row.sha256): row for row in _read(table)}
    found = []
    for number, (problem, solution) in enumerate(pairs, start=1):
        names = problem.relative_to(problems).as_posix(), solution.relative_to(solutions).as_posix() if solutions else ""
        digest = hashlib.sha256(problem.read_bytes() + b"\0" + solution.read_bytes()).hexdigest()
        if (row := known.get((*names, digest))) is None:
            say(f"{number} of {len(pairs)}: {names[0]}")
            row = Row(*names, digest, *_imported(problem, solution, directory, limit_s))
            _append(table, row)
        found.append(row)
    return found, table


def _pairs(problems: Path, solutions: Path | None) -> Iterator[tuple[Path, Path]]:
    for problem in sorted(
        problems.rglob("*.py"), key=lambda path: [part.zfill(20) for part in path.relative_to(problems).as_posix().split("_")]
    ):
        if solutions is None:
            yield problem, problem
        else:
            yield from ((problem, solution) for solution in sorted(solutions.rglob(problem.name)))


def _imported(problem: Path, solution: Path, directory: Path, limit_s: float) -> tuple[str, str, str]:
    """Status, task and reason."""
    label = f"{problem.parent.name}_{problem.stem}" + ("" if solution == problem else f"_{solution.parent.name}")
    try:
        made = folder.write(kernelbench.load(problem, solution), directory, folder.task_name(None, label), limit_s)
    except GatesError as error:
        return REFUSED, "", " ".join(error.what.split())
    return IMPORTED, made.task.name, "; ".join(f"{shape} {reason}" for shape, reason in made.untried.items())


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
