"""Reports of compute-sanitizer, AddressSanitizer and UBSan as frozen findings.

The summary line counts, not the exit code: a tool that never started the program can exit 0. The
replay's own result (nonce, number of launches) proves that the kernel ran under the tool.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gates import jsonio
from gates.errors import GatesError

SCHEMA_VERSION = 1
MAX_FINDINGS = 100


@dataclass(frozen=True)
class Finding:
    """One kind of fault at one place; ``count`` reports of it. ``severity``: ``error`` or ``warning``."""

    tool: str
    kind: str
    severity: str
    kernel: str
    where: str  # file:line, empty if unknown
    message: str
    count: int = 1


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
    unsupported: str  # the tool's own sentence where it can't work here
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


def parse(raw: Mapping[str, Any]) -> SanitizerEvidence:
    """The evidence in what ``run_sanitizer_emulator`` or ``run_sanitizer_device`` returned."""
    return SanitizerEvidence(
        SCHEMA_VERSION, raw["mode"], raw["target"], raw["tool_version"], tuple(raw["neutralised"]),
        raw["unavailable"], raw["remedy"], tuple(_run(run) for run in raw["runs"]),
    )


def _run(run: Mapping[str, Any]) -> SanitizerRun:
    attempt, tool, log = run["attempt"], run["tool"], run["log"]
    seen, launches, error, findings = _replay(attempt)
    if tool == "asan":
        findings += asan_findings(log)
        errors: int | None = len(findings) if seen or findings else None
        warnings: int | None = 0 if errors is not None else None
    else:
        findings += device_findings(log, tool)
        errors, warnings = summary(log, tool)
    return SanitizerRun(
        tool, tuple(run["shapes"]), run["order"], seen, launches, run["expected_launches"], error, attempt["cause"],
        attempt["returncode"], attempt["timed_out"], errors, warnings, unsupported(log, attempt["output_tail"]),
        tuple(_counted(findings)[:MAX_FINDINGS]),
    )


def _replay(attempt: Mapping[str, Any]) -> tuple[bool, int, str, list[Finding]]:
    """Whether the replay's result is whole, its launches, its launch error, and what the emulator found."""
    launches, error, done, findings = 0, "", False, []
    for text in attempt["lines"]:
        try:
            line = jsonio.loads(text, "replay result")
        except GatesError:
            continue
        if not isinstance(line, dict) or line.get("nonce") != attempt["nonce"]:
            continue
        if line.get("type") == "case":
            launches += int(line["launches"])
            error = error or str(line["error"])
            findings += [
                Finding("emulator", str(item.get("kind", "")), "error", str(item.get("kernel", "")),
                        _short(str(item.get("where", ""))), str(item.get("message", "")))
                for item in line["findings"]
            ]
        elif line.get("type") == "error":
            error = error or str(line.get("what"))
        done = done or line.get("type") == "done"
    return done, launches, error, findings


_SUMMARY = {
    "racecheck": re.compile(r"^=+ RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) errors?, (\d+) warnings?\)", re.M),
    "": re.compile(r"^=+ ERROR SUMMARY: (\d+) errors?", re.M),
}


def summary(log: str, tool: str) -> tuple[int | None, int | None]:
    """Errors and warnings of the last summary line of a compute-sanitizer log; None where there is none."""
    found = _SUMMARY.get(tool, _SUMMARY[""]).findall(log.replace("\r", ""))
    if not found:
        return None, None
    if isinstance(found[-1], tuple):
        return int(found[-1][0]), int(found[-1][1])
    return int(found[-1]), 0


_UNSUPPORTED = re.compile(
    r"^.*(Device not supported|device is not supported|not supported on (?:this|the) (?:device|GPU)|unsupported device|"
    r"Unable to find injection library|Insufficient driver version).*$", re.M | re.I,
)


def unsupported(log: str, output: str) -> str:
    """The sentence in which the tool says that it can't work on this device; empty if it does not."""
    match = _UNSUPPORTED.search(log) or _UNSUPPORTED.search(output)
    return match.group(0).lstrip("= ").strip() if match else ""


_PREFIX = re.compile(r"^=+ ?(.*)$")
_LEVEL = re.compile(r"^(error|warning|warn|info|internal error)\s*:\s*(.*)$", re.I)
# `at kernel(float *)+0x30 in /a/b.cu:12` (2022 and later), `at 0x30 in /a/b.cu:12:kernel(float *)` (earlier)
_AT = re.compile(r"\bat (?:(?P<new>.+?)\+0x[0-9a-f]+|0x[0-9a-f]+)(?: in (?P<file>[^:]+):(?P<line>\d+)(?::(?P<old>.+?))?| in (?P<bare>[^:]+?))?(?: \[\d+ hazards?\])?$", re.I)
_IGNORED = re.compile(r"COMPUTE-SANITIZER|SUMMARY|^\s*$|^(?:LEAK|Target application|Program |Suppress)", re.I)


def device_findings(log: str, tool: str) -> list[Finding]:
    """Findings of a compute-sanitizer log: each headline with the first place named below it."""
    findings: list[Finding] = []
    for line in log.replace("\r", "").splitlines():
        match = _PREFIX.match(line)
        if match is None or _UNSUPPORTED.search(line):
            continue
        text, detail = match.group(1), match.group(1).startswith("    ")
        if detail:
            if findings and not findings[-1].where and not findings[-1].kernel and (place := _AT.search(text.strip())):
                findings[-1] = _placed(findings[-1], place)
            continue
        text = text.strip()
        if _IGNORED.search(text) and not text.startswith("Program hit"):
            continue
        level = _LEVEL.match(text)
        severity = "warning" if level and level.group(1).lower() in ("warning", "warn", "info") else "error"
        text = level.group(2) if level else text
        finding = Finding(tool, _kind(text), severity, "", "", re.sub(r"0x[0-9a-f]+", "0x…", text)[:300])
        place = _AT.search(text)
        findings.append(_placed(finding, place) if place else finding)
    return findings


def _placed(finding: Finding, place: re.Match[str]) -> Finding:
    kernel = place["new"] or place["old"] or place["bare"] or ""
    where = f"{_base(place['file'])}:{place['line']}" if place["file"] else ""
    return Finding(finding.tool, finding.kind, finding.severity, kernel.strip(), where, finding.message)


def _kind(text: str) -> str:
    """A short name of what a headline reports: ``invalid __global__ write``, ``race``, ``barrier error``."""
    for pattern, kind in (
        (r"^(Invalid __\w+__ \w+|Invalid \w+)", None), (r"Race reported|hazard", "race"),
        (r"^(Uninitialized __\w+__ memory \w+)", None), (r"Barrier error", "barrier error"),
        (r"^Program hit (\w+)", None),
    ):
        if match := re.search(pattern, text, re.I):
            return (kind or match.group(1)).strip().lower()
    return text.split(":")[0][:60].lower()


_ASAN = re.compile(r"AddressSanitizer: ([\w-]+)(.*)$")
_UBSAN = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):\d+: runtime error: (?P<message>.*)$")
_FRAME = re.compile(r"^\s*#\d+ 0x[0-9a-f]+ in (?P<function>.+?) (?P<file>/[^ :]+|[^ :(]+\.\w+):(?P<line>\d+)")
_ACCESS = re.compile(r"^(READ|WRITE) of size (\d+)")
_RUNTIME = re.compile(r"sanitizer_common|/libsanitizer/|/asan/|^(?:__interceptor|__asan|operator new)")


def asan_findings(log: str) -> list[Finding]:
    """Findings of AddressSanitizer and UBSan reports, each with its first frame outside the runtime."""
    findings: list[Finding] = []
    searching = False
    for line in log.replace("\r", "").splitlines():
        if match := _UBSAN.match(line):
            where = f"{_base(match['file'])}:{match['line']}"
            findings.append(Finding("ubsan", "undefined behaviour", "error", "", where, match["message"][:300]))
            searching = True
        elif "ERROR: AddressSanitizer" in line and (match := _ASAN.search(line)):
            detail = re.sub(r" on (?:unknown )?address.*", "", match.group(2)).strip(" :")
            findings.append(Finding("asan", match.group(1), "error", "", "", detail or match.group(1)))
            searching = True
        elif findings and (match := _ACCESS.match(line)):
            findings[-1] = _with(findings[-1], message=f"{match.group(1).lower()} of {match.group(2)} bytes")
        elif findings and "is located" in line and " bytes " in line:
            place = re.sub(r"^0x[0-9a-f]+ is |\[0x[0-9a-f]+,0x[0-9a-f]+\)|\(0x[0-9a-f]+.*", "", line).strip()
            findings[-1] = _with(findings[-1], message=f"{findings[-1].message}, {place}")
        elif searching and (match := _FRAME.match(line)) and not _RUNTIME.search(f"{match['file']} {match['function']}"):
            where = findings[-1].where or f"{_base(match['file'])}:{match['line']}"
            findings[-1] = _with(findings[-1], kernel=match["function"], where=where)
            searching = False
    return findings


def _with(finding: Finding, **changes: str) -> Finding:
    values = {name: getattr(finding, name) for name in ("tool", "kind", "severity", "kernel", "where", "message", "count")}
    return Finding(**{**values, **changes})


def _counted(findings: list[Finding]) -> list[Finding]:
    counts: dict[Finding, int] = {}
    for finding in findings:
        counts[finding] = counts.get(finding, 0) + 1
    return [Finding(f.tool, f.kind, f.severity, f.kernel, f.where, f.message, count) for f, count in counts.items()]


def _base(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def _short(where: str) -> str:
    path, colon, line = where.rpartition(":")
    return f"{_base(path)}{colon}{line}" if colon else _base(where)
