"""The task of a solution that is one Python file: its kind, and what is judged of it, follow from what it imports."""

from __future__ import annotations

from gates.importers import folder, languages, load_inline, sources
from gates.importers.folder import Original, Side


def side(answer: Original, title: str, kernel: str) -> Side:
    """Return the task of ``answer``, which the text ``kernel`` (kernel.py) calls. Raises GatesError for a file that is not Python."""
    tree = sources.python_tree(answer)
    kernels, inline = languages.kernels_of(tree, "triton"), load_inline.find(tree, answer.kept)
    return Side(
        title,
        "torch-extension" if inline else "triton" if kernels else "python",
        "run",
        ["kernel.py", answer.kept, *(inline.files if inline else ())],
        {"kernel.py": kernel, **(inline.files if inline else {})},
        kernels=inline.kernels if inline else kernels,
        nvcc_flags=inline.nvcc_flags if inline else (),
    )


def reference_side(given: Original, kept: str, title: str, kernel: str) -> Side:
    """Return the task of the problem's own code, kept as the file ``kept``."""
    return Side(title, "python", "run", ["kernel.py", kept], {"kernel.py": kernel, kept: folder.text(given)})
