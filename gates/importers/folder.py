"""Writes what was imported: a task folder, and beside it one for the problem's own reference, which is the baseline.

Both are made under a temporary name, the problem is run once to scale the error limits, and then they are renamed
into place: a failed import leaves nothing behind.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import math
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from gates import __version__
from gates.core import jsonio
from gates.core.errors import GatesError
from gates.gate.correctness.judge import worth
from gates.gate.correctness.output_scale import bounds
from gates.gate.registry import ROWS, gates_of
from gates.importers import languages
from gates.task.load import NUMBA, PYTHON, WARP, load_task
from gates.task.scaffold import check_name, template
from gates.task.sources.default_stream import default_stream_launches

ADAPTERS = Path(__file__).with_name("adapters")
MAX_SOURCE_BYTES = 16 * 2**20
ARCH = ("sm_90",)
_NOT_COMPILED = "a Python callable: what it launches is compiled when it runs, if at all"
_NO_OWN_KERNEL = "a Python callable without a kernel of its own"
_OF_A_LIBRARY = "the sources have no __global__ function: what runs is a library's"
_NO_RULE = "the format sets no rule; write one under gates and take this line away"
CALLER = "kernel.py"  # calls a solution as its format does
SIZES = "problem_data.py"  # of an imported problem whose shapes the import makes
_NEEDS = "problem_needs.py"
_ORIGIN, _TASK = "origin.json", "task.yaml"
OWN_FILES = (*template("shared"), _NEEDS, _ORIGIN, _TASK)  # made by every import
_TAIL = "tail"
_OTHER_SEEDS = 4.0  # a bound is made for each case; absolute limits are made once
_FIRST = "the format's own reference: there is nothing before it to beat"


@dataclass(frozen=True)
class Original:
    """A file as it came. ``kept`` is where its unchanged copy lies in the task folder."""

    path: Path
    kept: str
    content: bytes


@dataclass(frozen=True)
class Side:
    """What one of the two tasks runs: ``files`` are written into its folder (path in it: text)."""

    title: str
    kind: str
    entry: str
    sources: Sequence[str]
    files: Mapping[str, str]
    arguments: Sequence[str] = ()
    kernels: Sequence[str] = ()
    nvcc_flags: Sequence[str] = ()
    not_applicable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Imported:
    """All that an import found. ``problem`` are the problem's files; ``tolerance`` says where its error bound comes from."""

    format: str
    candidate: Side
    reference: Side
    problem: Mapping[str, str]
    originals: Sequence[Original]
    tolerance: str
    timed: str = ""  # the shape that is timed: the first one if left out
    offers: Mapping[str, Sequence[Mapping[str, int]]] = field(default_factory=dict)  # sizes to try for more shapes, by name
    details: Mapping[str, Any] = field(default_factory=dict)  # what the format itself says of versions, authors, languages
    wanted: str = ""  # what a solution defines; empty if one was given


class Made(NamedTuple):
    """The folders of a task and of its baseline, what the limits are worth, in words, and the shapes; ``untried`` are too large here.

    ``edit``: the solution's files; none if the problem's own code is the solution.
    """

    task: Path
    reference: Path
    limits: str
    shapes: Mapping[str, Mapping[str, int]]
    untried: Mapping[str, str]
    edit: Sequence[Path]


def read(path: Path) -> bytes:
    """The bytes of a source file; GatesError where it can't be read or is far too large to be one."""
    try:
        with jsonio.open_plain(path) as file:
            content = file.read(MAX_SOURCE_BYTES + 1)
    except OSError as error:
        raise GatesError(f"can't read {path}: {error.strerror}") from None
    if len(content) > MAX_SOURCE_BYTES:
        raise GatesError(f"{path}: larger than {MAX_SOURCE_BYTES // 2**20} MiB")
    return content


def text(original: Original) -> str:
    """The text of an original; GatesError where it is not UTF-8."""
    try:
        return original.content.decode("utf-8")
    except UnicodeDecodeError:
        raise GatesError(f"{original.path}: not UTF-8 text") from None


def adapter(name: str) -> str:
    """The text of one of the files in ``adapters``."""
    return (ADAPTERS / name).read_text(encoding="utf-8")


def task_name(given: str | None, fallback: str) -> str:
    """The name of the task to make: ``given``, or one made of ``fallback``. GatesError for a name that can't be one."""
    name = given or re.sub(r"[^a-z0-9]+", "_", fallback.lower()).strip("_").lstrip("0123456789_")
    check_name(name or fallback, "give another with --name")
    return name


def write(imported: Imported, directory: Path, name: str, limit_s: float) -> Made:
    """Make the task ``name`` and its baseline ``name_reference`` in ``directory``.

    ``limit_s`` is the time that the problem may take, here and in each later run of the tasks. Raises GatesError for a
    folder that exists or can't be written, and for a problem that can't be run.
    """
    names = (name, f"{name}_reference")
    files = (*imported.candidate.files, *imported.reference.files, *imported.problem, *(one.kept for one in imported.originals))
    inside = {"build", "runner", *(Path(one).parts[0].removesuffix(".py") for one in files)}
    if name in inside:
        raise GatesError(
            f"the name {name!r} is that of a file in the task folder, which would hide the task's problem", hint="give another with --name"
        )
    for one in names:
        if (directory / one).exists():
            own = any(original.path.resolve().is_relative_to((directory / one).resolve()) for original in imported.originals)
            raise GatesError(
                f"{directory / one} exists already{', and is what is imported' if own else ''}",
                hint=f"give another --name or --dir{'' if own else ', or remove it'}",
            )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".import.", dir=directory) as made:
            return _write(imported, Path(made).resolve(), directory, names, limit_s)
    except OSError as error:
        raise GatesError(f"can't write {error.filename or directory}: {error.strerror}") from None


def _write(imported: Imported, made: Path, directory: Path, names: tuple[str, str], limit_s: float) -> Made:
    candidate, reference = (made / one for one in names)
    for folder, side in ((candidate, imported.candidate), (reference, imported.reference)):
        _put(folder, {**template("shared"), **side.files})
    _put(candidate, imported.problem)
    for original in imported.originals:
        place = candidate / original.kept
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(original.content)
    for folder in (candidate, reference):
        jsonio.write(folder / _ORIGIN, _origin(imported))
    _put(candidate, {_NEEDS: needs_text({})})
    found = bounds(candidate, f"{names[0]}.problem", work=made / "work", limit_s=limit_s, offers=imported.offers)
    _put(candidate, {_NEEDS: needs_text(found["needs"])})
    if imported.offers:
        _put(candidate, {SIZES: sizes_text(found["shapes"])})
    for folder, side in ((candidate, imported.candidate), (reference, imported.reference)):
        (folder / _TASK).write_text(_yaml(imported, side, folder.name, names, found, limit_s), encoding="utf-8")
    for folder in (candidate, reference):
        load_task(folder, environ={})  # whatever a task.yaml must keep, this one keeps
    for folder in (candidate, reference):
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        folder.rename(directory / folder.name)
    task = directory / names[0]
    edit = [task / one for one in imported.candidate.sources if not imported.wanted and one != CALLER]
    return Made(task, directory / names[1], _limits_in_words(imported, found), found["shapes"], found["untried"], edit)


def _languages(code: Mapping[str, str]) -> list[str]:
    """The kernel languages that the Python files of a task import."""
    found = []
    for name, content in code.items():
        with contextlib.suppress(SyntaxError, ValueError):
            found += [one.language.name for one in languages.find(ast.parse(content))] if name.endswith(".py") else []
    return list(dict.fromkeys(found))


def _growth(found: Mapping[str, Any]) -> float:
    """How much larger errors may be on shapes that were too large to be tried: as the square root of their size."""
    sizes = {name: math.prod(max(1, size) for size in shape.values()) for name, shape in found["shapes"].items()}
    tried = max(size for name, size in sizes.items() if name not in found["untried"])
    return max([1.0, *(math.sqrt(sizes[name] / tried) for name in found["untried"])])


def sizes_text(shapes: Mapping[str, Mapping[str, int]]) -> str:
    """The module SIZES of a problem with these shapes."""
    return f'"""Values of the problem\'s whole numbers, by shape."""\n\nSIZES = {dict(shapes)!r}\n'


def needs_text(needs: Mapping[str, Sequence[float]]) -> str:
    """The module _NEEDS of a problem: what a case of each shape takes where that was estimated or found out."""
    return f'"""Bytes of memory, and seconds on one core, that a case takes, by shape."""\n\nNEEDS = {dict(needs)!r}\n'


def _put(folder: Path, files: Mapping[str, str]) -> None:
    for name, content in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8")


def _origin(imported: Imported) -> dict[str, Any]:
    return {
        "format": imported.format,
        "imported_by": f"kernel-gates {__version__}",
        "details": dict(imported.details),
        "files": [
            {"source": one.path.name, "kept": one.kept, "bytes": len(one.content), "sha256": hashlib.sha256(one.content).hexdigest()}
            for one in imported.originals
        ],
    }


def _yaml(imported: Imported, side: Side, name: str, names: tuple[str, str], found: Mapping[str, Any], limit_s: float) -> str:
    shapes, first = [name for name in found["shapes"] if name != _TAIL], side is imported.reference
    timed = imported.timed or shapes[0]
    declared = dict(side.not_applicable)
    code = {one.kept: text(one) for one in imported.originals if one.kept in side.sources} | dict(side.files)
    if side.kind == "python":
        used = _languages(code)
        reason = f"{used[0]}: what it launches is compiled when it runs" if used else _NOT_COMPILED
        declared |= dict.fromkeys((gate for gate in gates_of(()) if ROWS[gate].of_binaries), reason)
        if not used:
            declared["sanitizer"] = _NO_OWN_KERNEL
    elif not side.kernels:
        declared |= dict.fromkeys((gate for gate in gates_of(()) if ROWS[gate].of_binaries), _OF_A_LIBRARY)
    for gate in (row.name for row in ROWS.values() if row.names):
        declared.setdefault(gate, _NO_RULE)
    if first:
        declared["performance"] = _FIRST
    lines = [
        f"# Imported from {imported.format}; origin.json says from which files.",
        f"name: {name}",
        f"title: {_flow(side.title)}",
        f"kind: {side.kind}",
        *([] if first else [f"baseline: {names[1]}"]),
        f"problem: {names[0]}.problem",
        f"sources: {_flow(list(side.sources))}",
        f"entry: {side.entry}",
    ]
    lines += [f"arguments: {_flow(list(side.arguments))}"] if side.arguments else []
    lines += [f"kernels: {_flow(list(side.kernels))}"] if side.kernels else []
    lines += [f"arch: {_flow(list(ARCH))}"] if side.kind != "python" else []
    lines += [f"nvcc_flags: {_flow(list(side.nvcc_flags))}"] if side.nvcc_flags else []
    own = languages.launches_without_stream(code, side.kernels) if side.kind in (NUMBA, WARP, PYTHON) else []
    if launches := default_stream_launches(code) or own:
        lines += [
            f"# {imported.format}'s own harness calls on the default stream, and so does {launches[0].partition(': ')[0]}",
            "stream: default",
        ]
    lines += [f"shapes: {_flow(shapes)}", "seeds: [0, 1, 2]", f"time_limit_s: {limit_s:g}"]
    if declared:
        lines += ["not_applicable:", *(f"  {gate}: {_flow(reason)}" for gate, reason in declared.items())]
    lines += ["gates:"]
    if "ptxas" not in declared:
        lines += [
            "  # what the hardware allows; replace it by the kernel's own budget",
            "  ptxas: {max_registers: 255, max_smem_bytes: 232448, max_spill_bytes: 0}",
        ]
    room = _OTHER_SEEDS * _growth(found)
    largest, mean = (float(f"{room * found[key]:.3g}") for key in ("largest", "mean"))
    lines += [
        f"  # max_err_over_bound: {_limits_in_words(imported, found)}",
        f"  # the absolute limits are {room:.3g} times the error bounds on these shapes with seed 0: a starting point",
        f"  correctness: {{max_err_over_bound: 1.0, max_abs_err: "
        f"{largest!r}, mean_abs_err: {mean!r}, bad_pct: 0.0, bad_atol: {largest!r}}}",
        f"  performance: {{shape: {_flow(timed)}, min_speedup_pct: 15, metrics: [p50]}}",
    ]
    return "\n".join(lines) + "\n"


def _limits_in_words(imported: Imported, found: Mapping[str, Any]) -> str:
    """What the limits are worth, beside the format's own rule."""
    honest = f"honest error: {found['honest']:.2g} in {found['format']}"
    return f"{worth(found['rule_over_bound'])} ({honest}; {imported.tolerance})"


def _flow(value: Any) -> str:
    """A value as YAML in one line; JSON is YAML."""
    return json.dumps(value, ensure_ascii=True)
