"""Which planted defects the CPU device shows: python studies/cpu_device_defects.py --out defects.json

Each defect is compiled by nvcc and tried on its own shapes, on the problem's odd shapes and on its special inputs, until one of them shows
it: the launcher's error, a finding, a limit that is broken, another answer in a second call, no launch, a leak, or the end of the process.
Numbers and findings alone are looked at, as correctness and sanitizer would: what ptxas, sass and clocks show is "not asked".
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import cpu_kit  # noqa: E402
from defects.catalogue import DEFECTS, HONEST  # noqa: E402
from defects.folders import Workshop  # noqa: E402
from defects.record import Defect  # noqa: E402

from gates.core.errors import GatesError  # noqa: E402

TIME_LIMIT_S = 120
KERNEL_LIMIT_MS = 10000


def cases(task: cpu_kit.TaskOnCpu, shapes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Shape and kind of inputs, those that show most first."""
    given = task.problem
    odd = tuple(given.ODD_SHAPES)
    yield from ((shape, "default") for shape in dict.fromkeys((*shapes, *odd)))
    shape = next(iter(getattr(given, "FAMILY_SHAPES", odd)))
    yield from ((shape, family) for family in getattr(given, "INPUT_FAMILIES", ()))


def shown(task: cpu_kit.TaskOnCpu, cpu: Any, shape: str, family: str) -> str:
    """What shows in this case, in a few words; empty if nothing does."""
    before = cpu.allocated_bytes()
    try:
        outcome = task.run(cpu, shape, 0, family, again=True)
    except GatesError as error:
        codes = sorted({finding.code for finding in cpu.findings()})
        return f"{'refused' if 'cpu.unsupported' in codes else 'error'}: {', '.join(codes) or error}"
    if outcome.findings:
        return f"finding: {', '.join(sorted({finding.code for finding in outcome.findings}))}"
    if outcome.broken:
        return f"numbers: {', '.join(outcome.broken)} (largest error {outcome.max_abs_err:.3g})"
    if not cpu.launches():
        return "no launch"
    return "leak" if cpu.allocated_bytes() != before else ""


def attempt(name: str, workshop: Workshop, toolbox: Path, pipe: Connection) -> None:
    """Try one defect or honest stage, and send its row. ``toolbox`` is the library of mix.cu, which all of its launchers share."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)  # some defects print
    defect: Defect | None = DEFECTS.get(name)
    row: dict[str, Any] = {"seen": "", "case": ""}
    try:
        folder = workshop.plant(defect) if defect else workshop.folder(name)
        started = time.monotonic()
        shared = toolbox if (defect.entry and defect.source == "mix.cu" if defect else name in ("mix", "direct")) else None
        task = cpu_kit.TaskOnCpu(folder, folder, shared)
        row["build_s"] = round(time.monotonic() - started, 1)
        cpu = cpu_kit.device(time_limit_ms=KERNEL_LIMIT_MS)
        for shape, family in cases(task, defect.shapes if defect else ("small",)):
            if seen := shown(task, cpu, shape, family):
                row.update(seen=seen, case=f"{shape}, {family}")
                break
    except Exception as error:  # one defect that can't be tried must not lose the others
        row["seen"] = f"refused: {type(error).__name__}: {str(error)[:300]}"
    pipe.send(row)


def study(names: list[str], jobs: int, out: Path) -> dict[str, Any]:
    """Try all, ``jobs`` at a time, each in a process of its own; ``out`` is written as it goes."""
    context, rows, waiting = multiprocessing.get_context("fork"), {}, list(names)
    running: dict[Connection, tuple[str, Any, float]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        workshop = Workshop(Path(temporary))
        # This builds the runtime, too, which all processes share.
        toolbox = cpu_kit.TaskOnCpu(workshop.folder("mix"), Path(temporary)).library
        while waiting or running:
            while waiting and len(running) < jobs:
                name = waiting.pop(0)
                mine, theirs = context.Pipe(duplex=False)
                process = context.Process(target=attempt, args=(name, workshop, toolbox, theirs))
                process.start()
                theirs.close()
                running[mine] = name, process, time.monotonic()
            for pipe in wait(list(running), timeout=1.0):
                name, process, started = running.pop(pipe)
                try:
                    row = pipe.recv()
                except EOFError:  # it ended without an answer
                    process.join()
                    row = {"seen": f"process: {_ended(process.exitcode)}", "case": ""}
                process.join()
                _keep(rows, name, {**row, "wall_s": round(time.monotonic() - started, 1)}, out, len(names))
            for pipe, (name, process, started) in list(running.items()):
                if time.monotonic() - started > TIME_LIMIT_S:
                    del running[pipe]
                    process.kill()
                    process.join()
                    _keep(rows, name, {"seen": f"process: no end in {TIME_LIMIT_S} s", "case": ""}, out, len(names))
    return rows


def _ended(code: int | None) -> str:
    return signal.Signals(-code).name if code is not None and code < 0 else f"exit {code}"


def _keep(rows: dict[str, Any], name: str, row: dict[str, Any], out: Path, count: int) -> None:
    defect = DEFECTS.get(name)
    asked = defect is not None and not defect.only and bool({"correctness", "sanitizer"} & {*defect.cpu})
    rows[name] = {"what": defect.what if defect else "honest", "asked": asked, **row}
    out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(f"[{len(rows)}/{count}] {name}: {row['seen'] or ('UNSEEN' if asked else 'nothing')} {row['case']}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these defects or honest stages alone")
    parser.add_argument("--jobs", type=int, default=2, help="at a time [2]")
    options = parser.parse_args()
    known = [*HONEST, *DEFECTS]
    if unknown := [name for name in options.only or () if name not in known]:
        parser.error(f"no defect or stage called {', '.join(unknown)}")
    import torch  # once, for all processes

    torch.set_num_threads(1)
    rows = study(options.only or known, options.jobs, options.out)
    kinds = Counter(row["seen"].partition(":")[0] or "nothing" for row in rows.values() if row["asked"])
    unseen = [name for name, row in rows.items() if row["asked"] and (not row["seen"] or row["seen"].startswith("refused"))]
    blamed = [name for name, row in rows.items() if row["what"] == "honest" and row["seen"]]
    print(
        f"defects: {dict(kinds)}; unseen: {', '.join(unseen) or 'none'}; honest stages blamed: {', '.join(blamed) or 'none'}",
        file=sys.stderr,
    )
    return 1 if unseen or blamed else 0


if __name__ == "__main__":
    sys.exit(main())
