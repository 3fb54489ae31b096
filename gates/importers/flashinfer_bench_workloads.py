"""The workloads of a flashinfer-bench definition: sizes, scalars, tensors from safetensors files, and what a definition asks of sizes."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.importers import folder, sizes, sources
from gates.importers.flashinfer_bench_schema import WORKLOAD, check
from gates.importers.folder import Original

_SIZES = {"small": 16, "medium": 128}  # of every variable axis, where no workloads are given
_TOLERANCE = 1e-2  # absolute and relative, where a workload names none


class Case(NamedTuple):
    """A workload: the sizes of all axes, and what its inputs are."""

    axes: Mapping[str, int]
    given: Mapping[str, Any]  # by input: a scalar, or (file, key) of a tensor
    custom: bool  # whether a function of the reference makes the others
    tolerances: tuple[float, float]


def cases_of(what: Mapping[str, Any], given: Original | None, where: Path) -> tuple[dict[str, Case], int, list[Original]]:
    """The workloads by shape, how many were left out because their files are missing, and the files."""
    if given is None:
        variable = [name for name, axis in what["axes"].items() if axis["type"] == "var"]
        custom = bool(what.get("custom_inputs_entrypoint"))
        made = {name: _kept(what, dict.fromkeys(variable, size), where) for name, size in _SIZES.items() if variable or name == "small"}
        return {name: Case(axes, {}, custom, (_TOLERANCE, _TOLERANCE)) for name, axes in made.items()}, 0, []
    cases: dict[str, Case] = {}
    files: dict[str, Original] = {}
    left_out = 0
    for number, line in enumerate(filter(str.strip, folder.text(given).splitlines()), start=1):
        place = f"{given.path}: line {number}"
        data = jsonio.loads(line, place)
        found = check(data["workload"] if isinstance(data, dict) and isinstance(data.get("workload"), dict) else data, WORKLOAD, place)
        inputs = {name: one for name, one in found["inputs"].items() if name in what["inputs"]}
        custom = any(one["type"] == "custom" for one in inputs.values())
        if custom and not what.get("custom_inputs_entrypoint"):
            raise GatesError(f"{place}: custom inputs, but {where} has no custom_inputs_entrypoint")
        paths = {name: _file(one["path"], given.path.parent) for name, one in inputs.items() if one["type"] == "safetensors"}
        if None in paths.values():
            left_out += 1
            continue
        for path in filter(None, paths.values()):
            kept = f"inputs/{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}.safetensors"
            files.setdefault(str(path), Original(path, kept, folder.read(path)))
        values = {name: one["value"] for name, one in inputs.items() if one["type"] == "scalar"}
        values |= {name: (files[str(path)].kept, inputs[name]["tensor_key"]) for name, path in paths.items()}
        tolerance = found.get("tolerance", {})
        case = Case(
            _sizes(what, found["axes"], place),
            values,
            custom,
            (tolerance.get("max_atol", _TOLERANCE), tolerance.get("max_rtol", _TOLERANCE)),
        )
        if case not in cases.values():
            cases[f"workload{number}"] = case
    if not cases:
        raise GatesError(
            f"{given.path} has no workload whose inputs are here ({left_out} read safetensors files that are not)",
            hint="put the files where the workloads' paths lead, from the folder of the workloads or up to two above it",
        )
    return cases, left_out, list(files.values())


def _sizes(what: Mapping[str, Any], given: Mapping[str, int], place: str) -> dict[str, int]:
    """The sizes of all axes."""
    found = {name: axis["value"] for name, axis in what["axes"].items() if axis["type"] == "const"}
    variable = [name for name, axis in what["axes"].items() if axis["type"] == "var"]
    if missing := [name for name in variable if name not in given]:
        raise GatesError(f"{place}: no size for the axis {missing[0]!r}")
    found |= {name: given[name] for name in variable}
    computed = {name: axis["expression"] for name, axis in what["axes"].items() if axis["type"] == "expr"}
    for name, text in computed.items():
        size = sizes.number(sources.expression(text, f"{place}: axis {name}"), found)
        if size is None or size < 0:
            raise GatesError(f"{place}: the axis {name!r} is {text!r}, which gives no size")
        found[name] = size
    return found


def _kept(what: Mapping[str, Any], given: Mapping[str, int], where: Path) -> dict[str, int]:
    """Sizes that keep the constraints. An axis of ``AXIS == EXPRESSION`` gets that value; GatesError for any other that is not kept."""
    axes, rules = dict(given), [(text, _equation(text, where)) for text in what.get("constraints") or ()]
    for _ in rules:
        for _, sides in rules:
            for one, other in (sides, sides[::-1]) if sides else ():
                size = sizes.number(other, _sizes(what, axes, str(where))) if isinstance(one, ast.Name) and one.id in axes else None
                if isinstance(one, ast.Name) and size is not None and size > 0:
                    axes[one.id] = size
                    break
    found = _sizes(what, axes, str(where))
    for text, sides in rules:
        left, right = (sizes.number(side, found) for side in sides) if sides else (None, None)
        if left is None or left != right:
            raise GatesError(f"{where}: sizes must keep {text!r}", hint="give workloads with --workloads FILE.jsonl")
    return found


def _equation(text: str, where: Path) -> tuple[ast.expr, ...]:
    """The two sides of ``A == B``; () for any other expression."""
    node = sources.expression(text, f"{where}: constraints")
    return (node.left, node.comparators[0]) if isinstance(node, ast.Compare) and list(map(type, node.ops)) == [ast.Eq] else ()


def _file(path: str, folder: Path) -> Path | None:
    """The safetensors file that a workload names, below its own folder or up to two above it, as data sets have them."""
    wanted, own = PurePosixPath(path), folder.resolve()
    if wanted.is_absolute() or ".." in wanted.parts or wanted.suffix != ".safetensors":
        return None
    return next((place / wanted for place in (folder, own.parent, own.parent.parent) if (place / wanted).is_file()), None)
