"""The recorded runs and sweeps; sign a run directory anew after its files were changed: `python tests/support/runs_kit.py RUN`."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from places import DATA, RECORDED

from gates.comparison.within import compare_within
from gates.core.errors import GatesError
from gates.evidence.run_directory import RunInfo, Verdict, read_record
from gates.review.history import find_runs

RUN = DATA / "runs" / "h100_stage2"
PLACES = sorted(find_runs(RECORDED))  # of the recorded runs: packed files
SWEEPS = sorted(RECORDED.glob("*/sweeps/*/*"))  # packed files, too


def sign(run: Path, *, rendered: bool = True) -> None:
    """Write manifest.json with the digests of the files that are there, and, if they can be read, COMPARE.md anew from them."""
    if rendered and (run / "COMPARE.md").exists():
        try:
            report = compare_within(run, read_record(RunInfo, run, "run.json"), read_record(Verdict, run, "verdict.json")).markdown()
        except (GatesError, ArithmeticError, LookupError, TypeError, ValueError):  # of a file that the test made so
            report = (run / "COMPARE.md").read_text(encoding="utf-8")
        (run / "COMPARE.md").write_text(report, encoding="utf-8")
    manifest = run / "manifest.json"
    files = {
        path.relative_to(run).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(run.rglob("*"))
        if path.is_file() and path != manifest
    }
    manifest.write_text(json.dumps({"schema_version": 1, "sha256": files}, indent=1) + "\n")


if __name__ == "__main__":
    sign(Path(sys.argv[1]))
