"""The texts that a reviewer reads: step summary, check run and the one comment. No I/O."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from ci_common import in_one_line
from stage_review import Review, worst

sys.path.append(str(Path(__file__).resolve().parents[2]))  # where no gates are installed, those of this checkout

from gates.render.markdown import code, details, escape, table  # noqa: E402

MARKER = "<!-- kernel-gates -->"
MAX_COMMENT = 65_000  # GitHub takes 65,536 characters, and counts some of them twice
PROFILES = ("full", "cpu")  # in the order in which the comment shows them
_NAMES = {"cpu": "CPU (compiler and emulator)", "full": "GPU (all gates)"}
_TOO_LONG = "\n\nThe rest is too long for this page; it is in the uploaded runs.\n"


def summary_of(reviews: Sequence[Review], profile: str, artifact: str) -> str:
    """All stages' decisions in one table, where the evidence of each is, and each one's report below it, as Markdown."""
    if not reviews:
        return f"## {_NAMES[profile]}\n\nNo stage is touched by this change; nothing was judged."
    rows = [(review.stage, review.decision, _cut_line(review.reason, 400)) for review in reviews]
    first = worst(reviews)
    parts = [f"## {_NAMES[profile]}\n", f"**{escape(_cut_line(f'{first.decision} · {first.stage} · {first.reason}', 400))}**\n"]
    parts.append(table(("stage", "decision", "why"), rows))
    if found := [f"`{code(review.evidence)}`" for review in reviews if review.evidence]:
        parts.append(f"Evidence in the artifact `{code(artifact)}`: {', '.join(found)}. `gates verify FILE` checks it.\n")
    parts += [details(f"{review.stage}: {review.decision}", safe(review.markdown).strip()) for review in reviews if review.markdown]
    return "\n".join(parts).rstrip()


def comment_body(old: str, profile: str, section: str, head_sha: str) -> str:
    """The comment with this profile's section put in; the other profile's stays as it is.

    Both are cut, if need be, so that the whole fits into a comment.
    """
    sections = _sections(old)
    sections[profile] = f"{section}\n\nCommit {head_sha[:12]}."
    present = [name for name in PROFILES if name in sections]
    room = (MAX_COMMENT - 500) // len(present)
    parts = [f"{_begin(name)}\n{cut(sections[name], room)}\n{_end(name)}" for name in present]
    return "\n\n".join([MARKER, *parts]) + "\n"


def cut(text: str, most: int) -> str:
    """``text``, or as many whole lines of it as fit with a word that it was cut; open folds are closed."""
    if len(text) <= most:
        return text
    kept = text[: most - len(_TOO_LONG) - 200].rpartition("\n")[0]
    if kept.count("```") % 2:
        kept += "\n```"
    return kept + "\n\n</details>" * max(0, kept.count("<details>") - kept.count("</details>")) + _TOO_LONG


def safe(text: str) -> str:
    """Markdown of evidence without what acts on a page: mentions, comments that could fake a marker, control characters."""
    text = "".join(sign for sign in text if sign in "\n\t\u200b" or sign.isprintable())
    text = re.sub(r"@(?=\w)", "@\u200b", text)
    return text.replace("<!--", "&lt;!--").replace("![", "!\u200b[")


def one_line(text: str, most: int = 200) -> str:
    """``text`` on one line, for titles."""
    return _cut_line(safe(text), most)


def _cut_line(text: str, most: int) -> str:
    line = in_one_line(text)
    return line if len(line) <= most else line[: most - 1] + "…"


def _sections(old: str) -> dict[str, str]:
    found = {}
    for profile in PROFILES:
        match = re.search(f"{re.escape(_begin(profile))}\n(.*?)\n{re.escape(_end(profile))}", old, re.S)
        if match:
            found[profile] = match[1]
    return found


def _begin(profile: str) -> str:
    return f"<!-- kernel-gates:{profile} -->"


def _end(profile: str) -> str:
    return f"<!-- end of kernel-gates:{profile} -->"
