"""Write the statement about a stage's run for GitHub to sign; sets the outputs `manifest`, `predicate` and `type`.

Runs in a job of its own, with an identity that may sign and code of the base branch, and reads the evidence that the judging job
uploaded. The run must be sound and of that stage, of the full profile and of the head commit; else the step fails and nothing is signed.

Example: python scripts/ci/attest_run.py --folder build/ci --stage stage2_wmma_pv --head-sha SHA --out build/attest
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ci_common import run_step, set_output
from stage_review import directory_of, judged_run, statement_of

_ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Write predicate.json; the exit code is 0, or 2 if there is no run to vouch for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="the downloaded evidence")
    parser.add_argument("--stage", required=True)
    parser.add_argument("--head-sha", required=True, help="the commit that was judged")
    parser.add_argument("--out", type=Path, required=True, help="folder for predicate.json and for the run, if that is packed")
    arguments = parser.parse_args()
    run = judged_run(arguments.folder, arguments.stage, engine=_ROOT, profile="full", head_sha=arguments.head_sha)
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    run = directory_of(run, out, engine=_ROOT)
    statement, predicate = statement_of(run, engine=_ROOT), out / "predicate.json"
    predicate.write_text(json.dumps(statement["predicate"], indent=1) + "\n", encoding="utf-8")
    for name, value in (("manifest", str(run / "manifest.json")), ("predicate", str(predicate)), ("type", statement["predicateType"])):
        set_output(name, value)
    return 0


if __name__ == "__main__":
    sys.exit(run_step(main))
