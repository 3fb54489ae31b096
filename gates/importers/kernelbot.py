"""kernelbot: a problem folder with task.yml and reference.py, and a submission with ``custom_kernel``.

task.yml names the problem's files, the tests and the benchmarks: arguments of ``generate_input``. ``reference.py`` has
``generate_input`` and ``ref_kernel``, which takes what that gives. The last benchmark is timed: the format ranks by it unless task.yml
says otherwise.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import NoneType
from typing import Any

from gates.core import yamlio
from gates.core.errors import GatesError
from gates.importers import folder, python_solution, sources
from gates.importers.bulk import Pair
from gates.importers.folder import Imported, Original
from gates.task.problem import VALUES

FORMAT = "kernelbot"
TASK, ENTRY = "task.yml", "custom_kernel"
_REFERENCE, _SUBMISSION, _GIVEN = "reference.py", "submission.py", "@SUBMISSION@"
_TIMED = "benchmark"
_DEFAULTS = {"rtol": 1e-5, "atol": 1e-8}  # of the format's own comparison
_KERNEL = "kernelbot_kernel.py"
_FORM, _PROBLEM, _DATA = "data_form.py", "problem.py", "problem_data.py"
_OWN = {*folder.OWN_FILES, folder.CALLER, _FORM, _PROBLEM, _DATA, TASK, _SUBMISSION}
_PACKED = "float4_e2m1fn_x2"  # its scale factors come in two layouts, in which structured values would not be the same


def pairs(problems: Path, solutions: Path | None) -> Iterator[Pair]:
    """The folders with a task.yml at or below ``problems``, each with the submissions below the folder of its name in ``solutions``."""
    for task in sorted(problems.rglob(TASK)):
        problem, place = task.parent, task.parent.relative_to(problems)
        label = f"{problem.parent.name}_{problem.name}"
        if solutions is None:
            yield Pair(problem, None, label)
            continue
        for one in sorted((solutions / place).rglob("*.py")):
            if one.is_file() and _is_submission(one):
                yield Pair(problem, one, "_".join((label, *one.relative_to(solutions / place).with_suffix("").parts)))


def _is_submission(path: Path) -> bool:
    """Whether the file has custom_kernel. ``load`` refuses one that can't be read."""
    try:
        return ENTRY.encode() in folder.read(path)
    except GatesError:
        return True


def load(problem: Path, solution: Path | None) -> Imported:
    """What the problem's folder and the submission hold; without a submission the problem's own ref_kernel is one.

    Raises GatesError for what is not of the format, and for a task that needs another language or several devices.
    """
    task = _checked(yamlio.load(problem / TASK)[0], problem / TASK)
    files = {one.kept: one for one in _files(task, problem)}
    if _REFERENCE not in files:
        raise GatesError(f"{problem / TASK}: files has no {_REFERENCE}")
    given = files[_REFERENCE]
    tree = sources.python_tree(given)
    sources.require(tree, ("ref_kernel", "generate_input"), str(given.path), FORMAT)
    cases, kernel, name = _cases(task, problem / TASK), folder.adapter(_KERNEL), problem.resolve().name
    reference = python_solution.reference_side(given, _REFERENCE, f"{name}: the problem's own ref_kernel, eager", kernel)
    beside = {kept: folder.text(one) for kept, one in files.items() if kept != _REFERENCE}
    form = {_FORM: folder.adapter("kernelbot_data.py")}
    reference = replace(reference, files={**reference.files, **beside, **form})
    if solution is None:
        candidate = replace(reference, title=f"{name}: the problem's own ref_kernel")
    else:
        answer = Original(solution, _SUBMISSION, folder.read(solution))
        sources.require(sources.python_tree(answer), (ENTRY,), str(solution), f"{FORMAT} submission")
        candidate = python_solution.side(answer, f"{solution.stem}: {ENTRY} for {name}", kernel)
        candidate = replace(candidate, files={**candidate.files, **form})
        files[_SUBMISSION] = answer
    rule = _rule(tree, given.path)
    return Imported(
        format=FORMAT,
        candidate=candidate,
        reference=reference,
        problem={
            _PROBLEM: folder.adapter("kernelbot_problem.py"),
            _DATA: '"""The tests and the timed benchmark of task.yml, and the tolerances that reference.py names."""\n\n'
            f"CASES = {cases!r}\nRULE = {rule!r}\n"
            f"OUT_OF_CONTRACT = {VALUES if _PACKED in folder.text(given) else ()!r}\n",
        },
        originals=[Original(problem / TASK, TASK, folder.read(problem / TASK)), *files.values()],
        tolerance="kernelbot's rule, " + (f"|out - reference| <= {rule[0]:g} + {rule[1]:g} * |reference|" if rule else "code of its own"),
        timed=_TIMED if _TIMED in cases else "",
        details={"problem": name},
        wanted="" if solution else ENTRY,
    )


def _checked(task: Any, where: Path) -> Mapping[str, Any]:
    if not isinstance(task, dict) or not isinstance(task.get("files"), list):
        raise GatesError(f"{where}: not a task of {FORMAT}: it has no list of files")
    for key, kind in (("config", dict), ("tests", list), ("benchmarks", list)):
        if not isinstance(task.get(key), (kind, NoneType)):
            raise GatesError(f"{where}: {key} is {task[key]!r:.80}, not a {'list' if kind is list else 'mapping'}")
    if task.get("lang", "py") != "py":
        raise GatesError(f"{where}: lang is {task['lang']!r}; only submissions in Python are imported")
    if task.get("multi_gpu"):
        raise GatesError(f"{where}: multi_gpu: a task runs on one device")
    return task


def _files(task: Mapping[str, Any], problem: Path) -> list[Original]:
    """The problem's own files: neither the submission nor the format's harness."""
    where, harness = problem / TASK, (task.get("config") or {}).get("main", "eval.py")
    found: dict[str, Original] = {}
    for one in task["files"]:
        if not isinstance(one, dict) or not all(isinstance(one.get(key), str) for key in ("name", "source")):
            raise GatesError(f"{where}: files: {one!r} has no name and source")
        name, source = one["name"], one["source"]
        if source != _GIVEN and name != harness:
            if PurePosixPath(name).name != name or name in ("", "..") or "\\" in name or not name.isprintable():
                raise GatesError(f"{where}: files: {name!r} is not the name of a file")
            if not source.isprintable():
                raise GatesError(f"{where}: files: the source {source!r} is not a plain path")
            if name in _OWN:
                raise GatesError(f"{where}: files: {name!r} is a file that the import makes", hint="give the problem's file another name")
            if name in found:
                raise GatesError(f"{where}: files: {name!r} appears twice")
            found[name] = Original(problem / source, name, folder.read(_inside(source, problem)))
    return list(found.values())


def _inside(source: str, problem: Path) -> Path:
    """Return the file that ``source`` names. Raises GatesError unless it is in the problem's folder, or a Python file of its suite."""
    own = Path(os.path.realpath(problem))
    path = Path(os.path.realpath(own / source))
    of_suite = path.is_relative_to(own.parent.parent) and path.suffix == ".py"
    if PurePosixPath(source).is_absolute() or not (of_suite or path.is_relative_to(own)):
        raise GatesError(
            f"{problem / TASK}: files: the source {source!r} leaves the suite",
            hint="a source is a file in the problem's folder, or a Python file at most two folders above it",
        )
    return path


def _cases(task: Mapping[str, Any], where: Path) -> dict[str, dict[str, Any]]:
    """{shape: arguments of generate_input}."""
    tests, benchmarks = (task.get(kind) or [] for kind in ("tests", "benchmarks"))
    for one in (*tests, *benchmarks):
        if not isinstance(one, dict) or not all(isinstance(name, str) and name.isidentifier() for name in one):
            raise GatesError(f"{where}: {one!r} is not a test: names and values of generate_input's parameters")
    if not (tests or benchmarks):
        raise GatesError(f"{where}: no tests and no benchmarks")
    cases = {f"test{number}": one for number, one in enumerate(tests, start=1)}
    return cases | ({_TIMED: benchmarks[-1]} if benchmarks else {})


def _rule(tree: ast.Module, where: Path) -> tuple[float, float] | None:
    """(atol, rtol) of the first comparison with tolerances; None if the code computes them. Raises GatesError for what is no tolerance."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("make_match_reference", "verbose_allclose"):
            named = {keyword.arg: keyword.value for keyword in node.keywords}
            found = []
            for name in ("atol", "rtol"):
                value = named.get(name, ast.Constant(_DEFAULTS[name]))
                if not isinstance(value, ast.Constant):
                    return None
                if not isinstance(value.value, (int, float)) or value.value > sys.float_info.max:
                    raise GatesError(f"{where}:{node.lineno}: {name} is not a finite number")
                found.append(float(value.value))
            return found[0], found[1]
    return None
