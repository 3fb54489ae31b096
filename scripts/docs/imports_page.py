"""The part of docs/start/import.md that counts what was imported of a suite, and what the gate said of right and wrong solutions."""

from __future__ import annotations

import csv
from pathlib import Path

WRONG = ("zeros", "mean", "one_off")


def suite(table: Path) -> str:
    """The line of the suite with this table of imports; its table of verdicts has the same name in the folder ``checked``."""
    found = [row["status"] for row in _rows(table)]
    line = f"- {table.stem}: {found.count('imported')} of {len(found)} problems"
    checked = table.parent / "checked" / table.name
    if not checked.is_file():
        return f"{line}."
    rows = [row for row in _rows(checked) if not row["reference"].startswith("not imported")]
    right, wrong = [row["reference"] for row in rows], [row[name] for row in rows for name in WRONG]
    judged = [_share(right, "pass", "fail"), _share(wrong, "fail", "pass")]
    rest = len(right) + len(wrong) - sum(count for _, count in judged)
    passing, refused = (f"{share:.4g} % of {count}" for share, count in judged)
    return f"{line}; {passing} right solutions pass, {refused} wrong ones fail, {rest} are undecided."


def _share(verdicts: list[str], good: str, bad: str) -> tuple[float, int]:
    """The share of good verdicts in percent, and the number of good and bad ones."""
    counts = [sum(said.split(" ")[0] == kind for said in verdicts) for kind in (good, bad)]
    return 100 * counts[0] / max(1, sum(counts)), sum(counts)


def _rows(table: Path) -> list[dict[str, str]]:
    with table.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
