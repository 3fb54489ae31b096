"""``gates lint-task``: everything that is wrong with a task folder, found without building it or running its kernel.

task.yaml is checked as ``gates run`` checks it; the problem is run once in a runner process; the sources are read as text.
What will keep a run from ever being merge is a finding too.
"""

from __future__ import annotations

import ast
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gates.core.errors import EXIT_USAGE, GatesError
from gates.gate.registry import ROWS
from gates.hardware import chips
from gates.task.load import CUDA, EXTENSION, PYTHON, Task, faults, load_task
from gates.task.scaffold import UNTITLED

_SCRIPTS = {"build.py": "build", "runner.py": "run"}  # and what each calls
_TOO_ROUGH = ("float32", "float16", "bfloat16")
_NO_SHAPE = "has no shape"  # as the runner says it
_AFTER_ARGUMENTS = 3  # stream, error, error_bytes
_ELEMENTS = {  # types of C that say what they point to, with the types of tensors whose elements they can be
    "float": ("float32", "complex64"),
    "double": ("float64", "complex128"),
    "__half": ("float16",),
    "half": ("float16",),
    "__nv_bfloat16": ("bfloat16",),
    "short": ("int16",),
    "int16_t": ("int16",),
    "int": ("int32",),
    "int32_t": ("int32",),
    "long long": ("int64",),
    "int64_t": ("int64",),
}
_DTYPES = {dtype for dtypes in _ELEMENTS.values() for dtype in dtypes}


def lint(folder: Path) -> list[str]:
    """Each finding as "where: what is wrong"; empty where there is none. Raises GatesError where there is no task.yaml to read."""
    folder = Path(folder).resolve()
    found = [line for fault in faults(folder) for line in fault.what.splitlines()]
    found += [line for name, call in _SCRIPTS.items() for line in _script(folder / name, call)]
    try:
        task = load_task(folder, environ={})
    except GatesError:
        return found  # told above
    of_problem = list(_problem(task)) if (folder / "runner.py").is_file() else []
    misspelt = any(_NO_SHAPE in line for line in of_problem)  # then the timed shape may be the one that is meant
    return [
        *found,
        *_title(task),
        *_names(folder),
        *_sources(task),
        *_chips(task),
        *_toggles(task),
        *(() if misspelt else _timed(task)),
        *_verdicts(task),
        *of_problem,
    ]


def _at(task: Task, *keys: str | int) -> str:
    """File and line of a key of task.yaml, or of the nearest key above it."""
    return str(task.folder / task.place(*keys))


def _script(path: Path, call: str) -> Iterator[str]:
    """A script of the task that is missing, or that imports what moved."""
    lines = f"write `from gates.task_script import {call}` and `{call}(__file__)`"
    if not path.is_file():
        yield f"{path}: missing; {lines}"
    elif "gates.run." in path.read_text(encoding="utf-8", errors="replace"):
        yield f"{path}: imports gates.run, which is no longer for tasks; {lines}"


def _title(task: Task) -> Iterator[str]:
    """The title that `gates new --from` wrote."""
    if UNTITLED in task.title:
        yield f"{_at(task, 'title')}: title: still the placeholder {task.title!r}: say what the task does"


def _names(folder: Path) -> Iterator[str]:
    """Files that take the place of Python's own modules in a script of this folder."""
    for path in sorted(folder.glob("*.py")):
        if path.stem in sys.stdlib_module_names:
            yield f"{path}: hides Python's own module {path.stem} from `python runner.py` and `python build.py`: rename it"


def _sources(task: Task) -> Iterator[str]:
    """Entry and kernels that no source defines."""
    from gates.task.sources.cuda_text import texts

    where = f"{_at(task, 'entry')}: "
    if task.kind in (CUDA, EXTENSION):
        text = "\n".join(texts(task.compiled)[0].values())
        if task.kind == CUDA and not ('extern "C"' in text and re.search(rf"\b{task.entry}\s*\(", text)):
            yield f'{where}entry: no source defines an extern "C" function {task.entry}'
        bound = re.findall(r"\bdef\s*\(\s*\"([^\"(]+)", text)  # of pybind11, and of torch's libraries, where a signature follows
        if (
            task.kind == EXTENSION
            and not task.script
            and task.entry not in bound
            and (bound or not re.search(rf"\b{task.entry}\s*\(", text))
        ):
            yield f'{where}entry: no source binds a function {task.entry}, as in m.def("{task.entry}", …)' + (
                f"; bound are {', '.join(bound)}" if bound else ""
            )
        names = set(re.findall(r"\w+", text)) if "__global__" in text else set()
    else:
        names, entries = set[str](), set[str]()
        for index, source in enumerate(task.sources):
            try:
                tree = ast.parse(source.read_text(encoding="utf-8"))
            except (SyntaxError, ValueError) as error:
                yield f"{source}:{getattr(error, 'lineno', None) or 1}: not Python: {getattr(error, 'msg', error)}"
                return
            names |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
            entries |= _bound(tree) if index == 0 else set()
        if task.entry not in entries:
            yield f"{where}entry: {task.sources[0].name} defines no {task.entry} at its top level"
    for index, kernel in enumerate(task.kernels):
        if task.kind != PYTHON and kernel not in names:
            yield f"{_at(task, 'kernels', index)}: kernels: no source defines {kernel}"


def _chips(task: Task) -> Iterator[str]:
    """Architectures of which the table of chips has none: mistyped, or too new for it."""
    for arch in task.arch:
        if chips.chip_of(arch) is None:
            yield f"{_at(task, 'arch')}: arch: {arch} is no chip that is known here ({', '.join(chips.CHIPS)})"


def _toggles(task: Task) -> Iterator[str]:
    """Toggles that no source reads: another value changes nothing, and a sweep compares a kernel with itself."""
    from gates.task.sources.cuda_text import texts

    if task.kind in (CUDA, EXTENSION):
        read = list(texts(task.sources)[0].values())
    else:  # in Python // is no comment
        read = [source.read_text(encoding="utf-8", errors="replace") for source in task.sources]
    words = set(re.findall(r"\w+", "\n".join(read)))
    for name in task.toggles:
        if name not in words:
            unused = f"no source uses {name}, nor does a header beside the sources, so it changes nothing"
            yield f"{_at(task, 'toggles', name)}: toggles: {unused}"


def _bound(tree: ast.Module) -> set[str]:
    """Names that the module binds outside functions and classes."""
    found: set[str] = set()
    for node in tree.body:
        for part in ast.walk(node) if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) else ():
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                found.add(part.id)
            found |= {part.asname or part.name} if isinstance(part, ast.alias) else set()
            found |= {part.name} if isinstance(part, (ast.FunctionDef, ast.ClassDef)) else set()
        found |= {node.name} if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else set()
    return found


def _timed(task: Task) -> Iterator[str]:
    """A shape that is timed, and that correctness leaves out."""
    timed = next(iter(task.timed_shapes), task.shapes[0])
    if timed not in task.shapes:
        key = _timed_key(task)
        yield (
            f"{_at(task, 'gates', 'performance', key)}: gates.performance.{key}: {timed} is timed, and only timing compares its results: "
            f"add it to shapes, unless it takes too long on the emulator"
        )


def _timed_key(task: Task) -> str:
    return "shapes" if "shapes" in task.gates["performance"] else "shape"


def _verdicts(task: Task) -> Iterator[str]:
    """What keeps a gate from a verdict on any machine, so that the decision stays hold."""
    for gate, limits in task.gates.items():
        if (row := ROWS[gate]).first_limits and not limits and gate not in task.not_applicable:
            yield (
                f"{_at(task, 'gates', gate)}: gates.{gate} has no limits, so the decision stays hold: add e.g. "
                f"`{gate}: {row.first_limits}`, or declare {gate} under not_applicable"
            )
    if task.baseline is None:
        if "performance" not in task.not_applicable:
            yield (
                f"{task.folder / 'task.yaml'}: performance needs a baseline to be faster than: name one, or declare performance "
                f"under not_applicable, as a first rung does"
            )
        for gate, limits in task.gates.items():
            for key in () if gate in task.not_applicable else ROWS[gate].against_baseline:
                asked = limits.get(key)
                if asked or (asked == 0 and asked is not False):  # growth by 0 % is a limit, too
                    yield f"{_at(task, 'gates', gate, key)}: gates.{gate}.{key} needs a baseline to compare with"


def _problem(task: Task) -> Iterator[str]:
    """What the runner says of the problem, and limits that an output of zeros keeps."""
    from gates.gate.correctness.output_scale import of_reference
    from gates.worker.describe import describe

    wanted = tuple(dict.fromkeys([*task.shapes, *task.timed_shapes]))
    try:
        with tempfile.TemporaryDirectory(prefix="gates-lint-") as work:
            describe(task.folder, task.problem, wanted, work=Path(work), limit_s=task.time_limit_s, arguments=task.arguments)
            seen = of_reference(
                task.folder, task.problem, task.shapes[0], work=Path(work), limit_s=task.time_limit_s, arguments=task.arguments
            )
    except GatesError as error:
        if error.exit_code != EXIT_USAGE:
            raise
        yield f"{_place_of(task, error.what)}{error.what}" + (f" ({error.hint})" if error.hint else "")
        return
    for output, dtype in seen["dtypes"].items():
        if dtype in _TOO_ROUGH:
            yield (
                f"{task.problem_file() or task.problem}: reference gives {output} in {dtype}: compute it in float64, from the inputs "
                f"as they are; "
                "else its own rounding counts as the kernel's error"
            )
    limit = task.gates["correctness"]["max_abs_err"]
    for output, dtype, cost in seen["rounding"]:
        if cost > limit:
            yield (
                f"{_at(task, 'gates', 'correctness', 'max_abs_err')}: gates.correctness.max_abs_err: rounding the exact result to "
                f"{dtype} already costs {cost:.3g} at {task.shapes[0]} seed 0 ({output}); no kernel can keep {limit:g}; "
                f"set about {2 * cost:.1g}"
            )
    if not seen["dims"]:
        yield (
            f"{task.problem_file() or task.problem}: no DIMS: declare which sizes the kernel must accept, e.g. DIMS = "
            f"{{{_example(seen['sizes'])}}}, or {{}} for those of SHAPES only"
        )
    yield from _signature(task, seen["arguments"])
    limits = task.gates["correctness"]
    if limits["max_abs_err"] >= seen["largest"] and limits["mean_abs_err"] >= seen["mean"] and "max_err_over_bound" not in limits:
        yield (
            f"{_at(task, 'gates', 'correctness')}: gates.correctness: an output of zeros keeps these limits on shape {task.shapes[0]}: "
            f"its largest error is {seen['largest']:.3g}, its mean {seen['mean']:.3g}"
        )


def _place_of(task: Task, what: str) -> str:
    """Where the runner's error about the problem is, as a prefix to it: in task.yaml, or else the problem's file if it does not name it."""
    if what.startswith("`arguments`"):
        return f"{_at(task, 'arguments')}: "
    for index, shape in enumerate(task.shapes):
        if what.endswith(f"{_NO_SHAPE} {shape!r}"):
            return f"{_at(task, 'shapes', index)}: shapes: "
    if _NO_SHAPE in what:
        key = _timed_key(task)
        return f"{_at(task, 'gates', 'performance', key)}: gates.performance.{key}: "
    file = str(task.problem_file() or task.problem)
    return "" if file in what else f"{file}: "


def _example(sizes: Mapping[str, int]) -> str:
    return ", ".join(
        f'"{name}": range(1, {4 * size + 1})' if isinstance(size, int) else f'"{name}": [{size!r}]' for name, size in sizes.items()
    )


def _signature(task: Task, arguments: Mapping[str, str]) -> Iterator[str]:
    """A C launcher that takes other arguments than it is called with, where the text shows its list plainly."""
    from gates.task.sources.cuda_text import texts

    if task.kind != CUDA:
        return
    definition = re.compile(rf"\b{task.entry}\s*\(([^(){{}};#]*)\)\s*(?:{{|try\b)")
    lists = {found[1]: (path, text, found) for path, text in texts(task.sources)[0].items() for found in definition.finditer(text)}
    if len(lists) != 1:
        return
    ((path, text, found),) = lists.values()
    parameters, at = found[1].split(","), found.start(1)
    if len(parameters) != len(arguments) + _AFTER_ARGUMENTS:
        yield (
            f"{path}:{_line(text, found.start())}: {task.entry} takes {len(parameters)} arguments, and is called with "
            f"{len(arguments) + _AFTER_ARGUMENTS}: {', '.join((*arguments, 'stream', 'error', 'error_bytes'))}"
        )
        return
    for parameter, (name, given) in zip(parameters, arguments.items(), strict=False):
        told = _mismatch(" ".join(parameter.replace("*", " * ").split()), given)
        if told or (told := _another(parameter, name, arguments)):
            begin = at + len(parameter) - len(parameter.lstrip())
            yield f"{path}:{_line(text, begin)}: {task.entry} takes `{' '.join(parameter.split())}`, and {name} is {told}"
        at += len(parameter) + 1


def _line(text: str, index: int) -> int:
    return text.count("\n", 0, index) + 1


def _another(parameter: str, name: str, arguments: Iterable[str]) -> str:
    """What stands at the place of a parameter that is called like another argument: swapped ones of one type have no other sign."""
    words = re.findall(r"\w+", re.split(r"[=\[]", parameter)[0])
    called = words[-1].lower() if words else ""
    if called == name.lower() or called not in (one.lower() for one in arguments):
        return ""
    return f"the argument at this place: the order is {', '.join(arguments)}"


def _mismatch(parameter: str, given: str) -> str:
    """What a launcher is given in place of what ``parameter`` says; empty where they agree, or where the text does not tell.

    Bytes, and whole numbers without a sign, are read for elements of any type.
    """
    dtype, of_tensor, output = given.partition(" tensor")
    pointer, words = "*" in parameter, parameter.partition("*")[0].split()
    if pointer and output and "const" in words:
        return "an output, which the kernel writes"
    kind = " ".join(word for word in (words if pointer else words[:-1]) if word not in ("const", "__restrict__")).removeprefix("std::")
    if kind not in _ELEMENTS:
        return ""
    if pointer != bool(of_tensor):
        return f"a tensor of {dtype}" if of_tensor else f"a number ({'int64_t' if dtype == 'int' else dtype})"
    if pointer:
        return f"a tensor of {dtype}" if dtype in _DTYPES and dtype not in _ELEMENTS[kind] else ""
    wanted = "int" if any(one.startswith("int") for one in _ELEMENTS[kind]) else "float"
    return {"int": "int64_t", "float": "float"}.get(dtype, "") if dtype != wanted or kind == "double" else ""
