"""The parts of flashinfer-bench's public schema that an import reads, as JSON Schemas; what else a file holds is left alone."""

from __future__ import annotations

from typing import Any

from gates.core.errors import GatesError

_TEXT = {"type": "string", "minLength": 1}
_SIZE = {"type": "integer", "minimum": 0}
_DTYPES = [
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float4_e2m1",
    "int64",
    "int32",
    "int16",
    "int8",
    "bool",
]
_AXIS = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"enum": ["const", "var"]}, "value": _SIZE},
    "if": {"properties": {"type": {"const": "const"}}},
    "then": {"required": ["value"]},
}
_TENSORS = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {
        "type": "object",
        "required": ["shape", "dtype"],
        "properties": {"shape": {"type": ["array", "null"], "items": _TEXT}, "dtype": {"enum": _DTYPES}},
    },
}
DEFINITION = {
    "type": "object",
    "required": ["name", "op_type", "axes", "inputs", "outputs", "reference"],
    "properties": {
        "name": _TEXT,
        "op_type": _TEXT,
        "reference": _TEXT,
        "axes": {"type": "object", "additionalProperties": _AXIS},
        "inputs": _TENSORS,
        "outputs": _TENSORS,
        "constraints": {"type": ["array", "null"], "items": _TEXT},
    },
}
SOLUTION = {
    "type": "object",
    "required": ["name", "definition", "author", "spec", "sources"],
    "properties": {
        "name": _TEXT,
        "definition": _TEXT,
        "author": _TEXT,
        "spec": {
            "type": "object",
            "required": ["language", "entry_point"],
            "properties": {
                "language": {"enum": ["python", "triton", "cpp", "cuda", "tilelang"]},
                "entry_point": {"type": "string", "pattern": "^[^:]+::[A-Za-z_][A-Za-z0-9_]*$"},
                "destination_passing_style": {"type": "boolean"},
                "binding": {"enum": ["tvm-ffi", "torch", None]},
            },
        },
        "sources": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "required": ["path", "content"], "properties": {"path": _TEXT, "content": _TEXT}},
        },
    },
}
WORKLOAD = {
    "type": "object",
    "required": ["axes", "inputs"],
    "properties": {
        "axes": {"type": "object", "additionalProperties": _SIZE},
        "inputs": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": {"enum": ["random", "scalar", "safetensors"]}, "value": {"type": ["number", "boolean"]}},
                "if": {"properties": {"type": {"const": "scalar"}}},
                "then": {"required": ["value"]},
            },
        },
    },
}


def check(data: Any, schema: dict[str, Any], where: str) -> Any:
    """``data``, if it keeps the schema; GatesError with the place and the first fault where not."""
    import jsonschema

    errors = sorted(jsonschema.Draft202012Validator(schema).iter_errors(data), key=lambda error: len(error.absolute_path), reverse=True)
    if errors:
        place = ".".join(map(str, errors[0].absolute_path)) or "the whole"
        raise GatesError(f"{where}: {place}: {errors[0].message[:200]}", hint="flashinfer-bench's documentation has the schema")
    return data
