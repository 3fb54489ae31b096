"""Kernel launches in a Nsight Compute report: through ncu-report, or from its CSV raw page.

Both give the same: one ``Row`` a launch. A number that is missing, ``n/a`` or NaN is None with the
reason; one in another locale's writing is refused, since 1.420 and 1,420 can't be told apart.
"""

from __future__ import annotations

import csv
import importlib
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gates.core.errors import GatesError

_PLAIN = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", re.ASCII)
_ABSENT = ("", "n/a", "na", "nan", "-nan", "inf", "-inf", "no data")
# ncu scales by thousands unless told to print base units.
_SCALE = {
    "byte": ("byte", 1.0),
    "Kbyte": ("byte", 1e3),
    "Mbyte": ("byte", 1e6),
    "Gbyte": ("byte", 1e9),
    "Tbyte": ("byte", 1e12),
    "nsecond": ("nsecond", 1.0),
    "ns": ("nsecond", 1.0),
    "usecond": ("nsecond", 1e3),
    "us": ("nsecond", 1e3),
    "msecond": ("nsecond", 1e6),
    "ms": ("nsecond", 1e6),
    "second": ("nsecond", 1e9),
    "s": ("nsecond", 1e9),
}


@dataclass(frozen=True)
class Cell:
    """One metric of one launch, in base units; ``value`` is None for the ``reason``."""

    value: float | None
    unit: str
    reason: str = ""


@dataclass(frozen=True)
class Row:
    """One profiled launch, numbered from 1 in the order of launching."""

    kernel: str
    number: int
    cells: dict[str, Cell]


def number(text: str) -> float | None:
    """A number as ncu writes it under LC_ALL=C; None where it says that there is none.

    Raises GatesError for anything else, as ``5.713.107`` and ``1,5``.
    """
    text = text.strip()
    if text.lower() in _ABSENT:
        return None
    if _GROUPED.fullmatch(text):
        return float(text.replace(",", ""))
    if not _PLAIN.fullmatch(text):
        raise GatesError(f"{text!r} is not a number as ncu writes it under LC_ALL=C")
    value = float(text)
    return value if math.isfinite(value) else None


def cell(value: Any, unit: str) -> Cell:
    """The cell of a value that ncu gave as text or number, scaled to base units."""
    base, scale = _SCALE.get(unit, (unit, 1.0))
    if isinstance(value, str):
        try:
            parsed = number(value)
        except GatesError as error:
            return Cell(None, base, error.what)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        parsed = float(value) if math.isfinite(value) else None
    else:
        parsed = None
    if parsed is None:
        return Cell(None, base, f"ncu gave {value!r}")
    return Cell(parsed * scale, base)


def read_csv(text: str, metrics: Sequence[str]) -> list[Row]:
    """The launches in the output of ``ncu --import … --csv --page raw``.

    Lines before the header, the profiler's own included, are skipped. The row after the header holds
    units and is no launch. Raises GatesError where there is no header.
    """
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith('"ID",') or line.startswith("ID,")), None)
    if first is None:
        raise GatesError("ncu's CSV has no header line", hint="see the log for what ncu said instead")
    table = list(csv.reader(io.StringIO("\n".join(line for line in lines[first:] if not line.startswith("==")))))
    header, rows = table[0], [row for row in table[1:] if any(row)]
    if "Kernel Name" not in header:
        raise GatesError("ncu's CSV has no column 'Kernel Name'")
    units = dict(zip(header, rows[0], strict=False)) if rows and not rows[0][0].strip() else {}
    launches: list[Row] = []
    for row in rows[1 if units else 0 :]:
        values = dict(zip(header, row, strict=False))
        cells = {
            name: cell(values[name], units.get(name, "")) if name in values else Cell(None, "", "not in the report") for name in metrics
        }
        launches.append(Row(values.get("Kernel Name", ""), len(launches) + 1, cells))
    return launches


def read_report(path: Path, metrics: Sequence[str], library: Any = None) -> list[Row]:
    """The launches in a ``.ncu-rep`` file; ``library`` is the module ncu_report. Raises GatesError if unreadable."""
    if library is None:
        try:
            library = importlib.import_module("ncu_report")
        except ImportError:
            raise GatesError(f"can't read {path.name}: ncu-report is not installed", hint="pip install ncu-report") from None
    try:
        context = library.load_report(str(path))
        if not context.num_ranges():
            raise ValueError("it holds no profile")
        actions = [
            profiled.action_by_idx(index)
            for profiled in (context.range_by_idx(number) for number in range(context.num_ranges()))
            for index in range(profiled.num_actions())
        ]
        return [Row(_name(action), place + 1, {name: _metric(action, name) for name in metrics}) for place, action in enumerate(actions)]
    except (RuntimeError, OSError, ValueError, TypeError, AttributeError) as error:
        raise GatesError(f"can't read {path.name}: {error}", hint="the report is damaged or of a newer version") from None


def _name(action: Any) -> str:
    return str(action.name(action.NameBase_DEMANGLED))


def _metric(action: Any, name: str) -> Cell:
    metric = action.metric_by_name(name)
    if metric is None:
        return Cell(None, "", "not in the report")
    return cell(metric.value(), str(metric.unit() or ""))


def base_name(kernel: str) -> str:
    """``ns::k<64>(float *)`` and ``void k<64>(…)`` -> ``k``: the name without types, namespaces and arguments."""
    plain = kernel.replace("(anonymous namespace)::", "")
    while (shorter := re.sub(r"<[^<>]*>", "", plain)) != plain:
        plain = shorter
    return plain.split("(")[0].split()[-1].split("::")[-1] if plain.split("(")[0].split() else kernel


def select(rows: Sequence[Row], kernel: str, launch: int | None = None) -> Row:
    """The one launch of ``kernel`` (base name, or with its template arguments: ``k<128>``).

    ``launch`` counts that kernel's launches from 1. Raises GatesError where none or several match.
    """

    def spelled(row: Row) -> str:
        return re.sub(r"\([a-z ]+\)", "", row.kernel).replace(" ", "")  # k<(int)128> is k<128>

    if "<" in kernel:
        wanted = kernel.replace(" ", "")
        found = [row for row in rows if re.search(rf"(^|[:\w]*?){re.escape(wanted)}(\(|$)", spelled(row))]
    else:
        found = [row for row in rows if base_name(row.kernel) == kernel]
    if launch is not None:
        found = found[launch - 1 : launch] if launch >= 1 else []
    if len(found) == 1:
        return found[0]
    seen = ", ".join(dict.fromkeys(row.kernel for row in rows)) or "no kernel"
    if not found:
        raise GatesError(f"{kernel} was not profiled; the report has {seen}")
    raise GatesError(f"{len(found)} launches match {kernel}", hint=f"name one of: {seen}; and which launch")
