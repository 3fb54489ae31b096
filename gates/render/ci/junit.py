"""A run's verdict as JUnit XML: one test case a gate, for viewers of continuous integration."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from gates.core.records import GateResult, Status
from gates.core.text import plain
from gates.render.findings import Finding, findings

_TAGS = {Status.FAIL: "failure", Status.INCONCLUSIVE: "error", Status.NOT_RUN: "skipped", Status.NOT_APPLICABLE: "skipped"}


def junit(task: str, started: str, gates: Sequence[GateResult]) -> str:
    """The XML text. A failed gate is a failure, an inconclusive one an error, a gate without a verdict skipped."""
    count = {tag: sum(_TAGS.get(result.status) == tag for result in gates) for tag in ("failure", "error", "skipped")}
    task = plain(task)
    suite = ElementTree.Element(
        "testsuite",
        name=f"gates {task}",
        tests=str(len(gates)),
        failures=str(count["failure"]),
        errors=str(count["error"]),
        skipped=str(count["skipped"]),
        timestamp=started.partition(".")[0].partition("+")[0],
    )
    for result in gates:
        case = ElementTree.SubElement(suite, "testcase", classname=f"gates.{task}", name=result.gate)
        if (tag := _TAGS.get(result.status)) is None:
            ElementTree.SubElement(case, "system-out").text = _plain(result.sentence)
            continue
        found = findings([result]) if tag != "skipped" else []
        first = f"{found[0].code}: {found[0].head}" if found and found[0].located else f"{result.code}: {result.sentence}"
        message = ElementTree.SubElement(case, tag, type=result.code, message=_plain(first))
        if found:
            message.text = _plain("\n".join(map(_line, found)))
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _line(one: Finding) -> str:
    hint = one.checks[0].hint if one.checks else ""
    return f"{one.head} {one.elsewhere()}".strip() + (f". {hint}" if hint else "")


def _plain(text: str) -> str:
    """The text without characters that XML 1.0 can't hold."""
    return "".join(
        char if char in "\t\n" or ord(char) >= 32 and not 0xD800 <= ord(char) <= 0xDFFF and ord(char) < 0xFFFE else "?" for char in text
    )
