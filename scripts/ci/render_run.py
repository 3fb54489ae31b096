"""Print the report of a run, made anew from its evidence: the COMPARE.md that lies there is not read.

`gates` is the one of the folder in which this is started. The evidence has been found sound before.

Example: PYTHONPATH=. python scripts/ci/render_run.py results/stage2_wmma_pv/RUN
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gates.comparison.within import compare_within
from gates.core.errors import GatesError
from gates.evidence.run_directory import RunInfo, Verdict, read_record


def report(run: Path) -> bytes:
    """The text of COMPARE.md, made from the run's records."""
    info, verdict = read_record(RunInfo, run, "run.json"), read_record(Verdict, run, "verdict.json")
    return compare_within(run, info, verdict).markdown().encode("utf-8", "backslashreplace")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run directory")
    try:
        sys.stdout.buffer.write(report(parser.parse_args().run))
    except GatesError as error:
        sys.exit(f"error: {error.what}" + (f"\nhint: {error.hint}" if error.hint else ""))
