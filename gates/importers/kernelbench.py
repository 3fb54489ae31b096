"""KernelBench: a problem file with ``Model``, ``get_inputs`` and ``get_init_inputs``, and a solution with ``ModelNew``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from gates.importers import folder, python_solution, sizes, sources
from gates.importers.bulk import Pair, by_numbers
from gates.importers.folder import Imported, Original

FORMAT, _GIVEN = "KernelBench", "given"
_TOLERANCE = "KernelBench's rule for float32, |out - reference| <= 1e-4 + 1e-4 * |reference| (versions 0 and 0.1 had 1e-2)"


def pairs(problems: Path, solutions: Path | None) -> Iterator[Pair]:
    """The Python files below ``problems``, each with the files below ``solutions`` of its name, or as KernelBench's runs name them."""
    for problem in sorted(problems.rglob("*.py"), key=lambda path: by_numbers(path.relative_to(problems))):
        label = f"{problem.parent.name}_{problem.stem}"
        if solutions is None:
            yield Pair(problem, None, label)
        else:
            yield from (Pair(problem, one, f"{label}_{one.parent.name}") for one in sorted(solutions.rglob(problem.name)))
            number, level = problem.name.partition("_")[0], problem.parent.name.removeprefix("level")
            run = f"level_{level if level.isdigit() else '*'}_problem_{number}_sample_*_kernel.py"
            yield from (Pair(problem, one, f"{label}_{one.parent.name}_{one.stem[:-7]}") for one in sorted(solutions.rglob(run)))


def load(problem: Path, solution: Path | None, given_sizes: Mapping[str, int] | None = None) -> Imported:
    """What the two files hold; without a solution the problem's own Model is one.

    ``given_sizes`` replace whole numbers of the problem's module. Raises GatesError for a file that can't be read or is not of the format.
    """
    given = Original(problem, "problem_original.py", folder.read(problem))
    compiled = solution is not None and solution.suffix == ".cu"
    answer = Original(solution or problem, "solution.cu" if compiled else "model.py", folder.read(solution) if solution else given.content)
    module = sources.python_tree(given)
    sources.require(module, ("Model", "get_inputs", "get_init_inputs"), str(problem), f"{FORMAT} problem")
    kernel = folder.adapter("kernelbench_kernel.py")
    title = f"{answer.path.stem}: ModelNew for {problem.stem}" if solution else f"{problem.stem}: its own Model"
    if compiled:
        candidate = python_solution.bound_side(answer, title.replace("ModelNew", "the bound function"), _inputs_of_forward(module))
    else:
        if solution:
            sources.require(sources.python_tree(answer), ("ModelNew",), str(solution), f"{FORMAT} solution")
        candidate = python_solution.side(answer, title, kernel)
    return Imported(
        format=FORMAT,
        candidate=candidate,
        reference=python_solution.reference_side(given, "model.py", f"{problem.stem}: the problem's own Model, eager", kernel),
        problem={
            "problem.py": folder.adapter("kernelbench_problem.py"),
            "problem_computed.py": '"""What follows from the problem\'s whole numbers."""\n\n'
            + f"COMPUTED = {sizes.followers(module)!r}\n",
            folder.SIZES: folder.sizes_text({_GIVEN: sizes.of_module(module, given_sizes or {})}),
        },
        timed=_GIVEN,
        offers=sizes.offered(module, given_sizes or {}),
        originals=[given, answer],
        tolerance=_TOLERANCE,
        details={"problem": problem.stem, "precision": "float32"},
        wanted="" if solution else "class ModelNew",
    )


def _inputs_of_forward(module: ast.Module) -> list[str]:
    """The parameters of Model.forward."""
    for node in module.body:
        for one in node.body if isinstance(node, ast.ClassDef) and node.name == "Model" else ():
            if isinstance(one, ast.FunctionDef) and one.name == "forward":
                return [parameter.arg for parameter in (*one.args.posonlyargs, *one.args.args)][1:]
    return []
