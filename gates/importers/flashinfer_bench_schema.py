"""The parts that an import reads of the public schemas of flashinfer-bench and SOL-ExecBench, as JSON Schemas.

What else a file holds is left alone.
"""

from __future__ import annotations

from typing import Any

from gates.core.errors import GatesError

_TEXT = {"type": "string", "minLength": 1}
_SIZE = {"type": "integer", "minimum": 0}
_DTYPES = [
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float4_e2m1",
    "float4_e2m1fn_x2",
    "int64",
    "int32",
    "int16",
    "int8",
    "bool",
]
PYTHON_LANGUAGES = ("pytorch", "triton", "cute_dsl", "cutile", "cudnn_frontend")  # SOL-ExecBench's
COMPILED_LANGUAGES = ("cuda_cpp", "cutlass", "cudnn", "cublas")
_AXIS = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"enum": ["const", "var", "expr"]}, "value": _SIZE, "expression": _TEXT},
    "allOf": [
        {"if": {"properties": {"type": {"const": kind}}}, "then": {"required": [key]}}
        for kind, key in (("const", "value"), ("expr", "expression"))
    ],
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
    "required": ["name", "axes", "inputs", "outputs", "reference"],
    "properties": {
        "name": _TEXT,
        "op_type": {"type": ["string", "null"]},
        "reference": _TEXT,
        "axes": {"type": "object", "additionalProperties": _AXIS},
        "inputs": _TENSORS,
        "outputs": _TENSORS,
        "constraints": {"type": ["array", "null"], "items": _TEXT},
        "custom_inputs_entrypoint": {"type": ["string", "null"]},
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
            "required": ["entry_point"],
            "oneOf": [{"required": ["language"]}, {"required": ["languages"]}],
            "properties": {
                "language": {"enum": ["python", "triton", "cpp", "cuda", "tilelang"]},
                "languages": {"type": "array", "minItems": 1, "items": {"enum": [*PYTHON_LANGUAGES, *COMPILED_LANGUAGES]}},
                "compile_options": {"type": ["object", "null"], "properties": {"cuda_cflags": {"type": "array", "items": _TEXT}}},
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
_SOURCES_OF_INPUTS = ["random", "scalar", "safetensors", "custom"]
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
                "properties": {
                    "type": {"enum": _SOURCES_OF_INPUTS},
                    "value": {"type": ["number", "boolean"]},
                    "path": _TEXT,
                    "tensor_key": _TEXT,
                },
                "allOf": [
                    {"if": {"properties": {"type": {"const": kind}}}, "then": {"required": keys}}
                    for kind, keys in (("scalar", ["value"]), ("safetensors", ["path", "tensor_key"]))
                ],
            },
        },
        "tolerance": {"type": "object", "properties": {"max_atol": {"type": "number"}, "max_rtol": {"type": "number"}}},
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
