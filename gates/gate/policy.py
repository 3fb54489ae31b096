"""Is the candidate judged by looser terms than its baseline was?

A stage that raises a budget, drops a shape, a seed or a gate, or widens an error limit can pass
where the stage before would have failed. That may be right, but a reviewer has to see it and say so:
the decision is hold until it is accepted with a reason. Tighter terms need nobody's word.

Example: ``ptxas.max_registers: 128 -> 168``. A change of what is timed (shape, cache mode) or of what
is computed (problem, its files, a shape's dimensions) counts too, for it is neither tighter nor looser.
Limits: whether another problem asks for less is for the reviewer to say; names of kernels and the kind
of the task are not terms, for stages differ in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gates.gate.registry import ROWS


@dataclass(frozen=True)
class Terms:
    """What a task is judged by, as its task.yaml says it: ``limits`` by gate, ``not_applicable`` reasons by gate."""

    limits: Mapping[str, Mapping[str, Any]]
    not_applicable: Mapping[str, str]
    shapes: tuple[str, ...]
    seeds: tuple[int, ...]
    arch: tuple[str, ...]
    problem: str = ""
    problem_sha256: str | None = None
    sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # dimensions by shape


def looser(candidate: Terms, baseline: Terms) -> tuple[str, ...]:
    """Each term of the candidate that is looser than the baseline's, in words; empty where none is."""
    return tuple(_looser(candidate, baseline))


def _looser(candidate: Terms, baseline: Terms) -> Iterator[str]:
    yield from _computed(candidate, baseline)
    terms: tuple[tuple[str, Sequence[object], Sequence[object]], ...] = (
        ("shapes", candidate.shapes, baseline.shapes),
        ("seeds", candidate.seeds, baseline.seeds),
        ("arch", candidate.arch, baseline.arch),
    )
    for what, ours, theirs in terms:
        if ours and theirs:  # runs of earlier versions did not record all of them
            yield from (f"{what}: {name} dropped" for name in theirs if name not in ours)
    for gate, reason in candidate.not_applicable.items():
        if gate not in baseline.not_applicable:
            yield f"{gate}: declared not applicable ({reason})"
    for gate, limits in baseline.limits.items():
        if gate not in candidate.not_applicable:
            mine, row = candidate.limits.get(gate, {}), ROWS.get(gate)
            if row is not None:
                mine, limits = row.terms_of(mine, limits), row.terms_of(limits, mine)
            unsaid = row.unsaid if row is not None else {}
            yield from _compare((gate,), {**unsaid, **mine}, {**unsaid, **limits} if limits else {})


def _computed(candidate: Terms, baseline: Terms) -> Iterator[str]:
    """What the candidate computes otherwise than the baseline."""
    if candidate.problem != baseline.problem:
        yield f"judged by another problem than the baseline's: {candidate.problem} instead of {baseline.problem}"
    elif None not in (candidate.problem_sha256, baseline.problem_sha256) and candidate.problem_sha256 != baseline.problem_sha256:
        yield f"judged by another problem than the baseline's: {candidate.problem} has other files"
    for shape, theirs in baseline.sizes.items():
        if (ours := candidate.sizes.get(shape, theirs)) != theirs:
            yield f"shape {shape}: {_text(theirs)} -> {_text(ours)}"


def _compare(path: tuple[str, ...], ours: Any, theirs: Any) -> Iterator[str]:
    """Looser terms at ``path`` of the gates section, both values given."""
    name = ".".join(path)
    if isinstance(theirs, Mapping):
        for key, value in theirs.items():
            if len(path) == 1 and path[0] in ROWS and key in (*ROWS[path[0]].no_terms, *ROWS[path[0]].former):
                continue
            if key in ours:
                yield from _compare((*path, key), ours[key], value)
            elif value is not False and value not in ([], {}):
                yield f"{name}.{key}: {_text(value)} dropped"
    elif isinstance(theirs, list):
        yield from (f"{name}: {entry} dropped" for entry in theirs if entry not in ours)
    elif isinstance(theirs, bool):
        if theirs and not ours:
            yield f"{name}: true -> false"
    elif isinstance(theirs, str):
        if ours != theirs:
            yield f"{name}: {theirs} -> {ours}"
    elif (ours < theirs) if path[0] in ROWS and path[1] in ROWS[path[0]].minima else (ours > theirs):
        yield f"{name}: {theirs:g} -> {ours:g}"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(entry)}" for key, entry in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
