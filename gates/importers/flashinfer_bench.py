"""flashinfer-bench: a definition (axes, inputs, outputs, reference) and a solution (sources, entry point), as JSON.

Solutions in Python and Triton, and CUDA or C++ ones with the torch binding. Workloads are JSON lines, either
workloads or traces that hold one. A safetensors file that one names is looked for in the folder of the workloads and in two above it.
SOL-ExecBench's problems are of this format, with axes that are computed, inputs from a function of the reference, tolerances of each
workload, and languages of its own.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.importers import folder, languages, python_solution, sources
from gates.importers.flashinfer_bench_schema import COMPILED_LANGUAGES, DEFINITION, SOLUTION, check
from gates.importers.flashinfer_bench_workloads import Case, cases_of
from gates.importers.folder import Imported, Original, Side
from gates.task.sources.flags import objection

FORMAT, SOL_EXECBENCH = "flashinfer-bench", "SOL-ExecBench"
_TOLERANCES = {
    FORMAT: "flashinfer-bench's rule, |out - reference| <= 1e-2 or <= 1e-2 * |reference|: the defaults of its BenchmarkConfig",
    SOL_EXECBENCH: "SOL-ExecBench's rule, |out - reference| <= max_atol + max_rtol * |reference|, which 99 % of the elements must keep",
}
_CASE = "workload"  # a shape's number, beside its axes
_FLAGS = ("-O3", "--use_fast_math")  # SOL-ExecBench's, if a solution names none
_COMPILED = (".cu", ".cpp", ".cc", ".cxx", ".c")


def load(definition: Path, solution: Path, workloads: Path | None = None) -> Imported:
    """What the files hold. Raises GatesError for what is not of the format, and for what a task can't hold."""
    given = Original(definition, "definition.json", folder.read(definition))
    answer = Original(solution, "solution.json", folder.read(solution))
    originals = [given, answer]
    what = check(jsonio.loads(folder.text(given), str(definition)), DEFINITION, str(definition))
    how = check(jsonio.loads(folder.text(answer), str(solution)), SOLUTION, str(solution))
    if how["definition"] != what["name"]:
        raise GatesError(f"{solution} solves {how['definition']!r}, but {definition} is {what['name']!r}")
    _check_definition(what, definition)
    if workloads is not None:
        originals.append(Original(workloads, "workloads.jsonl", folder.read(workloads)))
    cases, left_out, files = cases_of(what, originals[2] if workloads is not None else None, definition)
    format = SOL_EXECBENCH if "languages" in how["spec"] else FORMAT
    reference = "reference.py"
    return Imported(
        format=format,
        candidate=_candidate(what, how, solution),
        reference=Side(
            f"{what['name']}: the definition's own reference, eager", "python", "run", [reference], {reference: what["reference"]}
        ),
        problem={
            "problem.py": folder.adapter("flashinfer_bench_problem.py"),
            "problem_reference.py": what["reference"],
            "problem_data.py": _data(what, cases, added=format == SOL_EXECBENCH),
        },
        originals=[*originals, *files],
        tolerance=_TOLERANCES[format],
        details={
            "definition": what["name"],
            "op_type": what.get("op_type"),
            "solution": how["name"],
            "author": how["author"],
            "language": ", ".join(_languages(how["spec"])),
            "workloads_left_out": left_out,
        },
    )


def _check_definition(what: Mapping[str, Any], where: Path) -> None:
    tree = sources.parse(what["reference"], f"{where}: reference")
    if not any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body):
        raise GatesError(f"{where}: reference does not define run")
    if _CASE in what["axes"]:
        raise GatesError(f"{where}: an axis is named {_CASE!r}, which is the number of a case in a task", hint="give the axis another name")
    if both := sorted(set(what["inputs"]) & set(what["outputs"])):
        raise GatesError(f"{where}: {', '.join(both)} is an input and an output")
    for name, tensor in {**what["inputs"], **what["outputs"]}.items():
        if not name.isidentifier():
            raise GatesError(f"{where}: {name!r} can't be the name of an argument")
        if unknown := [axis for axis in tensor["shape"] or () if axis not in what["axes"] and not axis.isdecimal()]:
            raise GatesError(f"{where}: {name} has the axis {unknown[0]!r}, which axes does not define")
        if tensor["dtype"].startswith("float4"):
            raise GatesError(f"{where}: {name} is {tensor['dtype']}, in which torch can't compute a reference")
    custom = what.get("custom_inputs_entrypoint")
    if custom and custom not in sources.defined(tree):
        raise GatesError(f"{where}: reference does not define {custom}, the custom_inputs_entrypoint")
    if what.get("op_type") == "sampling":
        raise GatesError(f"{where}: op_type sampling: its outputs are random, so there is no reference to compare with")


def _data(what: Mapping[str, Any], cases: Mapping[str, Case], *, added: bool) -> str:
    tensors = [{name: (one["shape"], one["dtype"]) for name, one in what[kind].items()} for kind in ("inputs", "outputs")]
    values = {name: tuple(case) for name, case in cases.items()}
    return (
        '"""Tensors of definition.json, and its workloads by shape.\n\n'
        "WORKLOADS: (sizes, {input: scalar, or (file, key)}, whether CUSTOM makes the others, (atol, rtol)).\n"
        'ADDED: whether the two tolerances are added.\n"""\n\n'
        f"INPUTS = {tensors[0]!r}\nOUTPUTS = {tensors[1]!r}\nCUSTOM = {what.get('custom_inputs_entrypoint') or ''!r}\n"
        f"ADDED = {added!r}\nWORKLOADS = {values!r}\n"
    )


def _languages(spec: Mapping[str, Any]) -> list[str]:
    return spec["languages"] if "languages" in spec else [spec["language"]]


def _candidate(what: Mapping[str, Any], how: Mapping[str, Any], where: Path) -> Side:
    spec, files = how["spec"], {}
    for one in how["sources"]:
        path = PurePosixPath(one["path"])
        if path.is_absolute() or ".." in path.parts or not one["path"].isprintable() or "\\" in one["path"] or str(path) == ".":
            raise GatesError(f"{where}: source path {one['path']!r} leaves the solution's folder, or is not a plain path")
        if (kept := f"solution/{path}") in files:
            raise GatesError(f"{where}: source path {one['path']!r} appears twice")
        files[kept] = one["content"]
    file, _, entry = spec["entry_point"].partition("::")
    first = f"solution/{PurePosixPath(file)}"
    if first not in files:
        raise GatesError(f"{where}: entry_point names {file!r}, which sources do not hold")
    arguments = [*what["inputs"], *(what["outputs"] if spec.get("destination_passing_style", True) else ())]
    common: dict[str, Any] = {"title": f"{how['name']} by {how['author']}", "files": files, "arguments": arguments}
    if set(_languages(spec)) & {"cuda", "cpp", *COMPILED_LANGUAGES}:
        return _extension(spec, first, entry, where, common)
    if not first.endswith(".py"):
        raise GatesError(f"{where}: entry_point {file!r} is not a Python file")
    kernels = [
        name
        for path, code in files.items()
        if path.endswith(".py")
        for name in languages.kernels_of(sources.parse(code, f"{where}: {path}"), "triton")
    ]
    module = ".".join(PurePosixPath(first).with_suffix("").parts)
    if len(files) > 1:
        common["files"] = {**files, folder.CALLER: _package(module, entry)}
    order = [folder.CALLER, *files] if len(files) > 1 else [first]
    return Side(kind="triton" if "triton" in _languages(spec) else "python", entry=entry, sources=order, kernels=kernels, **common)


def _extension(spec: Mapping[str, Any], first: str, entry: str, where: Path, common: dict[str, Any]) -> Side:
    by_default = "torch" if "languages" in spec else None
    if (spec.get("binding") or by_default) != "torch":
        raise GatesError(
            f"{where}: "
            + ("no binding is named, which means 'tvm-ffi' in this format" if not spec.get("binding") else f"binding {spec['binding']!r}")
            + ": a task can't load it",
            hint='bind the entry with pybind11 (TORCH_LIBRARY or PYBIND11_MODULE) and say "binding": "torch"',
        )
    compiled = [path for path in common["files"] if path.endswith(_COMPILED)]
    if first not in compiled:
        raise GatesError(f"{where}: entry_point {first.removeprefix('solution/')!r} is not a source that is compiled")
    kernels = [name for path in compiled for name in sources.cuda_kernels(common["files"][path])]
    flags = (spec.get("compile_options") or {}).get("cuda_cflags", _FLAGS if "languages" in spec else ())
    if (refused := objection(flags)) is not None:
        raise GatesError(f"{where}: compile_options.cuda_cflags: {refused[0]} {refused[1]}", hint="leave the flag out")
    order = [first, *(path for path in compiled if path != first)]
    common["files"] = {**common["files"], folder.CALLER: python_solution.caller(order, entry)}
    return Side(kind="torch-extension", entry=entry, sources=[folder.CALLER, *order], kernels=kernels, nvcc_flags=list(flags), **common)


def _package(module: str, entry: str) -> str:
    return (
        f'"""Loads {module} as a part of the package that the solution\'s files are."""\n\n'
        "import importlib\nimport sys\nfrom pathlib import Path\n\n"
        "sys.path.insert(0, str(Path(__file__).parent))\n"
        f"{entry} = importlib.import_module({module!r}).{entry}\n"
    )
