"""The task of a solution that is one file. Of a Python file its kind, and what is judged of it, follow from what it imports."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gates.core.errors import GatesError
from gates.importers import folder, languages, load_inline, sources
from gates.importers.folder import Original, Side
from gates.task.load import EXTENSION, JIT, PYTHON


def side(answer: Original, title: str, kernel: str) -> Side:
    """Return the task of ``answer``, which the text ``kernel`` (kernel.py) calls. Raises GatesError for a file that is not Python."""
    tree = sources.python_tree(answer)
    inline = load_inline.find(tree, answer.kept)
    kind, kernels = next(((kind, found) for kind in JIT if (found := languages.kernels_of(tree, kind))), (PYTHON, []))
    return Side(
        title,
        EXTENSION if inline else kind,
        "run",
        [folder.CALLER, answer.kept, *(inline.files if inline else ())],
        {folder.CALLER: kernel, **(inline.files if inline else {})},
        kernels=inline.kernels if inline else kernels,
        nvcc_flags=inline.nvcc_flags if inline else (),
    )


_BOUND = re.compile(r'\bdef\(\s*"(\w+)"')
_FORWARD = "forward"
_CALLER = '''"""Calls what {first} binds."""

from pathlib import Path

from torch.utils.cpp_extension import load

_extension = load("bound", [str(Path(__file__).parent / name) for name in {files!r}])


def {entry}(*arguments):
    return _extension.{entry}(*arguments)
'''


def bound_side(answer: Original, title: str, arguments: Sequence[str]) -> Side:
    """Return the task of a CUDA file that binds a function for Python (PYBIND11_MODULE): ``forward``, or its only one.

    Raises GatesError for a file that binds none, or several without that name.
    """
    code = folder.text(answer)
    names = list(dict.fromkeys(_BOUND.findall(code))) if "PYBIND11_MODULE" in code else []
    if not names or (len(names) > 1 and _FORWARD not in names):
        raise GatesError(
            f"{answer.path} binds {', '.join(names) or 'no function'}; one must be {_FORWARD!r}, or the only one",
            hint='end the file with PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }',
        )
    return compiled_side(answer, title, _FORWARD if _FORWARD in names else names[0], arguments)


def compiled_side(answer: Original, title: str, entry: str, arguments: Sequence[str] = ()) -> Side:
    """Return the task of a CUDA file whose function ``entry`` Python code calls: so the emulator can run it, too."""
    kernels, calls = sources.cuda_kernels(folder.text(answer)), {folder.CALLER: caller([answer.kept], entry)}
    return Side(title, EXTENSION, entry, [folder.CALLER, answer.kept], calls, arguments=arguments, kernels=kernels)


def caller(files: Sequence[str], entry: str) -> str:
    """Return Python code that calls the function ``entry`` of the extension of these files."""
    return _CALLER.format(first=files[0], files=list(files), entry=entry)


def reference_side(given: Original, kept: str, title: str, kernel: str) -> Side:
    """Return the task of the problem's own code, kept as the file ``kept``."""
    return Side(title, PYTHON, "run", [folder.CALLER, kept], {folder.CALLER: kernel, kept: folder.text(given)})
