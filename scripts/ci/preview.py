"""Print the comment that a pull request would get for runs on this machine; nothing is sent anywhere.

RUN is a run directory, a packed run, or a name that `gates` knows (latest:stage2, recorded:h200/stage2).

Example: python scripts/ci/preview.py latest:stage2 latest:stage3
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from ci_common import CiError, run_step
from pr_comment import comment_body, summary_of
from stage_review import Review, directory_of, review_run

_ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(_ROOT))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder that holds runs [results]")
    arguments = parser.parse_args()
    reviews, profiles, sha = [], set(), ""
    for name in arguments.runs:
        review, profile, sha = _review(name, arguments.results)
        reviews.append(review)
        profiles.add(profile)
    if len(profiles) > 1:
        raise CiError("the runs have different profiles", "a comment's section is of one profile: name runs of one")
    profile = profiles.pop()
    print(comment_body("", profile, summary_of(reviews, profile, f"gates-{profile}"), sha or "not in git"), end="")
    return 0


def _review(name: str, results: Path) -> tuple[Review, str, str]:
    """(review, profile, commit) of a run."""
    from gates.core.errors import GatesError
    from gates.evidence.packed_runs import origin
    from gates.evidence.run_directory import RunInfo, read_record, resolve_run

    try:
        run = resolve_run(name, results)
        info: RunInfo = read_record(RunInfo, run, "run.json")
    except GatesError as error:
        raise CiError(error.what, error.hint or "") from None
    with tempfile.TemporaryDirectory(prefix="gates-preview-") as scratch:
        review = review_run(directory_of(run, Path(scratch), engine=_ROOT), None, engine=_ROOT, stage=info.task.name)
    return replace(review, evidence=origin(run).name), info.profile, info.git.sha if info.git and info.git.sha else ""


if __name__ == "__main__":
    sys.exit(run_step(main))
