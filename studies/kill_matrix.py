"""Which gate kills which planted defect: run them all, and write the matrix down.

    python studies/kill_matrix.py run --profile cpu --out results/recorded/cpu/kill-matrix.json
    python studies/kill_matrix.py run --profile full --jobs 14 --budget-s 300 --out results/recorded/h100/kill-matrix.json
    python studies/kill_matrix.py report

``run`` writes its file after every gate, so a run that is cut short loses nothing. ``report`` makes
docs/internals/kill-matrix.md of the recorded files; kill-matrix-*.json beside one hold rows that it had no time for.
Recorded files may be gzipped.
The exit code is 1 if a defect was let through or an honest stage was refused.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

FOLDERS = [ROOT / "results" / "recorded" / name for name in ("cpu", "h100", "h200")]
PAGE = ROOT / "docs" / "internals" / "kill-matrix.md"
LIST = PAGE.with_suffix(".csv")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run the gates of all defects and of the honest stages")
    run.add_argument("--profile", choices=("cpu", "full"), required=True)
    run.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    run.add_argument("--only", nargs="+", metavar="NAME", help="these defects or stages alone")
    run.add_argument("--jobs", type=int, default=2, help="tasks at a time [2]")
    run.add_argument("--budget-s", type=float, default=36000.0, help="begin nothing after this many seconds")
    run.add_argument(
        "--resume", action="store_true", help="keep the rows of the JSON file that tell enough: red somewhere, or with every gate"
    )
    commands.add_parser("report", help="write docs/internals/kill-matrix.md and kill-matrix.csv")
    options = parser.parse_args()
    return _run(options) if options.command == "run" else _report()


def _run(options: argparse.Namespace) -> int:
    from defects import matrix, report

    from gates.core import jsonio
    from gates.launch.device import probe

    device = None
    if options.profile == "full":
        found = probe()
        if not found.devices:
            print(f"error: {found.reason or 'no CUDA device'}", file=sys.stderr)
            return 3
        device = found.devices[0]
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # many references at a time; each with all cores would be slower
    known = matrix.all_names()
    if unknown := [name for name in options.only or () if name not in known]:
        print(f"error: no defect or stage called {', '.join(unknown)}", file=sys.stderr)
        return 2
    options.out.parent.mkdir(parents=True, exist_ok=True)
    kept = matrix.settled_rows(jsonio.read(options.out)) if options.resume and options.out.is_file() else {}
    with tempfile.TemporaryDirectory(prefix="kill-matrix-") as root:
        data = matrix.run(
            options.only or known,
            Path(root),
            options.out,
            device=device,
            jobs=options.jobs,
            budget_s=options.budget_s,
            say=lambda text: print(text, file=sys.stderr, flush=True),
            kept=kept,
        )
    print(report.summary(data))
    return 0 if report.sound(data) else 1


def recorded() -> list[dict[str, Any]]:
    """What was recorded on each machine, the emulator first, each of all its files."""
    from defects import report

    from gates.core import jsonio

    found = [
        [jsonio.read(path) for path in sorted(folder.glob("kill-matrix*.json*"), key=lambda path: path.name.partition(".")[0])]
        for folder in FOLDERS
    ]
    return [report.united(files) for files in found if files]


def _report() -> int:
    from defects import report

    halves = recorded()
    PAGE.write_text(report.page(halves), encoding="utf-8")
    LIST.write_text(report.matrix(halves), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}, {LIST.relative_to(ROOT)}")
    return 0 if all(report.sound(data) for data in halves) else 1


if __name__ == "__main__":
    sys.exit(main())
