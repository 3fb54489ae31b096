"""A run's findings as SARIF 2.1.0 (OASIS): one result a rule and source line, where the line is known."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from gates import __version__
from gates.core import jsonio
from gates.core.places import LINE, place_of
from gates.core.records import Check, GateResult, Status, told

_LEVELS = {Status.FAIL: "error", Status.INCONCLUSIVE: "warning", Status.NOT_RUN: "note"}
Place = tuple[str, int]


def sarif(
    task: str, gates: Sequence[GateResult], kernels: Mapping[str, Place], files: Mapping[str, str], explanations: Mapping[str, str]
) -> str:
    """The SARIF text.

    ``kernels``: base name -> (path, line) of its definition; ``files``: file name -> path, for findings that
    name a line themselves; ``explanations``: reason code -> text. Paths are relative to the project.
    """
    results = _once(_result(task, result, check, kernels, files) for result, check in _open(gates))
    rules = [
        {"id": code, "fullDescription": {"text": explanations.get(code, code)}} for code in dict.fromkeys(one["ruleId"] for one in results)
    ]
    return jsonio.dumps(
        {
            "version": "2.1.0",
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "runs": [
                {
                    "tool": {"driver": {"name": "kernel-gates", "version": __version__, "rules": rules}},
                    "originalUriBaseIds": {"PROJECT": {"description": {"text": "the folder that holds the task"}}},
                    "results": results,
                }
            ],
        }
    )


def _open(gates: Sequence[GateResult]) -> Iterator[tuple[GateResult, Check]]:
    """Every check that did not pass, and gates that came to no check at all."""
    for result in gates:
        found = [check for check in result.checks if check.status in _LEVELS]
        if not found and result.status in _LEVELS:
            found = [Check("", result.status, None, None, "", code=result.code, hint=result.sentence)]
        yield from ((result, check) for check in found)


def _once(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first result of each rule and line, with the count of the others in its text."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for result in results:
        found.setdefault((result["ruleId"], repr(result.get("locations"))), []).append(result)
    for first, *more in found.values():
        if more:
            first["message"]["text"] += f" And in {len(more)} more place{'s' * (len(more) > 1)}."
    return [first for first, *_ in found.values()]


def _result(task: str, result: GateResult, check: Check, kernels: Mapping[str, Place], files: Mapping[str, str]) -> dict[str, Any]:
    text = f"{task}, {result.gate}: {f'{told(check)}. ' if check.name else ''}{check.hint}"
    found: dict[str, Any] = {"ruleId": check.code or result.code, "level": _LEVELS[check.status], "message": {"text": text}}
    if place := _place(check, kernels, files):
        path, line = place
        found["locations"] = [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(os.fsencode(path)), "uriBaseId": "PROJECT"},
                    "region": {"startLine": line},
                }
            }
        ]
    return found


def _place(check: Check, kernels: Mapping[str, Place], files: Mapping[str, str]) -> Place | None:
    """The line that the check names, else where its kernel is defined, else where the stage's only kernel is."""
    for named in (place_of(check), *LINE.findall(f"{check.where} {check.hint} {check.observed}")):
        name, _, line = named.rpartition(":")
        if name in files and int(line) > 0:
            return files[name], int(line)
    for name, place in kernels.items():
        if re.search(rf"\b{re.escape(name)}\b", f"{check.where} {check.hint}"):
            return place
    return next(iter(kernels.values())) if len(kernels) == 1 else None
