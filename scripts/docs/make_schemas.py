"""Write the JSON Schemas of evidence files from the records that hold them.

Example: python scripts/docs/make_schemas.py
"""

from __future__ import annotations

import dataclasses
import json
import sys
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any, Union

from gates.build.result import BuildResult
from gates.comparison.record import Comparison
from gates.core.schema import schema_of, schema_path
from gates.evaluation.evolution.record import Evolution
from gates.evaluation.record import Evaluation
from gates.evidence.run_directory import SCHEMA_VERSION, RunInfo, Verdict
from gates.gate.registry import ROWS
from gates.review.decide import Acceptance
from gates.review.ladder import Ladder
from gates.sweep.record import Sweep

RECORDS = {
    "run": RunInfo,
    "verdict": Verdict,
    "build": BuildResult,
    "acceptance": Acceptance,
    "compare": Comparison,
    "ladder": Ladder,
    "sweep": Sweep,
    "evaluation": Evaluation,
    "evolution": Evolution,
    **{gate: row.evidence() for gate, row in ROWS.items() if "$comment" not in (schema_of(gate) or {})},  # it says: written by hand
}
LATER = {
    "problem_sha256",
    "judged_shapes",
    "judged_inputs",
    "declared_shapes",
    "declared_seeds",
    "reproduce",
    "notes",
    "TaskInfo.kind",
    "TaskInfo.stream",
    "debug_build",
    "launches_note",
    "max_threads",
    "Variant.sass",
    "digest_rule",
    "build",
    "products",
    "identity",
    "Target.sha256",
    "PtxasEvidence.advice",
    "excerpts",
    "Speed.confidence_pct",
    "Rung.confidence_pct",
    "Timing.limit_pct",
    "Comparison.shapes",
    "Comparison.machine_code",
    "SassFunction.code",
    "SassEvidence.data",
    "SassEvidence.host",
    "TaskInfo.terms_sha256",
    "RunInfo.phase_s",
}  # fields that the first runs of schema version 1 do not have
ELSEWHERE = {"BuildResult.log_text", "BuildResult.stage"}  # a build's log is a file of its own, and run.json has its stage's digest
TIMES = {"started", "ended", "accepted"}
UTC = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00$"
PLAIN = {str: "string", bool: "boolean", int: "integer", float: "number"}


def schema(cls: type) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a record type."""
    top = _of(cls)
    for name in TIMES & set(top["properties"]):
        top["properties"][name] = {"type": "string", "pattern": UTC}
    top["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": (cls.__doc__ or "").partition("\n")[0].rstrip("."),
        **top,
    }


def _of(kind: Any) -> dict[str, Any]:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return {}
    if kind is type(None):
        return {"type": "null"}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of(arg) for arg in args]}
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        fields = [field for field in dataclasses.fields(kind) if f"{kind.__name__}.{field.name}" not in ELSEWHERE]
        return {
            "type": "object",
            "additionalProperties": False,
            "required": [field.name for field in fields if not {field.name, f"{kind.__name__}.{field.name}"} & LATER],
            "properties": {field.name: _of(hints[field.name]) for field in fields},
        }
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    if origin is tuple:
        return {"type": "array", "items": _of(args[0])}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _of(args[1])}
    return {"type": PLAIN[kind]} | ({"minimum": 0} if kind is int else {})


def text(cls: type) -> str:
    """The schema file's text."""
    return json.dumps(schema(cls), indent=1) + "\n"


if __name__ == "__main__":
    if sys.flags.optimize > 1:
        sys.exit("error: schemas have their titles from docstrings, which PYTHONOPTIMIZE=2 leaves out")
    for name, cls in RECORDS.items():
        schema_path(name).write_text(text(cls), encoding="utf-8")
