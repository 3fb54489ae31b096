"""flashinfer-bench: a definition (axes, inputs, outputs, reference) and a solution (sources, entry point), as JSON.

Solutions in Python and Triton, and CUDA or C++ ones with the torch binding. Workloads are JSON lines, either
workloads or traces that hold one; those with inputs from safetensors files are left out.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.importers import folder, languages, sources
from gates.importers.flashinfer_bench_schema import DEFINITION, SOLUTION, WORKLOAD, check
from gates.importers.folder import Imported, Original, Side

FORMAT = "flashinfer-bench"
_TOLERANCE = "flashinfer-bench's rule, |out - reference| <= 1e-2 or <= 1e-2 * |reference|: the defaults of its BenchmarkConfig"
_SIZES = {"small": 16, "medium": 128}  # of every variable axis, where no workloads are given
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
    cases, left_out = _cases(what, originals[2] if workloads is not None else None, definition)
    reference = "reference.py"
    return Imported(
        format=FORMAT,
        candidate=_candidate(what, how, solution),
        reference=Side(
            f"{what['name']}: the definition's own reference, eager", "python", "run", [reference], {reference: what["reference"]}
        ),
        problem={
            "problem.py": folder.adapter("flashinfer_bench_problem.py"),
            "problem_reference.py": what["reference"],
            "problem_data.py": _data(what, cases),
        },
        originals=originals,
        tolerance=_TOLERANCE,
        details={
            "definition": what["name"],
            "op_type": what["op_type"],
            "solution": how["name"],
            "author": how["author"],
            "language": how["spec"]["language"],
            "workloads_left_out": left_out,
        },
    )


def _check_definition(what: Mapping[str, Any], where: Path) -> None:
    tree = sources.parse(what["reference"], f"{where}: reference")
    if not any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body):
        raise GatesError(f"{where}: reference does not define run")
    if both := sorted(set(what["inputs"]) & set(what["outputs"])):
        raise GatesError(f"{where}: {', '.join(both)} is an input and an output")
    for name, tensor in {**what["inputs"], **what["outputs"]}.items():
        if not name.isidentifier():
            raise GatesError(f"{where}: {name!r} can't be the name of an argument")
        if unknown := [axis for axis in tensor["shape"] or () if axis not in what["axes"]]:
            raise GatesError(f"{where}: {name} has the axis {unknown[0]!r}, which axes does not define")
        if tensor["dtype"] == "float4_e2m1":
            raise GatesError(f"{where}: {name} is float4_e2m1, in which torch can't compute a reference")
    if what["op_type"] == "sampling":
        raise GatesError(f"{where}: op_type sampling: its outputs are random, so there is no reference to compare with")


def _cases(what: Mapping[str, Any], given: Original | None, where: Path) -> tuple[dict[str, Any], int]:
    """{shape: (sizes of the variable axes, {input: scalar})}, and how many workloads were left out."""
    variable = [name for name, axis in what["axes"].items() if axis["type"] == "var"]
    if given is None:
        if variable and what.get("constraints"):
            raise GatesError(f"{where}: sizes must keep {what['constraints'][0]!r}", hint="give workloads with --workloads FILE.jsonl")
        return {name: (dict.fromkeys(variable, size), {}) for name, size in _SIZES.items() if variable or name == "small"}, 0
    cases: dict[str, tuple[dict[str, int], dict[str, Any]]] = {}
    left_out = 0
    for number, line in enumerate(filter(str.strip, folder.text(given).splitlines()), start=1):
        place = f"{given.path}: line {number}"
        data = jsonio.loads(line, place)
        found = check(data["workload"] if isinstance(data, dict) and isinstance(data.get("workload"), dict) else data, WORKLOAD, place)
        if any(one["type"] == "safetensors" for one in found["inputs"].values()):
            left_out += 1
            continue
        if missing := [name for name in variable if name not in found["axes"]]:
            raise GatesError(f"{place}: no size for the axis {missing[0]!r}")
        scalars = {name: one["value"] for name, one in found["inputs"].items() if one["type"] == "scalar" and name in what["inputs"]}
        case = {name: found["axes"][name] for name in variable}, scalars
        if case not in cases.values():
            cases[f"workload{number}"] = case
    if not cases:
        raise GatesError(f"{given.path} has no workload with random or scalar inputs ({left_out} read files)")
    return cases, left_out


def _data(what: Mapping[str, Any], cases: Mapping[str, Any]) -> str:
    fixed = {name: axis["value"] for name, axis in what["axes"].items() if axis["type"] == "const"}
    tensors = [{name: (one["shape"], one["dtype"]) for name, one in what[kind].items()} for kind in ("inputs", "outputs")]
    return (
        '"""Axes and tensors of definition.json. WORKLOADS: {shape: (sizes of the variable axes, {input: scalar})}."""\n\n'
        f"CONSTANT_AXES = {fixed!r}\nINPUTS = {tensors[0]!r}\nOUTPUTS = {tensors[1]!r}\nWORKLOADS = {dict(cases)!r}\n"
    )


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
    if spec["language"] in ("cuda", "cpp"):
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
        common["files"] = {**files, "kernel.py": _package(module, entry)}
    order = ["kernel.py", *files] if len(files) > 1 else [first]
    return Side(kind="triton" if spec["language"] == "triton" else "python", entry=entry, sources=order, kernels=kernels, **common)


def _extension(spec: Mapping[str, Any], first: str, entry: str, where: Path, common: Mapping[str, Any]) -> Side:
    if spec.get("binding") != "torch":
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
    return Side(
        kind="torch-extension", entry=entry, sources=[first, *(path for path in compiled if path != first)], kernels=kernels, **common
    )


def _package(module: str, entry: str) -> str:
    return (
        f'"""Loads {module} as a part of the package that the solution\'s files are."""\n\n'
        "import importlib\nimport sys\nfrom pathlib import Path\n\n"
        "sys.path.insert(0, str(Path(__file__).parent))\n"
        f"{entry} = importlib.import_module({module!r}).{entry}\n"
    )
