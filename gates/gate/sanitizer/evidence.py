"""Reports of compute-sanitizer, and what the emulator found, as frozen findings.

The summary line counts, not the exit code: a tool that never started the program can exit 0. The
replay's own result (nonce, number of launches) proves that the kernel ran under the tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gates.core import jsonio
from gates.core.last_words import complaint
from gates.gate.sanitizer.log import (
    Finding,
    counted,
    device_findings,
    short_place,
    summary,
    unsupported,
)

SCHEMA_VERSION = 1
MAX_FINDINGS = 100
EMULATOR = "emulator"  # the tool of runs without a device; "asan" in runs of before


@dataclass(frozen=True)
class SanitizerRun:
    """One checked process. ``summary_errors`` is None where the tool printed no summary."""

    tool: str
    shapes: tuple[str, ...]
    order: str
    seen: bool  # the replay proved with its nonce that it ran
    launches: int
    expected_launches: int
    launch_error: str
    cause: str
    returncode: int
    timed_out: bool
    summary_errors: int | None
    summary_warnings: int | None
    unsupported: str  # the sentence of a tool that can't work here, or of a replay that never began
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class SanitizerEvidence:
    """All checked processes of one target. ``unavailable`` says why there are none."""

    schema_version: int
    mode: str  # emulator or device
    target: str
    tool_version: str
    neutralised: tuple[str, ...]  # environment variables left out of the checked processes
    unavailable: str
    remedy: str
    runs: tuple[SanitizerRun, ...]
    build: str = ""  # the identity of the build that was judged; earlier runs do not name it
    excerpts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # place of a finding -> the lines of source around it


def parse(raw: Mapping[str, Any]) -> SanitizerEvidence:
    """The evidence in what ``run_sanitizer_emulator`` or ``run_sanitizer_device`` returned."""
    return SanitizerEvidence(
        SCHEMA_VERSION,
        raw["mode"],
        raw["target"],
        raw["tool_version"],
        tuple(raw["neutralised"]),
        raw["unavailable"],
        raw["remedy"],
        tuple(_run(run) for run in raw["runs"]),
    )


def _run(run: Mapping[str, Any]) -> SanitizerRun:
    job, tool, log = run["job"], run["tool"], run["log"]
    seen, launches, error, findings = _replay(job)
    if tool == EMULATOR:
        errors: int | None = len(findings) if seen or findings else None
        warnings: int | None = 0 if errors is not None else None
    else:
        findings += device_findings(log, tool)
        errors, warnings = summary(log, tool)
    cant_work = _cant_work(run) or _gave_up(findings, errors)
    if cant_work:  # what names no place in a kernel is about the tool itself
        findings = [finding for finding in findings if finding.kernel or finding.where]
    return SanitizerRun(
        tool,
        tuple(run["shapes"]),
        run["order"],
        seen,
        launches,
        run["expected_launches"],
        error,
        job["cause"],
        job["returncode"],
        job["timed_out"],
        errors,
        warnings,
        cant_work,
        tuple(counted(findings)[:MAX_FINDINGS]),
    )


def _cant_work(run: Mapping[str, Any]) -> str:
    """Why the tool could not begin: its own sentence, or what was printed before the replay wrote its first line.

    The replay writes that line before it loads the kernel, so no kernel can be the cause.
    """
    job, log = run["job"], run["log"]
    if sentence := unsupported(log, job["output_tail"]):
        return sentence
    own = jsonio.carrying(job["nonce"], job["lines"])
    if held := next((line for line in own if line.get("type") == "error" and line.get("held") is True), None):
        return str(held.get("what"))[:300]  # no driver, or a package that does not work here
    if (job["returncode"] == 0 and not job["timed_out"]) or own:
        return ""
    said = complaint(log) or complaint(job["output_tail"])
    return f"{said} ({job['cause']})" if said else f"the replay ended before its first line ({job['cause']})"


def _gave_up(findings: list[Finding], errors: int | None) -> str:
    """A tool's complaint about itself: at no place in a kernel, of no kind of fault, and not counted as one. Empty without one."""
    return "" if errors else next((finding.message for finding in findings if finding.about_the_tool), "")


def _replay(job: Mapping[str, Any]) -> tuple[bool, int, str, list[Finding]]:
    """Whether the replay's result is whole, its launches, its launch error, and what the emulator found."""
    launches, error, done, findings = 0, "", False, []
    for line in jsonio.carrying(job["nonce"], job["lines"]):
        if line.get("type") == "case":
            launches += int(line["launches"])
            error = error or str(line["error"])
            findings += [
                Finding(
                    EMULATOR,
                    str(item.get("kind", "")),
                    "error",
                    str(item.get("kernel", "")),
                    short_place(str(item.get("where", ""))),
                    str(item.get("message", "")),
                )
                for item in line["findings"]
            ]
        elif line.get("type") == "error":
            error = error or str(line.get("what"))
        done = done or line.get("type") == "done"
    return done, launches, error, findings
