"""Apply a unified diff to texts: each hunk where its lines are, or at the one other place that has them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gates.core.errors import GatesError

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_HINT = "a unified diff as `git diff` or `diff -u` writes it"


def changed_by(diff: str) -> dict[str, list[tuple[int, list[str], list[str]]]]:
    """Name -> hunks (line from 0, lines before, lines after) of a unified diff; raises GatesError for anything else."""
    found: dict[str, list[tuple[int, list[str], list[str]]]] = {}
    hunks: list[tuple[int, list[str], list[str]]] | None = None
    lines = iter(diff.removesuffix("\n").split("\n"))
    for line in lines:
        if line.startswith("+++ "):
            name = line[4:].partition("\t")[0].strip()
            if name == "/dev/null":
                raise GatesError("the diff removes a file", hint="a candidate changes the text of sources, and no more")
            hunks = found.setdefault(name.removeprefix("b/"), [])
        elif (match := _HUNK.match(line)) is not None:
            if hunks is None:
                raise GatesError("the diff has a hunk before any file name", hint=_HINT)
            old_count, new_count = (int(match[place]) if match[place] is not None else 1 for place in (2, 4))
            before, after = list[str](), list[str]()
            while len(before) < old_count or len(after) < new_count:
                text = next(lines, None)
                if text is None or text[:1] not in ("", " ", "+", "-", "\\"):
                    raise GatesError(f"the diff ends within a hunk: {line}", hint=_HINT)
                if text[:1] in ("", " ", "-"):
                    before.append(text[1:])
                if text[:1] in ("", " ", "+"):
                    after.append(text[1:])
            hunks.append((max(int(match[1]) - (1 if old_count else 0), 0), before, after))
    if not any(found.values()):
        raise GatesError("the diff changes nothing", hint=_HINT)
    return found


def patched(texts: Mapping[str, str], diff: str) -> dict[str, str]:
    """The changed texts by the names of ``texts``; raises GatesError if a file is not there or a hunk does not fit."""
    result: dict[str, str] = {}
    for name, hunks in changed_by(diff).items():
        parts = name.split("/")
        fitting = [one for one in texts if one.split("/")[-len(parts) :] == parts] or [one for one in texts if name.endswith(f"/{one}")]
        if len(fitting) != 1:
            raise GatesError(
                f"the diff changes {name}, which {'is not one source' if not fitting else 'may be several sources'}",
                hint=f"sources: {', '.join(sorted(texts))}",
            )
        lines, shift = texts[fitting[0]].split("\n"), 0
        for start, before, after in hunks:
            at = _place(lines, start + shift, before)
            if at is None:
                raise GatesError(f"the diff does not fit {name} at line {start + 1}", hint="make it from the text as it is")
            lines[at : at + len(before)] = after
            shift += len(after) - len(before)
        result[fitting[0]] = "\n".join(lines)
    return result


def _place(lines: list[str], start: int, before: list[str]) -> int | None:
    """Where the lines ``before`` are: at ``start``, or else at the only place that has them."""
    if lines[start : start + len(before)] == before:
        return start
    places = [at for at in range(len(lines) - len(before) + 1) if lines[at : at + len(before)] == before] if before else []
    return places[0] if len(places) == 1 else None
