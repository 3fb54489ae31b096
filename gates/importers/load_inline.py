"""The sources that Python code hands to torch's load_inline, as files of a task: CUDA text in a string is judged as CUDA text in a file."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gates.core.errors import GatesError
from gates.importers import sources
from gates.task.sources.flags import objection

CUDA_FILE, CPP_FILE = "inline.cu", "inline.cpp"
# What load_inline itself puts before the texts.
_CUDA_HEAD = "#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>\n"
_CPP_HEAD = "#include <torch/extension.h>\n"
_PARAMETERS = ("name", "cpp_sources", "cuda_sources", "functions", "extra_cflags", "extra_cuda_cflags")


@dataclass(frozen=True)
class Inline:
    """Files (name: text), the kernels in them, and the flags that nvcc gets."""

    files: Mapping[str, str]
    kernels: Sequence[str]
    nvcc_flags: Sequence[str]


def find(tree: ast.Module, name: str) -> Inline | None:
    """Return what the module called ``name`` compiles by load_inline; None if nothing, or if a text is only known when it runs.

    Several calls make one extension. Raises GatesError for flags that a task can't have.
    """
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "load_inline"]
    known = _strings(tree)
    try:
        given = [_arguments(call, known) for call in calls]
    except LookupError:
        return None
    if not any(_texts(one.get("cuda_sources")) for one in given):
        return None
    cuda = [_placed(text, name) for one in given for text in _texts(one.get("cuda_sources"))]
    cpp = [_placed(text, name) for one in given for text in _texts(one.get("cpp_sources"))]
    bound = [line for one in given for line in _bindings(one.get("functions"))]
    if bound:
        cpp.append("PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n" + "".join(bound) + "}\n")
    flags = list(dict.fromkeys(flag.value for one in given for flag in one.get("extra_cuda_cflags") or ()))
    if (refused := objection(flags)) is not None:
        raise GatesError(f"{name}: extra_cuda_cflags: {refused[0]} {refused[1]}", hint="leave the flag out")
    files = {CUDA_FILE: _CUDA_HEAD + "".join(cuda), CPP_FILE: _CPP_HEAD + "".join(cpp)}
    kernels = [kernel for one in given for text in _texts(one.get("cuda_sources")) for kernel in sources.cuda_kernels(text.value)]
    return Inline(files, list(dict.fromkeys(kernels)), flags)


@dataclass(frozen=True)
class _Text:
    """A string, and the line of the module where it begins, if its lines are those of the module."""

    value: str
    line: int | None


def _strings(tree: ast.Module) -> dict[str, Any]:
    """Names that are bound once, to text or to a list of text."""
    found: dict[str, Any] = {}
    seen: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            try:
                found[name] = _value(node.value, found)
            except LookupError:
                found.pop(name, None)
            if name in seen:
                found.pop(name, None)
            seen.add(name)
    return found


def _arguments(call: ast.Call, known: Mapping[str, Any]) -> dict[str, Any]:
    named = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg in _PARAMETERS}
    return {name: _value(node, known) for name, node in {**dict(zip(_PARAMETERS, call.args, strict=False)), **named}.items()}


def _value(node: ast.expr, known: Mapping[str, Any]) -> Any:
    """Text, a list of text, a dict with text as keys, or None. Raises LookupError for what only a run can tell."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        same = node.end_lineno is not None and node.value.count("\n") == node.end_lineno - node.lineno
        return _Text(node.value, node.lineno if same else None)
    if isinstance(node, ast.Constant) and node.value is None:
        return None
    if isinstance(node, ast.Name):
        return known[node.id]
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_value(one, known) for one in node.elts]
    if isinstance(node, ast.Dict):
        return {_value(key, known).value: None for key in node.keys if key is not None}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _value(node.left, known), _value(node.right, known)
        if isinstance(left, _Text) and isinstance(right, _Text):
            return _Text(left.value + right.value, None)
    raise LookupError(ast.unparse(node)[:80])


def _texts(value: Any) -> list[_Text]:
    return [value] if isinstance(value, _Text) else list(value or ())


def _bindings(functions: Any) -> list[str]:
    names = list(functions) if isinstance(functions, dict) else [text.value for text in _texts(functions)]
    return [f'  m.def("{one}", torch::wrap_pybind_function({one}), "{one}");\n' for one in names]


def _placed(text: _Text, name: str) -> str:
    """The text, so that compilers name the module's own lines."""
    return (f'#line {text.line} "{name}"\n' if text.line else "") + text.value + "\n"
