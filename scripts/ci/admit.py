"""May this event's kernels run on the GPU machine? Sets the outputs `admitted` (true or false) and `reason`.

- A branch of the repository itself: yes, on `pull_request`; who can push it can already change the workflows.
- A fork: only on the very event by which a maintainer sets the label. A later push is a new, unread commit,
  so the label that still stands admits nothing: it is taken off and set again.
- Anything else: no.

Example: GITHUB_EVENT_NAME=pull_request GITHUB_EVENT_PATH=event.json python scripts/ci/admit.py
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ci_common import add_summary, read_event, run_step, set_output

LABEL = "gpu-approved"


def main() -> int:
    """Say whether the event is admitted; the exit code is 0 either way."""
    name, event = read_event()
    admitted, reason = admission(name, event)
    set_output("admitted", "true" if admitted else "false")
    set_output("reason", reason)
    if not admitted:
        add_summary(f"Not judged on the GPU machine: {reason}.")
    elif name == "pull_request_target":
        add_summary("The runs of a fork are judged, but not attested: this repository's identity vouches only for its own branches.")
    return 0


def admission(name: str, event: dict[str, Any]) -> tuple[bool, str]:
    """(whether the event's kernels may run on the GPU machine, why)."""
    if name not in ("pull_request", "pull_request_target"):
        return False, f"{name} is no pull request"
    own = _is_own(event)
    if own is None:
        return False, "the event does not say where the branch lies (a deleted fork?)"
    if name == "pull_request":
        if own:
            return True, "a branch of this repository"
        return False, f"a fork's kernels run only after a maintainer has read them and set the label {LABEL}"
    if own:
        return False, "a branch of this repository is judged on its pull_request event"
    label = event.get("label")
    if event.get("action") == "labeled" and isinstance(label, dict) and label.get("name") == LABEL:
        return True, f"the label {LABEL} was set for this commit"
    return False, f"only setting the label {LABEL} admits a fork's commit"


def _is_own(event: dict[str, Any]) -> bool | None:
    """Whether the branch lies in this repository; None where the event leaves it open."""
    try:
        head, base = (event["pull_request"][side]["repo"]["id"] for side in ("head", "base"))
    except (KeyError, TypeError):
        return None
    if not all(type(number) is int for number in (head, base)):
        return None
    return bool(head == base)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    sys.exit(run_step(main))
