"""Kernel languages inside Python, recognised by what a module imports, under whatever name.

One row per language; the table of docs/start/import.md is made of them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Language:
    """``module`` is what its code imports; ``makers`` are the names in it that make a kernel: decorators, or functions that take text."""

    name: str
    module: str
    makers: tuple[str, ...]
    kind: str  # of a task whose kernels are written in it
    without_device: str  # what judges them on a machine without a GPU


_STREAM = re.compile(r"\b(?:External)?[sS]tream\b")
_LATER = "nothing"
_EMULATED = "ptxas, sass, the emulator"
LANGUAGES = (  # what lies within another's module comes before it
    Language("Gluon", "triton.experimental.gluon", ("jit",), "triton", f"{_EMULATED}, if Triton compiles it here"),
    Language("Triton", "triton", ("jit",), "triton", _EMULATED),
    Language(
        "load_inline",
        "torch.utils.cpp_extension",
        ("load_inline", "load"),
        "torch-extension",
        _EMULATED,
    ),
    Language("Numba-CUDA", "numba.cuda", ("jit",), "numba", _EMULATED),
    Language("CuTe DSL", "cutlass", ("cute.kernel", "cute.jit"), "python", _LATER),
    Language("TileLang", "tilelang", ("jit", "language.prim_func"), "python", _LATER),
    Language("cuda.tile", "cuda.tile", ("kernel",), "python", _LATER),
    Language("CuPy", "cupy", ("RawKernel", "RawModule", "ElementwiseKernel", "ReductionKernel"), "python", _LATER),
    Language("Warp", "warp", ("kernel",), "warp", _EMULATED),
)


@dataclass(frozen=True)
class Found:
    """A language that a module uses, and the names of its kernels in it (those that a decorator makes)."""

    language: Language
    kernels: tuple[str, ...]


def find(tree: ast.Module) -> list[Found]:
    """Return the languages that a module imports: those with kernels of their own first, and the others in the table's order."""
    names = _names(tree)
    paths = set(names.values()) | {_path(node, names) for node in ast.walk(tree) if isinstance(node, (ast.Attribute, ast.Name))}
    kernels: dict[str, list[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in node.decorator_list:
                path = _path(decorator.func if isinstance(decorator, ast.Call) else decorator, names)
                owner = next((one for one in LANGUAGES if path in _makers(one) and not _of_device(decorator)), None)
                if owner is not None:
                    kernels.setdefault(owner.name, []).append(node.name)
                    break
    found = [
        Found(one, tuple(kernels.get(one.name, ())))
        for one in LANGUAGES
        if one.name in kernels or any(path == one.module or path.startswith(f"{one.module}.") for path in paths)
    ]
    return sorted(found, key=lambda one: not one.kernels)


def kernels_of(tree: ast.Module, kind: str) -> list[str]:
    """Return the kernels in the languages of a kind of task, in the order of the module."""
    found = {kernel for one in find(tree) if one.language.kind == kind for kernel in one.kernels}
    return [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in found]


def _makers(language: Language) -> set[str]:
    return {f"{language.module}.{maker}" for maker in language.makers}


def launches_without_stream(texts: Mapping[str, str], kernels: Collection[str]) -> list[str]:
    """Return ``file:line: kernel`` of each launch in ``texts`` (by file name) that names no stream: of ``kernels`` in Numba-CUDA or Warp,
    of a kernel of the CuTe DSL, and of one that CuPy makes of text in a module that names no stream at all.

    It runs on the language's own stream, whatever torch's current one is.
    """
    found = []
    for name, text in texts.items():
        tree = ast.parse(text) if name.endswith(".py") else ast.Module([], [])
        called = set() if _STREAM.search(text) else _made(tree)
        launched = {*kernels, *called, *(kernel for one in find(tree) if one.language.module == "cutlass" for kernel in one.kernels)}
        for node in ast.walk(tree):
            kernel = _launched_without_stream(node, called) if isinstance(node, ast.Call) else None
            if isinstance(kernel, ast.Name) and kernel.id in launched:
                found.append(f"{name}:{kernel.lineno}: {kernel.id}")
    return found


def _made(tree: ast.Module) -> set[str]:
    """Return the names to which a call assigns a kernel: ``k = cupy.RawKernel(text, "k")``, ``k = module.get_function("k")``."""
    names, makers = _names(tree), {path for one in LANGUAGES if one.module == "cupy" for path in _makers(one)}
    return {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Name)
        and (_path(node.value.func, names) in makers or getattr(node.value.func, "attr", "") == "get_function")
    }


def _launched_without_stream(call: ast.Call, made: Collection[str]) -> ast.expr | None:
    """``kernel`` of ``kernel[grid, block](…)``, ``kernel.forall(n)(…)``, ``wp.launch(kernel, …)``, ``kernel(…).launch(grid=…)``, and of
    ``kernel(…)`` if it is ``made``.
    """
    called = call.func
    if isinstance(called, ast.Name):
        return called if called.id in made else None
    if isinstance(called, ast.Subscript):
        return called.value if isinstance(called.slice, ast.Tuple) and len(called.slice.elts) == 2 else None
    if isinstance(called, ast.Attribute) and called.attr in ("launch", "launch_tiled"):
        of_call = called.value.func if isinstance(called.value, ast.Call) else None
        return None if any(one.arg == "stream" for one in call.keywords) else call.args[0] if call.args else of_call
    of = called.func if isinstance(called, ast.Call) else None
    return of.value if isinstance(of, ast.Attribute) and of.attr == "forall" else None


def _of_device(decorator: ast.expr) -> bool:
    """Whether a decorator makes a function that only kernels call: ``cuda.jit(device=True)``."""
    return isinstance(decorator, ast.Call) and any(
        one.arg == "device" and isinstance(one.value, ast.Constant) and bool(one.value.value) for one in decorator.keywords
    )


def _names(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for: {"tl": "triton.language"}."""
    return dict(_imported(tree))


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _path(node: ast.expr, names: dict[str, str]) -> str:
    """The full name of ``tr.jit`` where ``import triton as tr``; "" for what is no imported name."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute):
        base = _path(node.value, names)
        return f"{base}.{node.attr}" if base else ""
    return ""
