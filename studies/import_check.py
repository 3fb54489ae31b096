"""Judge the imported problems of a suite, without a GPU: a right solution must pass, and three wrong ones must be refused.

    python studies/import_check.py kernelbench KernelBench/level1 --out level1.csv
    python studies/import_check.py kernelbot reference-kernels/problems --out problems.csv

Each problem is imported into a temporary folder. The correctness gate then judges its own code, zeros, the mean of the right outputs
everywhere, and the right outputs with one element off, on the smallest shape with seed 0. A row is written as soon as it is known, and a
rerun continues with what has no row. A value is ``pass``; ``fail`` or ``hold`` with the gate's reason code; ``same`` if a wrong solution's
outputs are the right ones bit for bit; ``time`` if the problem's time was over; ``error`` with the reason, or ``not imported``.
"""

from __future__ import annotations

import csv
import functools
import io
import math
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Any

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gates.build.build import build  # noqa: E402
from gates.build.toolchain import Toolchain, find_toolchain  # noqa: E402
from gates.core import jsonio  # noqa: E402
from gates.core.records import Status  # noqa: E402
from gates.evaluation.overlay import laid_out, root_of  # noqa: E402
from gates.gate.correctness.collect import run_correctness  # noqa: E402
from gates.gate.correctness.evidence import CorrectnessEvidence, parse  # noqa: E402
from gates.gate.correctness.judge import judge  # noqa: E402
from gates.importers import bulk, folder, kernelbench, kernelbot  # noqa: E402
from gates.task.load import Task, load_task  # noqa: E402
from gates.task.problem import DEFAULT_INPUTS  # noqa: E402

IMPORT_SHARE = 1 / 3  # of a problem's time: its full size needs more, and is not what is judged here
FORMATS = {"kernelbench": kernelbench, "kernelbot": kernelbot}
NOT_IMPORTED, SAME, TIME, ERROR, PASS, FAIL, HOLD = "not imported", "same", "time", "error", "pass", "fail", "hold"
WRONG = {
    "zeros": "[torch.zeros_like(output) for output in outputs]",
    "mean": "[torch.full_like(output, float(output.double().mean())) for output in outputs]",
    "one_off": "[_one_off(outputs[0]), *outputs[1:]]",
}
CHANGED = '''

_right = run


def _one_off(output):
    """One element at a third of the output, off by the largest magnitude, at least 1."""
    elements = output.flatten().clone()
    if len(elements):
        place = elements[len(elements) // 3 :][:1]
        place.copy_(place.double() + max(1.0, float(elements.double().abs().max())))
    return elements.view(output.shape)


def run(*arguments):
    found = _right(*arguments)
    outputs = list(found) if isinstance(found, (tuple, list)) else [found]
    return {wrong}
'''


@dataclass(frozen=True)
class Row:
    """One problem; ``sha256`` is of all its files."""

    problem: str
    sha256: str
    reference: str = ""
    zeros: str = ""
    mean: str = ""
    one_off: str = ""
    seconds: float = 0.0


def checked(imported: folder.Imported, label: str, limit_s: float) -> dict[str, str]:
    """What the gate says of each solution of a problem; ``limit_s`` is for all of them."""
    started = time.monotonic()
    import_s = limit_s * IMPORT_SHARE
    with tempfile.TemporaryDirectory(prefix="gates-import-check-") as made:
        try:
            written = folder.write(imported, Path(made), folder.task_name(None, label), import_s)
        except Exception as error:  # one problem does not end the others' check
            return {"reference": TIME if time.monotonic() - started > import_s else f"{NOT_IMPORTED}: {bulk.in_one_line(error)}"}
        task = load_task(written.task, environ={})
        tried = {name: sizes for name, sizes in written.shapes.items() if name not in written.untried}
        shape = min(tried, key=lambda name: math.prod(tried[name].values()))
        caller = (task.folder / folder.CALLER).read_text(encoding="utf-8")
        texts = {"reference": caller} | {name: caller + CHANGED.format(wrong=wrong) for name, wrong in WRONG.items()}
        found, right = {}, None
        for name, text in texts.items():
            left = limit_s - (time.monotonic() - started)
            if left <= 0:
                found[name] = TIME
                continue
            try:
                evidence = tried_on(task, text, shape, left, Path(made) / name, probed=name not in WRONG)
            except Exception as error:
                found[name] = f"{ERROR}: {bulk.in_one_line(error)}"
                continue
            right = right or evidence
            found[name] = value(evidence, right, task.gates["correctness"])
        return found


def tried_on(task: Task, text: str, shape: str, limit_s: float, scratch: Path, *, probed: bool) -> CorrectnessEvidence:
    """The correctness gate's evidence on the task whose caller has this text; ``probed``: also with a few elements exchanged."""
    inside = (task.folder / folder.CALLER).relative_to(root_of(task, task.files())).as_posix()
    stage = laid_out(task, {inside: text}, {}, scratch / "candidate")
    side = build(stage, _toolchain(), scratch / "build", want={"emulator"}, jobs=1).side(stage, "emulator")
    limits = task.gates["correctness"]
    return parse(
        run_correctness(
            side,
            [shape],
            [0],
            work=scratch / "work",
            limit_s=limit_s,
            bad_atol=limits["bad_atol"],
            quick=False,
            hangs=True,
            inputs=() if probed else (DEFAULT_INPUTS,),
            limits=limits,
        )
    )


@functools.lru_cache(maxsize=1)
def _toolchain() -> Toolchain:
    return find_toolchain()


def value(evidence: CorrectnessEvidence, right: CorrectnessEvidence, limits: Mapping[str, Any]) -> str:
    """What the table says of a solution; ``right``: of the problem's own code."""
    if any(case.status in ("timeout", "missing") for case in evidence.cases):
        return TIME
    result = judge(evidence, limits)
    if result.status is Status.FAIL:
        return f"{FAIL} {result.code}"
    digests = [[case.output_sha256 for case in one.cases] for one in (evidence, right)]
    if evidence is not right and all(digests[0]) and digests[0] == digests[1]:
        return SAME
    return PASS if result.status is Status.PASS else f"{HOLD} {result.code}"


def check(format: ModuleType, pair: bulk.Pair, name: str, known: Mapping[tuple[str, str], Row], limit_s: float) -> Row:
    """The row of a problem: that of before if the problem's files are the same."""
    started = time.monotonic()
    try:
        imported = format.load(pair.problem, None)
    except Exception as error:
        return Row(name, "", f"{NOT_IMPORTED}: {bulk.in_one_line(error)}")
    digest = bulk.digest(imported)
    if (row := known.get((name, digest))) is not None:
        return row
    return Row(name, digest, **checked(imported, pair.label, limit_s), seconds=round(time.monotonic() - started, 1))


def read(table: Path) -> list[Row]:
    """The rows of a table; none if there is no such file."""
    if not table.is_file():
        return []
    with table.open(encoding="utf-8", newline="") as file:
        return [Row(**{**line, "seconds": float(line["seconds"])}) for line in csv.DictReader(file)]


def write(table: Path, rows: Iterable[Row]) -> None:
    """Write the table whole."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    jsonio.write_text(table, text.getvalue())


@click.command()
@click.argument("name", type=click.Choice(list(FORMATS)), metavar="FORMAT")
@click.argument("problems", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="DIR")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The table to write, or to continue.")
@click.option("--limit-s", type=click.FloatRange(min=1), default=60.0, show_default=True, help="Seconds for a problem.")
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Problems at a time.")
def main(name: str, problems: Path, out: Path, limit_s: float, jobs: int) -> None:
    """Judge a right and three wrong solutions of each problem below DIR, in the format kernelbench or kernelbot."""
    format = FORMATS[name]
    pairs = {pair.problem.relative_to(problems).as_posix(): pair for pair in format.pairs(problems, None)}
    before = read(out)
    known, rows = {(row.problem, row.sha256): row for row in before}, {row.problem: row for row in before}
    with ThreadPoolExecutor(jobs) as together:
        asked = [together.submit(check, format, pair, name, known, limit_s) for name, pair in pairs.items()]
        for done in as_completed(asked):
            row = done.result()
            if row != rows.get(row.problem):
                rows[row.problem] = row
                write(out, sorted(rows.values(), key=lambda row: bulk.by_numbers(Path(row.problem))))
                click.echo(", ".join(map(str, asdict(row).values())), err=True)


if __name__ == "__main__":
    main()
