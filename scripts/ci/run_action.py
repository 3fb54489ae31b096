"""The step of the composite action: judge one task, set the outputs decision, reason, run, packed and artifact.

Inputs come as variables, never as shell text: GATES_TASK, GATES_PROFILE, GATES_RESULTS, GATES_BASELINE
(a run directory, latest:TASK or recorded:DEVICE/TASK to put beside the run; empty for none).

The exit code is 1 for reject and 2 where nothing could be judged; merge and hold are 0, and the outputs
tell them apart.

Example: GATES_TASK=stage2 GATES_PROFILE=cpu GATES_RESULTS=results python scripts/ci/run_action.py
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

from ci_common import CiError, add_summary, run_step, run_untrusted, set_output, variable
from pr_comment import summary_of
from stage_review import ERROR, Review, review_run, run_gates

PROFILES = ("auto", "cpu", "full")


def main() -> int:
    """Run the gates, review the run, set the outputs."""
    task, profile, here = variable("GATES_TASK"), variable("GATES_PROFILE"), Path.cwd()
    results = here / variable("GATES_RESULTS")
    if profile not in PROFILES:
        raise CiError(f"profile {profile!r} is none of {', '.join(PROFILES)}")
    if task.startswith("-"):
        raise CiError(f"task {task!r} is not a task", "a task folder, or a name of `gates list`")
    before = _runs(results)
    base = _baseline(os.environ.get("GATES_BASELINE", "").strip(), results)
    command = [sys.executable, "-m", "gates", "run", task, "--profile", profile, "--results", str(results)]
    code = run_untrusted(command, here, [results, here / "build"])
    new = sorted(_runs(results) - before)
    if new:
        review = review_run(new[-1].resolve(), base, engine=here, stage=new[-1].parent.name)
    else:
        review = Review(Path(task).name, ERROR, f"gates run ended with exit code {code}, without evidence")
    run = new[-1].relative_to(here).as_posix() if new and new[-1].is_relative_to(here) else str(new[-1]) if new else ""
    packed = (
        f"{run}.zip" if run and run_gates(["pack", str(new[-1].resolve())], here).returncode == 0 else run
    )  # a run that was changed stays as it is
    artifact = _artifact(review, profile)
    for name, value in (("decision", review.decision), ("reason", review.reason), ("run", run), ("packed", packed), ("artifact", artifact)):
        set_output(name, value)
    add_summary(summary_of([replace(review, evidence=Path(packed).name)], "cpu" if profile == "cpu" else "full", artifact))
    return {"reject": 1, ERROR: 2}.get(review.decision, 0)


def _baseline(name: str, results: Path) -> Path | None:
    """The baseline's run, resolved before the task runs, so that latest: can't mean the new run."""
    if not name:
        return None
    from gates.core.errors import GatesError
    from gates.evidence.run_directory import resolve_run

    try:
        return resolve_run(name, results).resolve()
    except GatesError as error:
        raise CiError(f"baseline: {error.what}", error.hint or "") from None


def _runs(results: Path) -> set[Path]:
    return {path.parent for path in results.glob("*/*/run.json") if not path.parent.name.startswith(".")}


def _artifact(review: Review, profile: str) -> str:
    return "gates-" + re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{review.stage}-{profile}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    sys.exit(run_step(main))
