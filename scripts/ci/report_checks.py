"""Tell the pull request what the gates say: a check run, and one comment that is updated in place.

Runs in a job of its own, with a token that may write and code of the base branch, and reads the evidence
that the judging job uploaded. The check run `gates (cpu)` or `gates (full)` is

    success    every touched stage may be merged
    failure    a stage was rejected, or its evidence is missing or not sound
    neutral    hold: no gate failed, but at least one came to no verdict; the title says which
    skipped    the change touches no stage
    cancelled  the judging job was cancelled

GATES_HOLD_CONCLUSION=failure makes hold red instead, for teams that want it to block the merge: a required
check is satisfied by `neutral` ("About protected branches", GitHub Docs).

Example: python scripts/ci/report_checks.py --profile cpu --folder build/ci --result success
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci_common import CiError, add_summary, read_event, run_step
from github_api import Api
from judge_stages import stage_names
from pr_comment import MARKER, comment_body, cut, one_line, summary_of
from stage_review import CONCLUSIONS, ERROR, Review, review_folder, worst

_ROOT = Path(__file__).resolve().parents[2]
_MAX_OUTPUT = 65_000  # GitHub takes 65,535 characters of a check run's summary


@dataclass(frozen=True)
class Subject:
    """The commit that was judged, and the pull requests of it that are open."""

    head_sha: str
    pull_requests: tuple[int, ...]
    details_url: str | None


def main() -> int:
    """Post the check run, then the comment; the exit code is 0 once GitHub has taken both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--profile", choices=("cpu", "full"), required=True)
    parser.add_argument("--folder", type=Path, required=True, help="the downloaded evidence")
    parser.add_argument("--result", required=True, help="how the judging job ended: success, failure, cancelled or skipped")
    parser.add_argument("--expect", help="JSON list of the stages that had to be judged, where trusted code made it")
    arguments = parser.parse_args()
    api = Api()
    subject = subject_of(*read_event(), api)
    expected = stage_names(arguments.expect) if arguments.expect is not None else None
    reviews = _reviews(arguments.folder, arguments.profile, subject.head_sha, arguments.result, expected)
    cancelled = arguments.result == "cancelled" and any(review.decision == ERROR for review in reviews)
    conclusion, title = ("cancelled", "the run was cancelled") if cancelled else verdict_of(reviews)
    text = summary_of(reviews, arguments.profile, f"gates-{arguments.profile}")
    add_summary(text)
    check = {
        "name": f"gates ({arguments.profile})",
        "head_sha": subject.head_sha,
        "status": "completed",
        "conclusion": conclusion,
        "output": {"title": title, "summary": cut(text, _MAX_OUTPUT)},
    }
    api.post("check-runs", check | ({"details_url": subject.details_url} if subject.details_url else {}))
    print(f"check: {conclusion}: {title}")
    if not cancelled:
        for number in subject.pull_requests:
            print(upsert_comment(api, number, arguments.profile, text, subject.head_sha))
    return 0


def verdict_of(reviews: Sequence[Review]) -> tuple[str, str]:
    """(conclusion, title) of the check run over all stages: the worst one decides."""
    if not reviews:
        return "skipped", "no stage is touched by this change"
    last = worst(reviews)
    conclusion = CONCLUSIONS[last.decision]
    if last.decision == "hold":
        conclusion = os.environ.get("GATES_HOLD_CONCLUSION") or conclusion
        if conclusion not in ("neutral", "failure", "action_required"):
            raise CiError(f"GATES_HOLD_CONCLUSION is {conclusion!r}", "give neutral, failure or action_required")
    names = ", ".join(review.stage for review in reviews if review.decision == last.decision)
    reason = "" if last.decision == "merge" else f": {last.reason}"
    return conclusion, one_line(f"{last.decision}: {names}{reason}", 240)


def upsert_comment(api: Api, number: int, profile: str, text: str, head_sha: str) -> str:
    """Post the comment, or change the one that is there; what was done, in words."""
    if _head(api.get(f"pulls/{number}")) != head_sha:
        return f"comment: left alone, pull request {number} has a newer commit"
    own = [entry for entry in api.pages(f"issues/{number}/comments") if _is_ours(entry)]
    if not own:
        api.post(f"issues/{number}/comments", {"body": comment_body("", profile, text, head_sha)})
        return f"comment: posted on pull request {number}"
    body = comment_body(own[0]["body"], profile, text, head_sha)
    api.patch(f"issues/comments/{own[0]['id']}", {"body": body})
    return f"comment: updated on pull request {number}"


def subject_of(name: str, event: dict[str, Any], api: Api) -> Subject:
    """What the event is about, from GitHub's own words alone, never from the artifact."""
    if name in ("pull_request", "pull_request_target"):
        pull = event.get("pull_request") or {}
        number = pull.get("number")
        if type(number) is not int:
            raise CiError("the event names no pull request")
        return Subject(_sha(_head(pull)), (number,), _run_url())
    run = event.get("workflow_run") if name == "workflow_run" else None
    if not isinstance(run, dict) or run.get("event") != "pull_request":
        raise CiError(f"event {name} is not about a pull request")
    sha = _sha(run.get("head_sha"))
    try:
        head = f"{run['head_repository']['owner']['login']}:{run['head_branch']}"
    except (KeyError, TypeError):  # a deleted fork: nobody is left to comment to
        return Subject(sha, (), run.get("html_url"))
    pulls = api.pages("pulls", state="open", head=head)
    return Subject(sha, tuple(pull["number"] for pull in pulls if _head(pull) == sha), run.get("html_url"))


def _reviews(folder: Path, profile: str, head_sha: str, result: str, expected: list[str] | None) -> list[Review]:
    if expected == []:
        return []
    try:
        reviews = review_folder(folder, engine=_ROOT, profile=profile, head_sha=head_sha, expected=expected)
    except CiError as error:
        return [Review(stage, ERROR, f"{error.what} (the job's result: {result})") for stage in expected or ["all stages"]]
    if not reviews and result != "success":
        return [Review("all stages", ERROR, f"the job lists no stage, and its result is {result}")]
    return reviews


def _is_ours(entry: dict[str, Any]) -> bool:
    """Whether a comment is the workflow's own: anybody can write the marker, but not as a bot."""
    user = entry.get("user") or {}
    return user.get("type") == "Bot" and str(entry.get("body") or "").startswith(MARKER)


def _head(pull: dict[str, Any]) -> Any:
    return (pull.get("head") or {}).get("sha")


def _sha(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{40}([0-9a-f]{24})?", value):
        raise CiError("the event names no commit")
    return value


def _run_url() -> str | None:
    parts = [os.environ.get(name) for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")]
    return f"{parts[0]}/{parts[1]}/actions/runs/{parts[2]}" if all(parts) else None


if __name__ == "__main__":
    sys.exit(run_step(main))
