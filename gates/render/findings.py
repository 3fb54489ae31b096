"""What is wrong with a run, causes before symptoms: one entry a fault, with the count of its places.

A finding of a checker that names a line comes first (of these: wrong accesses, then races, then reads of what nothing has written), then
other findings, then the remaining failed checks, gate by gate. The console,
COMPARE.md, the HTML report, the pull request's comment, SARIF and JUnit show these entries, so that all name the same line first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gates.core.places import LINE, place_of
from gates.core.records import Check, Decision, GateResult, Status, seen
from gates.gate.correctness import codes as correctness
from gates.gate.correctness.failed_case import clearest_first
from gates.gate.sanitizer import codes as sanitizer

_OF_CHECKERS = (sanitizer.FINDING, *sanitizer.FAULTS.values(), correctness.EMULATOR_FINDING, *correctness.FAULTS.values())
# A row that is overrun is written by two threads, and what a missing barrier leaves unordered is read before it is written.
_RANKS = {"race_shared": 1, "race_global": 1, "uninitialised_shared": 2, "uninitialised_global": 2}
_MESSAGE = "case"  # the check of a case without numbers: what it observed is a sentence
_BAD = (Status.FAIL, Status.INCONCLUSIVE)


@dataclass(frozen=True)
class Finding:
    """One fault: the gate and code that told it first, ``place`` (``load.cuh:122``, or empty), ``what`` in words, and its checks, clearest
    first.

    ``gates``: all gates that saw it. Without checks it is what a whole gate says, such as a build failure.
    """

    gate: str
    code: str
    place: str
    what: str
    checks: tuple[Check, ...] = ()
    gates: tuple[str, ...] = ()
    failed: bool = True

    @property
    def head(self) -> str:
        """The fault in a line: its place, and what is wrong there."""
        return f"{self.place} {self.what}".strip()

    @property
    def located(self) -> bool:
        return bool(self.place)

    def elsewhere(self) -> str:
        """``at small seed 0 and in 40 more places``; empty where no place is known."""
        where = list(dict.fromkeys(check.where for check in self.checks if check.where))
        return f"at {where[0]}{f' and in {len(where) - 1} more place' + 's' * (len(where) > 2) if len(where) > 1 else ''}" if where else ""


def findings(gates: Sequence[GateResult]) -> list[Finding]:
    """The faults of a run's gates in the order in which to read them; failed ones before those without a verdict."""
    found: dict[tuple[str, ...], Finding] = {}
    for key, one in _each(gates):
        if (known := found.get(key)) is None:
            found[key] = one
        else:
            found[key] = _joined(known, one)
    for key in [key for key in found if key[0] == "kind"]:  # no line was found for these: more places of a fault whose line is known
        if (located := next((other for other in found if other[:-1] == ("place", key[1])), None)) is not None:
            found[located] = _joined(found[located], found.pop(key))
    return sorted(found.values(), key=_rank)


def fact(decision: Decision, gates: Sequence[GateResult], reason: str) -> str:
    """The one thing behind a decision: the first fault of a reject, the speed-up of a merge, else ``reason``."""
    if decision is Decision.REJECT and (found := findings(gates)):
        return found[0].head
    timed = next((result for result in gates if result.gate == "performance" and result.status is Status.PASS), None)
    return ", ".join(timed.sentence.split(", ")[:2]) if decision is Decision.MERGE and timed else reason


def head_line(decision: Decision, task: str, gates: Sequence[GateResult], reason: str) -> str:
    """``reject · stage3_cp_async · load.cuh:122 …``: the decision, whose it is, and the fact behind it."""
    return f"{decision.value} · {task} · {fact(decision, gates, reason)}"


def _each(gates: Sequence[GateResult]) -> Iterator[tuple[tuple[str, ...], Finding]]:
    for result in gates:
        if result.status not in _BAD:
            continue
        bad = [check for check in result.checks if check.status in _BAD and check.code != correctness.CASES]  # which counts the others
        if not bad:
            match = LINE.search(result.sentence)
            one = Finding(result.gate, result.code, "", result.sentence, (), (result.gate,), result.status is Status.FAIL)
            yield ("sentence", match[0] if match else result.sentence), one
        for check in clearest_first(bad):
            yield _entry(result, check)


def _entry(result: GateResult, check: Check) -> tuple[tuple[str, ...], Finding]:
    failed, code = check.status is Status.FAIL, check.code or result.code
    kind, place = check.name.rpartition(": ")[2], ""
    what = seen(check) if check.name == _MESSAGE else f"{check.name} {seen(check)}"
    key: tuple[str, ...] = (result.gate, code)
    if code in _OF_CHECKERS:
        key = ("kind", kind)
        if place := place_of(check):
            told, at, _ = check.hint.partition(". ")[0].partition(f" at {place}")
            key, what = ("place", kind, place), told if at else str(check.observed)
    return key, Finding(result.gate, code, place, what, (check,), (result.gate,), failed)


def _joined(one: Finding, more: Finding) -> Finding:
    gates = tuple(dict.fromkeys((*one.gates, *more.gates)))
    return Finding(one.gate, one.code, one.place, one.what, (*one.checks, *more.checks), gates, one.failed or more.failed)


def _rank(one: Finding) -> tuple[bool, int, int]:
    fault = one.code.partition(".")[2]
    return not one.failed, 0 if one.located else 1 if one.code in _OF_CHECKERS else 2, _RANKS.get(fault, 0) if one.located else 0
