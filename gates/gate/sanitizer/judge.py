"""Does the kernel access memory and synchronise as the language allows?

What: on a device, compute-sanitizer's memcheck (bounds, alignment), racecheck (hazards in shared memory), initcheck (reads of uninitialised
global memory) and synccheck (misused barriers). On the emulator its own checks of bounds, alignment, address spaces, initialisation,
races in shared and global memory, barriers, asynchronous copies and leaks; structured values too. The smallest shape and the odd shapes
run, on a device also the largest of at most 1 MiB of outputs.

A tool passes if its summary counts no error, it exited with 0, and the replay proved by nonce and number of launches that the kernel ran.
Findings of severity error fail; warnings are shown and pass. A tool that is missing, does not know the device, or ended before it loaded
the kernel is not_run with the remedy.

Why: a race or a write out of bounds can give right numbers by luck.

Example: memcheck reports `Invalid __global__ write of size 4` at store_tile in tile.cu:88, and the gate fails.

Limits: racecheck sees shared memory only; the emulator sees global memory too. synccheck's "Missing wait" inside a library's header
passes, because correct use of cuda::barrier with memcpy_async gives it too. Every other finding in a library fails: its caller is the
cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gates.core.errors import EXIT_CHECKER
from gates.core.places import with_excerpts
from gates.core.reason_code import Code
from gates.core.records import Check, GateResult, Status, conclude
from gates.gate.reasons import NOT_EMULATED, UNSUPPORTED
from gates.gate.sanitizer import codes
from gates.gate.sanitizer.evidence import EMULATOR, SanitizerEvidence, SanitizerRun
from gates.gate.sanitizer.log import Finding, unsupported

DEVICE_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
_SHOWN = 5


def judge(evidence: SanitizerEvidence, limits: Mapping[str, Any] | None = None, baseline: SanitizerEvidence | None = None) -> GateResult:
    """The verdict on ``evidence``. There are no limits to set: zero findings; a baseline changes nothing."""
    if evidence.unavailable:
        return GateResult("sanitizer", Status.NOT_RUN, codes.NOT_AVAILABLE, f"{evidence.unavailable}; {evidence.remedy}")
    if not evidence.runs:
        return GateResult("sanitizer", Status.NOT_RUN, codes.NOTHING_CHECKED, "no tool was run")
    checks = [check for run in evidence.runs for check in _run(run, evidence.mode)]
    if evidence.mode == "device":
        ran = {run.tool for run in evidence.runs}
        checks += [_check(tool, Status.NOT_RUN, None, codes.TOOL_MISSING, "") for tool in DEVICE_TOOLS if tool not in ran]
    return conclude("sanitizer", with_excerpts(checks, evidence.excerpts), passed=_sentence(evidence))


def _run(run: SanitizerRun, mode: str) -> list[Check]:
    where = " ".join([*run.shapes, run.order]).strip()
    errors = [finding for finding in run.findings if finding.severity == "error"]
    if lacking := next((finding for finding in errors if (finding.tool, finding.kind) == (EMULATOR, UNSUPPORTED)), None):
        return [Check(run.tool, Status.NOT_RUN, lacking.message, None, "", where, NOT_EMULATED.of("sanitizer"), NOT_EMULATED.explanation)]
    if errors:
        return [_finding(finding, where) for finding in errors[:_SHOWN]]
    if run.summary_errors and not _excused(run):
        return [_check(run.tool, Status.FAIL, run.summary_errors, codes.FINDING, where, "the summary counts errors")]
    if run.unsupported:
        if mode == "device" and unsupported(run.unsupported, ""):
            return [_check(run.tool, Status.NOT_RUN, run.unsupported, codes.NOT_SUPPORTED, where)]
        return [_check(run.tool, Status.NOT_RUN, run.unsupported, codes.NOT_STARTED, where)]
    if run.timed_out:
        status = Status.FAIL if mode == "emulator" else Status.INCONCLUSIVE
        return [_check(run.tool, status, run.cause, codes.TIMEOUT, where)]
    if run.launch_error:
        return [_check(run.tool, Status.FAIL, run.launch_error, codes.LAUNCH_ERROR, where)]
    if run.returncode < 0 or (mode == "emulator" and run.returncode != 0):
        return [_check(run.tool, Status.FAIL, run.cause, codes.CRASH, where)]
    if run.summary_errors is None and (mode == "device" or run.seen):
        return [_check(run.tool, Status.NOT_RUN, None, codes.NO_SUMMARY, where)]
    if not run.seen or run.launches < run.expected_launches:
        seen = f"{run.launches} of {run.expected_launches} launches proved"
        return [_check(run.tool, Status.NOT_RUN, seen, codes.KERNEL_NOT_SEEN, where)]
    if run.returncode != 0 and not (run.returncode == EXIT_CHECKER and (run.summary_warnings or _excused(run))):
        return [_check(run.tool, Status.INCONCLUSIVE, run.cause, codes.EXIT_CODE, where)]
    shown = [_warning(finding, where) for finding in run.findings[:_SHOWN]]
    return [Check(run.tool, Status.PASS, 0, 0, "findings", where), *shown]


def _excused(run: SanitizerRun) -> bool:
    """Return whether the tool's errors are those inside a library that its correct use gives too; other errors are judged before."""
    return any(finding.severity == "library" for finding in run.findings)


def _finding(finding: Finding, where: str) -> Check:
    code = codes.FAULTS.get(finding.kind, codes.FINDING)
    return _check(f"{finding.tool}: {finding.kind}", Status.FAIL, finding.count, code, where, _told(finding))


def _warning(finding: Finding, where: str) -> Check:
    kind = "inside a library" if finding.severity == "library" else "warning"
    return Check(f"{finding.tool} {kind}: {finding.kind}", Status.PASS, finding.count, None, "warnings", where, hint=_told(finding))


def _told(finding: Finding) -> str:
    place = " in ".join(part for part in (finding.where, finding.kernel) if part)
    return f"{finding.message} at {place}" if place else finding.message


def _check(name: str, status: Status, observed: Any, code: Code, where: str, detail: str = "") -> Check:
    counted = code is codes.FINDING or code in codes.FAULTS.values()
    return Check(
        name,
        status,
        observed,
        0 if counted else None,
        "findings" if counted else "",
        where,
        code,
        f"{detail}. {code.explanation}" if detail else code.explanation,
    )


def _sentence(evidence: SanitizerEvidence) -> str:
    tools = ", ".join(dict.fromkeys(run.tool for run in evidence.runs))
    tried = dict.fromkeys(shape for run in evidence.runs for shape in run.shapes)
    shapes, values = [shape for shape in tried if " " not in shape], [shape for shape in tried if " " in shape]  # "small zero_rows"
    cases = ", ".join(shapes) + (f"; {len(values)} kinds of structured values" if values else "")
    warnings = sum(
        (run.summary_warnings or 0) + sum(one.count for one in run.findings if one.severity == "library") for run in evidence.runs
    )
    text = f"no findings ({tools}; {cases})"
    if not warnings:
        return text
    first = next((finding for run in evidence.runs for finding in run.findings), None)
    place = f" ({first.tool}: {first.kind}{f' at {first.where}' if first.where else ''})" if first else ""
    return f"{text}; {warnings} warning{'s' if warnings != 1 else ''} shown, not counted{place}"
