"""Check that ncu.json has the counters of ncu's own reports.

The reader of reports is NVIDIA's native code, and a report may be hostile, so a subprocess reads it.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from gates.core import jsonio, records
from gates.core.errors import GatesError
from gates.gate.ncu.evidence import NcuEvidence, ProfiledSide
from gates.gate.ncu.report import Cell, Row, base_name, read_report
from gates.worker import process

REPORTS = {"candidate": "profile.ncu-rep", "baseline": "baseline/profile.ncu-rep"}
_LIMIT_S = 120.0
_SCRIPT = "from gates.verify.profile import print_rows; print_rows()"


def profile_problems(run: Path, evidence: NcuEvidence) -> tuple[list[str], list[str]]:
    """Return (contradictions between ncu.json and the run's reports, what was not checked), one sentence each."""
    sides = {role: side for role, side in evidence.sides.items() if side.kernels and role in REPORTS}
    missing = [
        f"{REPORTS[role]} is missing: the counters of the {role} in ncu.json were not checked against it"
        for role in sides
        if not (run / REPORTS[role]).is_file()
    ]
    if missing or not sides:
        return [], missing
    if importlib.util.find_spec("ncu_report") is None:
        return [], ["ncu.json was not checked against profile.ncu-rep: ncu-report is not installed (pip install 'kernel-gates[gpu]')"]
    reader = _numbers(_reader_version())
    if reader and reader < _numbers(evidence.version):
        return [], [
            f"ncu.json was not checked against profile.ncu-rep: it is from ncu {evidence.version}, the installed ncu-report is "
            f"{_reader_version()}"
        ]
    problems = []
    for role, side in sides.items():
        rows, why = _rows(run / REPORTS[role], side)
        problems += (
            [f"{REPORTS[role]} {why}"] if why else [f"ncu.json and {REPORTS[role]} disagree: {text}" for text in _differences(side, rows)]
        )
    return problems, []


def _rows(report: Path, side: ProfiledSide) -> tuple[list[Row], str]:
    """(the launches in a report, why it could not be read)."""
    metrics = sorted({counter.source for kernel in side.kernels for counter in kernel.counters if counter.source})
    finished = process.run([sys.executable, "-c", _SCRIPT, report, *metrics], limit_s=_LIMIT_S, whole=True)
    last = finished.output.strip().rpartition("\n")[2]
    if finished.timed_out or finished.flooded or finished.returncode:
        how = "takes too long" if finished.timed_out else f"failed (exit code {finished.returncode})"
        return [], f"can't be read: the reader {how}: {last[-200:]}"
    try:
        data = jsonio.loads(last, report.name)
        return [records.from_json(Row, row, report.name) for row in data["rows"]], data["error"]
    except (GatesError, KeyError, TypeError) as error:
        return [], f"can't be read: {error}"


def print_rows() -> None:
    """Run in the subprocess: print the launches of the report ``sys.argv[1]`` with the metrics of the other arguments, as JSON."""
    rows, error = list[Row](), ""
    try:
        rows = read_report(Path(sys.argv[1]), sys.argv[2:])
    except GatesError as found:
        error = found.what
    print(json.dumps({"rows": [dataclasses.asdict(row) for row in rows], "error": error}))


def _differences(side: ProfiledSide, rows: list[Row]) -> Iterator[str]:
    listed = tuple(f"{base_name(row.kernel)} #{row.number}" for row in rows)
    told = tuple(f"{base_name(name)} #{number}" for name, _, number in (launch.rpartition(" #") for launch in side.launches))
    if listed != told:
        yield f"it has the launches {', '.join(listed) or 'none'}, ncu.json names {', '.join(told) or 'none'}"
        return
    for kernel in side.kernels:
        row = next((row for row in rows if row.number == kernel.launch and base_name(row.kernel) == base_name(kernel.kernel)), None)
        if row is None:
            yield f"it has no launch {kernel.launch} of {base_name(kernel.kernel)}"
            continue
        yield from (
            f"{counter.source} of {base_name(kernel.kernel)} is {row.cells[counter.source].value}, ncu.json says {counter.value}"
            for counter in kernel.counters
            if counter.source and not _same(counter.value, row.cells, counter.source)
        )


def _same(value: float | None, cells: Mapping[str, Cell], source: str) -> bool:
    """Whether a value is the report's; one that came by ncu's CSV, on a machine without the reader, has two decimals."""
    found = cells[source].value
    if value is None or found is None:
        return value is found
    return value == found or (value == round(value, 2) and abs(value - found) <= 0.00501) or abs(value - found) <= 1e-9 * abs(found)


def _reader_version() -> str:
    try:
        return importlib.metadata.version("ncu-report")
    except importlib.metadata.PackageNotFoundError:
        return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
