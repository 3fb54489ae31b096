"""Is the machine code what the stage claims to be?

What: the instructions of each kernel are counted by class in the disassembly, for every architecture, and compared with `require` (least
count per kernel) and `forbid` (classes that must not appear, called functions included). `gates.gate.sass.evidence.CLASSES` lists the
classes.

Why: a toggle that does nothing, or an `if constexpr` that takes the scalar branch, still computes the right numbers.

Example: `require: {tensor: 1}` and a scalar kernel gives
    tensor (tile_kernel sm_89): 0 instructions, limit 1 instructions

Limits: instructions are counted as they appear in the code, not as often as they run. A copy loop unrolled four times counts four.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from gates.core.errors import GatesError
from gates.core.kernel_names import missing_kernels, without_parameters
from gates.core.records import Check, GateResult, Status, conclude
from gates.gate.sass import codes
from gates.gate.sass.evidence import CLASSES, SassEvidence, SassFunction

UNIT = "instructions"


def judge(evidence: SassEvidence, limits: Mapping[str, Any], baseline: SassEvidence | None = None) -> GateResult:
    """The verdict. ``limits``: require (class -> least count of a kernel), forbid (list of classes)."""
    require, forbid = limits.get("require", {}), limits.get("forbid", ())
    for name in (*require, *forbid):
        _known(name)
    checks = [*_presence(evidence)]
    for function in evidence.functions:
        checks.extend(_function(function, evidence, require, forbid))
    if not require and not forbid:
        checks.append(Check("limits", Status.INCONCLUSIVE, None, None, "", "", codes.NO_LIMITS, codes.NO_LIMITS.explanation))
    if baseline is not None:
        checks.extend(_changes(evidence, baseline))
    kernels = [function for function in evidence.functions if _listed(function, evidence)]
    return conclude("sass", checks, passed=f"{len(kernels)} kernels have the required instructions on {', '.join(evidence.archs)}")


def _known(name: str) -> None:
    if name not in CLASSES:
        near = difflib.get_close_matches(name, CLASSES, n=2, cutoff=0.5) or sorted(CLASSES)
        raise GatesError(f"gates.sass: no instruction class {name!r}", hint=f"did you mean {' or '.join(near)}?")


def _presence(evidence: SassEvidence) -> Iterator[Check]:
    for arch in evidence.missing_dumps:
        yield Check(
            "disassembly", Status.NOT_RUN, None, None, "", arch, codes.NO_DUMP, evidence.missing_reason or codes.NO_DUMP.explanation
        )
    for problem in evidence.problems:
        yield Check("disassembly", Status.INCONCLUSIVE, problem, None, "", "", codes.UNREADABLE, codes.UNREADABLE.explanation)
    for arch in evidence.archs:
        if arch in evidence.missing_dumps:
            continue
        present = {function.base_name for function in evidence.functions if function.arch == arch}
        for name in missing_kernels(evidence.expected_kernels, present):
            yield Check(
                "kernel",
                Status.FAIL,
                "not in the machine code",
                None,
                "",
                f"{name} {arch}",
                codes.KERNEL_MISSING,
                f"the code has {', '.join(sorted(present)) or 'no function'}; check toggles and template instances",
            )


def _listed(function: SassFunction, evidence: SassEvidence) -> bool:
    return not evidence.expected_kernels or function.base_name in evidence.expected_kernels


_CAUSES = {"local_memory": " may be there: an array indexed at run time, a printf's arguments, or registers that were spilled?"}


def _function(function: SassFunction, evidence: SassEvidence, require: Mapping[str, int], forbid: tuple[str, ...]) -> Iterator[Check]:
    place = f"{without_parameters(function.demangled)} {function.arch}"
    if function.instructions == 0:
        return
    if _listed(function, evidence):
        yield Check("instructions", Status.PASS, function.instructions, None, UNIT, place)
        for name, least in require.items():
            count = function.classes.get(name, 0)
            status = Status.PASS if count >= least else Status.FAIL
            yield Check(
                name,
                status,
                count,
                least,
                UNIT,
                place,
                "" if status is Status.PASS else codes.REQUIRED,
                f"at least {least} of {', '.join(sorted(CLASSES[name]))}",
            )
    for name in forbid:
        count = function.classes.get(name, 0)
        status = Status.PASS if count == 0 else Status.FAIL
        yield Check(
            name,
            status,
            count,
            0,
            UNIT,
            place,
            "" if status is Status.PASS else codes.FORBIDDEN,
            f"none of {', '.join(sorted(CLASSES[name]))}" + _CAUSES.get(name, ""),
        )


def _changes(evidence: SassEvidence, baseline: SassEvidence) -> Iterator[Check]:
    """Informational: classes whose count changed in a kernel that both builds have under one name."""
    before = {(function.key, function.arch): function for function in baseline.functions}
    for function in evidence.functions:
        old = before.get((function.key, function.arch))
        if old is None or not _listed(function, evidence):
            continue
        for name, count in function.classes.items():
            was = old.classes.get(name, 0)
            if count != was:
                yield Check(
                    f"{name}_change",
                    Status.PASS,
                    f"{was} -> {count} ({count - was:+d})",
                    None,
                    UNIT,
                    f"{without_parameters(function.demangled)} {function.arch}",
                )
