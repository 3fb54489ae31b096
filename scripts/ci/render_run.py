"""Print the report of a run, made anew from its evidence: the COMPARE.md that lies there is not read.

`gates` is the one of the folder in which this is started. The evidence has been found sound before.

Example: PYTHONPATH=. python scripts/ci/render_run.py results/stage2_wmma_pv/RUN
"""

from __future__ import annotations

import sys
from pathlib import Path

from gates.comparison.within import compare_within
from gates.evidence.run_directory import RunInfo, Verdict, read_record

if __name__ == "__main__":
    run = Path(sys.argv[1])
    info, verdict = read_record(RunInfo, run, "run.json"), read_record(Verdict, run, "verdict.json")
    sys.stdout.buffer.write(compare_within(run, info, verdict).markdown().encode("utf-8", "backslashreplace"))
