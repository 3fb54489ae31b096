"""Say at which sizes a kernel is wrong and at which it is right, if it is right at some.

Only judged cases with ordinary inputs count. A shape is wrong if the kernel's outputs or launch fail in one of its cases, and right if
all of its cases pass. Example: "wrong where N is not a multiple of 4: 1, 33, 1021; right for 4, 64, 1024".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from gates.core.records import Check, Status
from gates.gate.correctness import codes
from gates.gate.correctness.evidence import Case
from gates.task.problem import DEFAULT_INPUTS

_MULTIPLES = (4, 8, 16, 32, 64, 128, 256, 2)  # of vector loads, fragments, warps, tiles and blocks; 2 only if 4 does not tell
_MOST = 8  # sizes told of each kind
_OF_THE_TASK = {
    codes.TOO_WEAK,
    codes.STALE_ANSWER,
    codes.END_TO_END,
    codes.WORSE_THAN_BASELINE,
    codes.OTHER_INPUTS,
    codes.PROBLEM_ERROR,
}  # say nothing of a size


Sizes = Mapping[str, int]
Judged = list[tuple[Case, list[Check]]]


def with_sizes(judged: Judged, uncounted: Collection[Any]) -> Judged:
    """Return ``judged`` with the sentence on sizes in the hint of the first failing check of each wrong case; ``uncounted``: keys of weak
    cases.
    """
    ordinary = [(case, found) for case, found in judged if case.inputs == DEFAULT_INPUTS and case.sizes]
    wrong = [case for case, found in ordinary if _of_a_size(found)]
    failed = {case.shape for case in wrong}
    right = [case for case, found in ordinary if case.key not in uncounted and all(check.status is Status.PASS for check in found)]
    text = sentence([case.sizes for case in wrong], [case.sizes for case in right if case.shape not in failed])
    keys = {case.key for case in wrong}
    return [(case, _told(found, text) if text and case.key in keys else found) for case, found in judged]


def sentence(wrong: Sequence[Sizes], right: Sequence[Sizes]) -> str:
    """Return "wrong … ; right …" for the sizes of shapes; empty if one of them is missing, or if a name of a dimension is."""
    names = list(wrong[0]) if wrong else []
    if not names or not right or any(list(sizes) != names for sizes in (*wrong, *right)):
        return ""
    found: dict[str, str] = {}  # the first rule of each dimension that tells
    for name, rule in _rules(names, wrong, right):
        found.setdefault(name, rule)
    if not found:
        return f"wrong for {_listed(_shape(sizes) for sizes in wrong)}; right for {_listed(_shape(sizes) for sizes in right)}"

    def sizes_of(name: str, kind: Sequence[Sizes]) -> str:
        return _listed(map(str, sorted({sizes[name] for sizes in kind})))

    ruled = {name: rule for name, rule in found.items() if rule} or dict(list(found.items())[:1])
    if len(ruled) == 1:
        ((name, rule),) = ruled.items()
        return f"wrong {rule + ': ' if rule else f'for {name} '}{sizes_of(name, wrong)}; right for {sizes_of(name, right)}"
    told = (f"{rule} ({sizes_of(name, wrong)}; right for {sizes_of(name, right)})" for name, rule in ruled.items())
    return f"wrong {' or '.join(told)}"


def _rules(names: Sequence[str], wrong: Sequence[Sizes], right: Sequence[Sizes]) -> Iterator[tuple[str, str]]:
    """(dimension, rule) for each rule that tells all wrong sizes from all right ones: tails
    first, in the dimension with most sizes first. An empty rule: no size is both wrong and right.
    """
    columns = [(name, {sizes[name] for sizes in wrong}, {sizes[name] for sizes in right}) for name in names]
    columns = sorted((one for one in columns if not one[1] & one[2]), key=lambda one: -len(one[1] | one[2]))
    for name, bad, good in columns:
        for size in _MULTIPLES:
            if len(bad) > 1 and all(one % size for one in bad) and not any(one % size for one in good):
                yield name, f"where {name} is not a multiple of {size}"
    for name, bad, good in columns:
        if min(bad) > max(good):
            yield name, f"where {name} is above {max(good)}"
        if max(bad) < min(good):
            yield name, f"where {name} is below {min(good)}"
    for name, bad, good in columns:
        for size in _MULTIPLES:
            if len(good) > 1 and all(one % size for one in good) and not any(one % size for one in bad):
                yield name, f"where {name} is a multiple of {size}"
    for name, _, _ in columns:
        yield name, ""


def _listed(texts: Iterator[str]) -> str:
    found = list(dict.fromkeys(texts))
    return ", ".join(found[:_MOST]) + (f" and {len(found) - _MOST} more" if len(found) > _MOST else "")


def _shape(sizes: Sizes) -> str:
    return " ".join(f"{name}={size}" for name, size in sizes.items())


def _of_a_size(checks: Sequence[Check]) -> Check | None:
    """The first failing check that may hang on the size; none of a case with a race, which may show at any and is not looked for in large
    buffers.
    """
    failed = [check for check in checks if check.status is Status.FAIL and check.code not in _OF_THE_TASK]
    return None if any(check.code.rpartition(".")[2].startswith("race_") for check in failed) else next(iter(failed), None)


def _told(checks: list[Check], text: str) -> list[Check]:
    first = _of_a_size(checks)
    return [
        dataclasses.replace(check, hint=f"{check.hint} In the judged cases it is {text}.".lstrip()) if check is first else check
        for check in checks
    ]
