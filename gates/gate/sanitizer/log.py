"""Log texts of compute-sanitizer (2020 to 2025 formats), line by line into findings.

Paths are cut to the file's name and addresses left out, so that equal faults read equal on any machine.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One kind of fault at one place; ``count`` reports of it.

    ``severity``: ``error``, ``warning``, or ``library``: an error inside a library's header that its correct use gives too.
    """

    tool: str
    kind: str
    severity: str
    kernel: str
    where: str  # file:line, empty if unknown
    message: str
    count: int = 1

    @property
    def about_the_tool(self) -> bool:
        """Whether it names neither a place nor a fault that a program can have."""
        return not (self.kernel or self.where or _FAULT.search(self.message))


_FAULT = re.compile(
    r"^(?:Invalid|Misaligned|Uninitialized|Unused|Leaked|Race|Barrier|Program hit|Fatal UVM|Malloc/Free|Out-of-range|Write after|Read "
    r"after|Stack|Heap|User)|hazard",
    re.IGNORECASE,
)
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
    r"Unable to find injection library|Insufficient driver version).*$",
    re.M | re.I,
)


def unsupported(log: str, output: str) -> str:
    """The sentence in which the tool says that it can't work on this device; empty if it does not."""
    match = _UNSUPPORTED.search(log) or _UNSUPPORTED.search(output)
    return match.group(0).lstrip("= ").strip() if match else ""


_PREFIX = re.compile(r"^=+ ?(.*)$")
_LEVEL = re.compile(r"^(error|warning|warn|info|internal error)\s*:\s*(.*)$", re.I)
# `at kernel(float *)+0x30 in /a/b.cu:12` (2022 and later), `at 0x30 in /a/b.cu:12:kernel(float *)` (earlier)
_AT = re.compile(
    r"\bat (?:(?P<new>.+?)\+0x[0-9a-f]+|0x[0-9a-f]+)(?: in (?P<file>[^:]+):(?P<line>\d+)(?::(?P<old>.+?))?| in (?P<bare>[^:]+?))?(?: "
    r"\[\d+ hazards?\])?$",
    re.I,
)
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
            if findings and text.rstrip().endswith(" is misaligned"):
                findings[-1] = dataclasses.replace(findings[-1], kind="misaligned")
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


# libcu++'s barriers arrive and wait in an order of their own, which synccheck calls "Missing wait"; only that finding is excused, and
# only inside the library. A race, a divergent barrier or a bad address there is the caller's.
_LIBRARY_PATH = re.compile(r"/include/(?:cccl/)?(?:cuda/|cub/|thrust/|nv/|cutlass/|cute/|cooperative_groups|cuda_awbarrier|cuda_pipeline)")
_LIBRARY_NAME = re.compile(r"(?:^|[\s*&])(?:cuda|cub|thrust|cooperative_groups|cutlass|cute)::[\w:<>, ]*[^\s(]*\(")


def _placed(finding: Finding, place: re.Match[str]) -> Finding:
    kernel = (place["new"] or place["old"] or place["bare"] or "").strip()
    where = f"{_base(place['file'])}:{place['line']}" if place["file"] else ""
    inside = (
        _LIBRARY_PATH.search(place["file"].replace("\\", "/")) if place["file"] else _LIBRARY_NAME.search(kernel.partition("<")[0] + "(")
    )
    excused = finding.tool == "synccheck" and finding.severity == "error" and "Missing wait" in finding.message and inside
    return dataclasses.replace(finding, kernel=kernel, where=where, severity="library" if excused else finding.severity)


def _kind(text: str) -> str:
    """What a headline reports: the name of a fault where it has one (``gates.gate.faults``), else the tool's first words."""
    for pattern, kind in (
        (r"^Invalid __global__ \w+", "out_of_bounds"),
        (r"^Invalid __shared__ \w+", "shared_out_of_bounds"),
        (r"^Invalid __local__ \w+", "local_out_of_bounds"),
        (r"^(Invalid \w+(?: \w+)?)", None),
        (r"Race reported|hazard", "race_shared"),
        (r"^Uninitialized __global__ memory", "uninitialised_global"),
        (r"^Uninitialized __shared__ memory", "uninitialised_shared"),
        (r"^Uninitialized __local__ memory", "uninitialised_local"),
        (r"^Barrier error.*Divergent", "barrier_divergence"),
        (r"Barrier error", "barrier error"),
        (r"^Program hit (\w+)", None),
    ):
        if match := re.search(pattern, text, re.I):
            return (kind or match.group(1)).strip().lower()
    return text.split(":")[0][:60].lower()


def counted(findings: list[Finding]) -> list[Finding]:
    """Each distinct finding once, with its count."""
    counts: dict[Finding, int] = {}
    for finding in findings:
        counts[finding] = counts.get(finding, 0) + 1
    return [dataclasses.replace(finding, count=count) for finding, count in counts.items()]


def _base(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


def short_place(where: str) -> str:
    """``/a/b.cu:12`` as ``b.cu:12``."""
    path, colon, line = where.rpartition(":")
    return f"{_base(path)}{colon}{line}" if colon else _base(where)
