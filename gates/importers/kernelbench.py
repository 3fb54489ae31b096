"""KernelBench: a problem file with ``Model``, ``get_inputs`` and ``get_init_inputs``, and a solution with ``ModelNew``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gates.importers import folder, languages, load_inline, sizes, sources
from gates.importers.folder import Imported, Original, Side

FORMAT = "KernelBench"
_TOLERANCE = "KernelBench's rule for float32, |out - reference| <= 1e-4 + 1e-4 * |reference| (versions 0 and 0.1 had 1e-2)"


def load(problem: Path, solution: Path, given_sizes: Mapping[str, int] | None = None) -> Imported:
    """What the two files hold; if both are one file, the problem's own Model is its solution.

    ``given_sizes`` replace whole numbers of the problem's module. Raises GatesError for a file that can't be read or is not of the format.
    """
    given = Original(problem, "problem_original.py", folder.read(problem))
    answer = Original(solution, "model.py", folder.read(solution))
    module = sources.python_tree(given)
    sources.require(module, ("Model", "get_inputs", "get_init_inputs"), str(problem), f"{FORMAT} problem")
    tree = sources.python_tree(answer)
    if solution != problem:
        sources.require(tree, ("ModelNew",), str(solution), f"{FORMAT} solution")
    kernels, inline = languages.kernels_of(tree, "triton"), load_inline.find(tree, answer.kept)
    kernel = folder.adapter("kernelbench_kernel.py")
    return Imported(
        format=FORMAT,
        candidate=Side(
            f"{solution.stem}: ModelNew for {problem.stem}",
            "torch-extension" if inline else "triton" if kernels else "python",
            "run",
            ["kernel.py", "model.py", *(inline.files if inline else ())],
            {"kernel.py": kernel, **(inline.files if inline else {})},
            kernels=inline.kernels if inline else kernels,
            nvcc_flags=inline.nvcc_flags if inline else (),
        ),
        reference=Side(
            f"{problem.stem}: the problem's own Model, eager",
            "python",
            "run",
            ["kernel.py", "model.py"],
            {"kernel.py": kernel, "model.py": folder.text(given)},
        ),
        problem={
            "problem.py": folder.adapter("kernelbench_problem.py"),
            folder.SIZES: folder.sizes_text({"given": sizes.of_module(module, given_sizes or {})}, {}),
        },
        offers=sizes.offered(module, given_sizes or {}),
        originals=[given, answer],
        tolerance=_TOLERANCE,
        details={"problem": problem.stem, "precision": "float32"},
    )
