"""kernelbot: a problem folder with task.yml and reference.py, and a submission with ``custom_kernel``.

task.yml names the problem's files, the tests and the benchmarks: arguments of ``generate_input``. ``reference.py`` has
``generate_input`` and ``ref_kernel``, which takes what that gives. The last benchmark is timed: the format ranks by it unless task.yml
says otherwise.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
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
            if ENTRY in one.read_text(encoding="utf-8", errors="replace"):
                yield Pair(problem, one, "_".join((label, *one.relative_to(solutions / place).with_suffix("").parts)))


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
    form = {"data_form.py": folder.adapter("kernelbot_data.py")}
    reference = replace(reference, files={**reference.files, **beside, **form})
    if solution is None:
        candidate = replace(reference, title=f"{name}: the problem's own ref_kernel")
    else:
        answer = Original(solution, _SUBMISSION, folder.read(solution))
        sources.require(sources.python_tree(answer), (ENTRY,), str(solution), f"{FORMAT} submission")
        candidate = python_solution.side(answer, f"{solution.stem}: {ENTRY} for {name}", kernel)
        candidate = replace(candidate, files={**candidate.files, **form})
        files[_SUBMISSION] = answer
    rule = _rule(tree)
    return Imported(
        format=FORMAT,
        candidate=candidate,
        reference=reference,
        problem={
            "problem.py": folder.adapter("kernelbot_problem.py"),
            "problem_data.py": '"""The tests and the timed benchmark of task.yml, and the tolerances that reference.py names."""\n\n'
            f"CASES = {cases!r}\nRULE = {rule!r}\n"
            f"OUT_OF_CONTRACT = {VALUES if _PACKED in folder.text(given) else ()!r}\n",
        },
        originals=[Original(problem / TASK, TASK, folder.read(problem / TASK)), *files.values()],
        tolerance="kernelbot's rule, " + (f"|out - reference| <= {rule[0]:g} + {rule[1]:g} * |reference|" if rule else "code of its own"),
        timed=_TIMED if _TIMED in cases else "",
        details={"problem": name},
    )


def _checked(task: Any, where: Path) -> Mapping[str, Any]:
    if not isinstance(task, dict) or not isinstance(task.get("files"), list):
        raise GatesError(f"{where}: not a task of {FORMAT}: it has no list of files")
    if task.get("lang", "py") != "py":
        raise GatesError(f"{where}: lang is {task['lang']!r}; only submissions in Python are imported")
    if task.get("multi_gpu"):
        raise GatesError(f"{where}: multi_gpu: a task runs on one device")
    return task


def _files(task: Mapping[str, Any], problem: Path) -> list[Original]:
    """The problem's own files: neither the submission nor the format's harness."""
    harness = (task.get("config") or {}).get("main", "eval.py")
    found = []
    for one in task["files"]:
        if not isinstance(one, dict) or not all(isinstance(one.get(key), str) for key in ("name", "source")):
            raise GatesError(f"{problem / TASK}: files: {one!r} has no name and source")
        if one["source"] != _GIVEN and one["name"] != harness:
            if Path(one["name"]).name != one["name"]:
                raise GatesError(f"{problem / TASK}: files: {one['name']!r} is not the name of a file")
            found.append(Original(problem / one["source"], one["name"], folder.read(problem / one["source"])))
    return found


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


def _rule(tree: ast.Module) -> tuple[float, float] | None:
    """(atol, rtol) of the first comparison with tolerances; None if the code computes them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("make_match_reference", "verbose_allclose"):
            named = {keyword.arg: keyword.value for keyword in node.keywords}
            values = [named.get(name, ast.Constant(_DEFAULTS[name])) for name in ("atol", "rtol")]
            if all(isinstance(value, ast.Constant) for value in values):
                return float(values[0].value), float(values[1].value)  # type: ignore[attr-defined]
            return None
    return None
