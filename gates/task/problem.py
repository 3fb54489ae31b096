"""What is computed: the inputs, the outputs, the exact reference and the shapes of an operator.

A problem is a Python module with these names:

    SHAPES      {name: {dimension: size}}, e.g. {"small": {"B": 1, "S": 32}}
    make_inputs(shape, seed, device) -> {name: tensor or number}; same values on every device
    reference(inputs, shape), or reference(inputs) -> {output name: float64 or complex128 CPU tensor}, exact on those very
                inputs; a tensor alone is the output "out", a tuple is "out0", "out1", …

and, for a kernel that writes into outputs which it is given (every C launcher does):

    ARGUMENTS   names in the order of the kernel's parameters; each is a key of the inputs, of the
                outputs, or a dimension of the shape. Left out: the inputs, in their order
    make_outputs(shape, device) -> {name: tensor}, or tensors alone as above; the values do not matter
    IN_PLACE    names of inputs that the kernel changes: they are outputs too, and hold the input before

and may have:

    check(outputs, expected) -> None, True or "" where a kernel's outputs will do, else False or a text that says why not;
                judged beside the limits on errors. It gets tensors alone where the reference gives them alone. One that raises
                for these outputs and not for the right ones refuses them
    work(shape) -> {"tensor.fp16": …, "bytes": …} least operations by unit (``gates.hardware.peaks``; ``flops`` if no unit is certain) and
                bytes read and written: for the card's limit
    end_to_end(inputs, shape) -> {output name: tensor}: what a user would have without the kernel's
                input format, judged with limits of its own
    backends(inputs, shape) -> {name: callable}: other implementations, timed beside for context
    ODD_SHAPES  names of SHAPES with tails, tried in every run and by the sanitizer gate
    EDGE_SHAPES names of SHAPES, tried with ``gates run --thorough``: sizes around each tile, batches and heads
    INPUT_FAMILIES {name: callable(shape, seed, device) -> inputs as make_inputs gives them}: inputs of a
                special kind, e.g. all keys equal; make_inputs itself goes by the name "default"
    DIMS        the sizes that a kernel must accept: {dimension: range, choices or one size}, e.g. {"S": range(1, 4097), "D": [64, 128]},
                or a function (random.Random) -> sizes of one shape. Every run draws shapes from them. {}: only those of SHAPES
    OUT_OF_CONTRACT names of kinds of values that the kernel is never given, e.g. ("denormal",); see gates/task/values.py
    NON_FINITE  ("nan", "infinity") or one of them: inputs may hold these values, and the reference gives the right result for them
    FAMILY_SHAPES names of SHAPES on which the families are tried: the first one in every run, all of them with
                ``--thorough``. Left out: the first of ODD_SHAPES, or else the first of SHAPES
    error_bound(inputs, shape) -> {output name: float64 CPU tensor}: the largest error, element by
                element, that rounding in the formats explains; for the limit max_err_over_bound
    honest(inputs, shape) -> outputs as the reference gives them, of an honest evaluation in its own precision; error_bound then comes
                from its errors (gates/task/honest_error.py)
    rule(inputs, shape) -> {output name: float64 CPU tensor}: the tolerance that others judge this problem by, shown beside the limits,
                and the bound where it is narrower
    RULE_FOR_ALL False if some elements may break ``rule``, which then narrows no bound
    OFFERED     names of SHAPES that nobody promised: a kernel may decline them by an error
    null_outputs(inputs, shape) -> {name: {output name: tensor}}: answers that a kernel would give which
                leaves out the work; each must fail wherever the kernel passes
    mistakes(inputs, shape) -> {cause: callable() -> {output name: tensor}}: wrong answers known by their cause;
                a wrong output is compared with each (where that is not NaN), to say what went wrong
    AXES        {output name: names of its axes}, e.g. {"out": ("B", "H", "S", "D")}, to say where errors lie
"""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import importlib.util
import inspect
import math
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from gates.core.errors import GatesError
from gates.core.python_path import add_folder
from gates.task import honest_error
from gates.task.load import nearest

MAX_SEED = 2**31 - 1
REQUIRED = ("SHAPES", "make_inputs", "reference")
COMPLEX_PART = "complex part"  # names the last axis of a complex output where it is compared as reals: 0 is the real, 1 the imaginary part
_DRAWN = 2**22  # elements: more take noticeable time to draw
DEFAULT_INPUTS = "default"  # what make_inputs gives
FRESH = "fresh_"  # begins the name of a drawn shape, which holds its sizes: fresh_B1_S77
NON_FINITE = ("nan", "infinity")
VALUES = (
    "all_equal",
    "one_hot",
    "huge_offset",
    "denormal",
    "ascending",
    "descending",
    "zero_rows",
    "alternating",
    "small",
)  # structured, of any problem
_SHAPE_LISTS = ("ODD_SHAPES", "EDGE_SHAPES", "FAMILY_SHAPES", "OFFERED")
_FUNCTIONS = (
    "make_inputs",
    "reference",
    "make_outputs",
    "check",
    "work",
    "end_to_end",
    "backends",
    "error_bound",
    "honest",
    "rule",
    "null_outputs",
    "mistakes",
)
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class ProblemError(Exception):
    """The problem module gave something that can't be judged."""


class OutputError(Exception):
    """The kernel gave something that can't be compared with the reference."""


class Shapes(dict[str, Any]):
    """The SHAPES of a problem, and every drawn shape by its name, which holds its sizes."""

    def __missing__(self, name: str) -> dict[str, int]:
        if (sizes := self._sizes(name)) is None:
            raise KeyError(name)
        return sizes

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or self._sizes(name) is not None

    def _sizes(self, name: object) -> dict[str, int] | None:
        names = list(next(iter(self.values()), ()))
        found = re.fullmatch(FRESH + "_".join(rf"{re.escape(one)}(\d{{1,12}})" for one in names), str(name))
        return {one: int(size) for one, size in zip(names, found.groups(), strict=True)} if found else None


def fresh_name(sizes: Mapping[str, int]) -> str:
    """Return the name of a drawn shape, which holds its sizes: ``fresh_B1_S77``."""
    return FRESH + "_".join(f"{name}{size}" for name, size in sizes.items())


class Problem:
    """A problem module with what may be left out filled in, and outputs always named. Other names are the module's own."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self.SHAPES = Shapes(module.SHAPES)
        self._returned: list[str] | None = None
        self._whole = len(inspect.signature(module.reference).parameters) > 1
        self._honest: tuple[Any, dict[str, Any], dict[str, Any], dict[str, Any]] | None = None  # of the last inputs
        if hasattr(module, "honest"):
            self.error_bound = self._derived_bound
        if hasattr(module, "make_outputs"):
            self.make_outputs = lambda shape, device: named(module.make_outputs(shape, device))
        if hasattr(module, "check"):
            self.check = lambda outputs, expected: module.check(_unnamed(outputs), _unnamed(expected))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    @functools.cached_property
    def ARGUMENTS(self) -> tuple[str, ...]:  # noqa: N802 - a problem's name
        """The problem's own, or the names of its inputs, which are drawn for that when somebody asks."""
        return tuple(getattr(self._module, "ARGUMENTS", None) or ()) or _input_names(self._module)

    def reference(self, inputs: Mapping[str, Any], shape: Mapping[str, int]) -> dict[str, Any]:
        """The exact outputs by name: float64 or complex128 CPU tensors."""
        return named(self._module.reference(inputs, shape) if self._whole else self._module.reference(inputs))

    def honest_error(self, inputs: Mapping[str, Any], shape: Mapping[str, int]) -> dict[str, Any]:
        """The error of the problem's ``honest`` that counts at each element."""
        return self._honestly(inputs, shape)[2]

    def _honestly(self, inputs: Mapping[str, Any], shape: Mapping[str, int]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """(exact outputs, those of the problem's ``honest``, the error that counts at each element)."""
        if self._honest is None or self._honest[0] is not inputs:
            from gates.task.precision import SingleSums  # needs torch

            with SingleSums():
                found = named(self._module.honest(inputs, shape))
            exact = self.reference(inputs, shape)
            self._honest = inputs, exact, found, honest_error.errors(exact, found)
        return self._honest[1:]

    def _derived_bound(self, inputs: Mapping[str, Any], shape: Mapping[str, int]) -> dict[str, Any]:
        exact, found, counted = self._honestly(inputs, shape)
        for_all = hasattr(self._module, "rule") and getattr(self._module, "RULE_FOR_ALL", True)
        return honest_error.bounds(exact, found, counted, inputs, self._module.rule(inputs, shape) if for_all else {})

    def returned_names(self) -> list[str]:
        """Return the names, in order, of what a function returns if it is given no outputs: the reference's on the smallest shape, but
        those changed in place.
        """
        if self._returned is None:
            shape = self.SHAPES[smallest(self, self.SHAPES)]
            self._returned = [
                name for name in self.reference(self.make_inputs(shape, 0, "cpu"), shape) if name not in getattr(self, "IN_PLACE", ())
            ]
        return self._returned


def named(value: Any, names: Sequence[str] = ()) -> dict[str, Any]:
    """Outputs by name: a mapping as it is, a tensor alone as "out", several as "out0", "out1", …, or as ``names`` in their order."""
    if isinstance(value, Mapping):
        return dict(value)
    several = isinstance(value, Sequence)
    values = list(value) if several else [value]
    return dict(
        zip(names if len(names) == len(values) else [f"out{i}" for i in range(len(values))] if several else ["out"], values, strict=True)
    )


def tensors_named(found: Any, source: str) -> dict[str, Any]:
    """Outputs by name as ``named`` has them; one alone in a sequence is "out". Raises TypeError, which names ``source``, for no tensor."""
    import torch

    values = list(found) if isinstance(found, (tuple, list)) else [found]
    if wrong := [type(value).__name__ for value in values if not isinstance(value, torch.Tensor)]:
        raise TypeError(f"{source} gives {', '.join(wrong)}; an output must be a tensor")
    return named(values, ["out"] if len(values) == 1 else [])


def outputs_of(module: Any, shape: Mapping[str, int]) -> dict[str, Any]:
    """CPU tensors like the outputs that a kernel is given to write into; none where the problem makes none, since kernels return theirs."""
    return dict(module.make_outputs(dict(shape), "cpu")) if hasattr(module, "make_outputs") else {}


def outputs_in_order(module: Any, made: Collection[str]) -> list[str]:
    """Return the names, in order, of the outputs that a function may return: those ``made`` by the problem, or else the reference's."""
    return list(made) or list(module.returned_names())


def returned_by_name(value: Any, names: Collection[str], given: Collection[str]) -> dict[str, Any]:
    """What a function returned, by name: in the order of ``names`` but those it was ``given`` if their count fits, or else as ``named``
    calls them.
    """
    return named(value, [name for name in names if name not in given])


def _unnamed(outputs: Mapping[str, Any]) -> Any:
    """What ``named`` was given, for a problem that names nothing."""
    if list(outputs) == ["out"]:
        return outputs["out"]
    return tuple(outputs.values()) if list(outputs) == [f"out{i}" for i in range(len(outputs))] else outputs


def load(name: str, folder: Path) -> Problem:
    """Import the problem module ``name``, found from the task's ``folder`` or an ancestor of it.

    Raises GatesError where the module is missing, can't be imported, lacks a required name, or has an
    optional one that is not what it should be.
    """
    root = find(name, folder)
    try:
        _prefer_folder(name, root)
        module = importlib.import_module(name)
    except Exception as error:  # the user's module: whatever it raises is a finding about it
        raise GatesError(
            f"can't import problem {name!r}: {type(error).__name__}: {error}",
            hint=f"the name is looked for in {folder.resolve()} and the folders above it",
        ) from error
    missing = [required for required in REQUIRED if not hasattr(module, required)]
    if missing:
        raise GatesError(
            f"problem {name!r} ({module.__file__}) lacks {', '.join(missing)}",
            hint="see docs/guide/writing-a-task.md for what a problem module holds",
        )
    wrong = _wrong(module)
    if wrong:
        raise GatesError(
            f"problem {name!r} ({module.__file__}): {wrong}", hint="see docs/guide/writing-a-task.md for what a problem module holds"
        )
    return Problem(module)


def find(name: str, folder: Path) -> Path | None:
    """Put the folder that holds the module ``name``, the task's or an ancestor of it, on the path for imports, and return it.

    Raises GatesError for a name of Python's own.
    """
    folder, first = folder.resolve(), name.split(".")[0]
    found = next((root for root in (folder, *folder.parents) if (root / first).is_dir() or (root / f"{first}.py").is_file()), None)
    if found:
        add_folder(found)
    if first in sys.stdlib_module_names:
        raise GatesError(
            f"problem {name!r} has the name of a standard Python module, which would be imported instead",
            hint="rename the file, and `problem:` in task.yaml",
        )
    return found


def _prefer_folder(name: str, root: Path | None) -> None:
    """Make ``relu/`` the package of the problem ``relu.problem``. Python itself takes ``relu.py`` if there is no __init__.py."""
    first, *inside = name.split(".")
    if not root or not inside or first in sys.modules or (root / first / "__init__.py").is_file():
        return
    if not root.joinpath(first, *inside).with_suffix(".py").is_file():
        return
    spec = importlib.machinery.ModuleSpec(first, None, is_package=True)
    spec.submodule_search_locations = [str(root / first)]
    sys.modules[first] = importlib.util.module_from_spec(spec)


def _input_names(module: ModuleType) -> tuple[str, ...]:
    """The names that ``make_inputs`` gives. Large inputs are not drawn for that, if the problem can do without values."""
    shape = module.SHAPES[smallest(module, module.SHAPES)]
    if math.prod(size for size in shape.values() if isinstance(size, int)) > _DRAWN:
        import torch

        with contextlib.suppress(Exception), torch.device("meta"):  # the user's code, on tensors that hold nothing
            return tuple(module.make_inputs(shape, 0, "meta"))
    return tuple(module.make_inputs(shape, 0, "cpu"))


def smallest(module: Any, names: Iterable[str]) -> str:
    """Return the one of the shapes ``names`` with the least product of sizes."""
    return min(names, key=lambda name: math.prod(size for size in module.SHAPES[name].values() if isinstance(size, int)))


def is_ordinary(role: str, inputs: str) -> bool:
    """Return whether absolute limits and the baseline's errors apply to a case: not on edge or drawn shapes, or special inputs."""
    return role not in ("edge", "fresh") and inputs == DEFAULT_INPUTS


def asked_inputs(shapes: Iterable[str], inputs: Sequence[str]) -> tuple[str, ...]:
    """Return the inputs that a run with these ``shapes`` and ``inputs`` replays: "default" if only a drawn shape is named; () for a whole
    run.
    """
    return tuple(inputs) or ((DEFAULT_INPUTS,) if any(shape.startswith(FRESH) for shape in shapes) else ())


def widened(limit: float, scale: float, floor: float) -> float:
    """Return the absolute limit for inputs on which an honest evaluation's error is ``scale`` times the ``floor`` of ordinary inputs.

    A ``scale`` below 1 means small inputs with smaller answers. There ``floor`` is what the format's smallest numbers may lose.
    """
    return limit + (scale - 1.0) * max(limit, floor) if scale >= 1.0 else limit * scale + floor


def family_shapes(module: Any) -> tuple[str, ...]:
    """The shapes on which input families are tried."""
    given = getattr(module, "FAMILY_SHAPES", ()) or getattr(module, "ODD_SHAPES", ())[:1]
    return tuple(given) or tuple(module.SHAPES)[:1]


def _wrong(module: ModuleType) -> str:
    """What is wrong with the optional names of a problem; empty where nothing is."""
    if not isinstance(module.SHAPES, Mapping) or not all(isinstance(sizes, Mapping) for sizes in module.SHAPES.values()):
        return "SHAPES must map each name to its sizes, like {'small': {'N': 1000}}"
    for name in _SHAPE_LISTS:
        shapes = getattr(module, name, ())
        if isinstance(shapes, str) or not isinstance(shapes, Sequence):
            return f"{name} must be a tuple of names, not {type(shapes).__name__}"
        if odd := [shape for shape in shapes if not isinstance(shape, str)]:
            return f"{name} must hold names of shapes, not {odd[0]!r}"
        unknown = [shape for shape in shapes if shape not in module.SHAPES]
        if unknown:
            return f"{name} names {', '.join(unknown)}, which SHAPES does not have"
        if len(set(shapes)) != len(shapes):
            return f"{name} names a shape twice"
    for name in _FUNCTIONS:
        if not callable(getattr(module, name, len)):
            return f"{name} must be a function"
    families = getattr(module, "INPUT_FAMILIES", {})
    if not isinstance(families, Mapping) or not all(callable(make) for make in families.values()):
        return "INPUT_FAMILIES must map names to functions (shape, seed, device) -> inputs"
    for name in families:
        if name == DEFAULT_INPUTS or not isinstance(name, str) or not _NAME.fullmatch(name):
            return f"INPUT_FAMILIES has the name {name!r}; names are lower case, like all_equal, and not {DEFAULT_INPUTS!r}"
    if text := _wrong_dims(module):
        return text
    axes = getattr(module, "AXES", {})
    if not isinstance(axes, Mapping):
        return "AXES must map each output to the names of its axes"
    for output, names in axes.items():
        if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(axis, str) for axis in names):
            return f"AXES[{output!r}] must be a tuple of names"
        if len(set(names)) != len(names):
            return f"AXES[{output!r}] names an axis twice"
    return ""


def _wrong_dims(module: ModuleType) -> str:
    """Return the problem of DIMS or of the named kinds of values; empty if there is none."""
    for name, known in (("OUT_OF_CONTRACT", VALUES), ("NON_FINITE", NON_FINITE)):
        given = getattr(module, name, ())
        if isinstance(given, str) or not isinstance(given, Sequence):
            return f"{name} must be a tuple of names, not {type(given).__name__}"
        if odd := [one for one in given if one not in known]:
            return f"{name} has no {odd[0]!r}: {nearest(str(odd[0]), known)}"
    dims = getattr(module, "DIMS", {})
    if callable(dims) or not dims:
        return ""
    first = next(iter(module.SHAPES.values()))
    if not isinstance(dims, Mapping) or set(dims) != set(first):
        return f"DIMS must say for each of {', '.join(map(str, first))} which sizes are in the contract, or be a function"
    for name, values in dims.items():
        sizes = [values] if type(values) is int else list(values) if isinstance(values, (list, tuple)) else values
        if (
            not isinstance(sizes, (list, range))
            or not len(sizes)
            or not all(type(size) is int and size >= 0 for size in (sizes[0], sizes[-1], *sizes[:64]))
        ):
            return f"DIMS[{name!r}] must be a range, like range(1, 4097), a list of sizes, or one size, not {values!r}"
        if isinstance(sizes, range) and sizes.step < 1:
            return f"DIMS[{name!r}] must be a rising range"
    outside = next(
        (
            (shape, name)
            for shape, sizes in module.SHAPES.items()
            for name, values in dims.items()
            if sizes[name] not in ([values] if type(values) is int else values)
        ),
        None,
    )
    return f"DIMS[{outside[1]!r}] leaves out {module.SHAPES[outside[0]][outside[1]]}, which the shape {outside[0]} has" if outside else ""


def call_arguments(
    module: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any], shape: Mapping[str, int], names: Sequence[str] = ()
) -> tuple[Any, ...]:
    """The kernel's arguments in order, by ``names`` (the problem's ARGUMENTS) looked up in outputs, inputs and shape."""
    whose = "`arguments` of task.yaml name" if names else f"problem {module.__name__}: ARGUMENTS name"
    values, names = {**shape, **inputs, **outputs}, names or module.ARGUMENTS
    unknown = [name for name in names if name not in values]
    if unknown:
        raise GatesError(
            f"{whose} {', '.join(unknown)}, which nothing provides",
            hint=f"{nearest(unknown[0], values)}; a kernel's arguments are inputs, outputs and dimensions of the shape",
        )
    return tuple(values[name] for name in names)


def check_names(problem: Any, shapes: Sequence[str], inputs: Sequence[str] = ()) -> None:
    """Raise GatesError for a shape or a family that the problem does not have, with the nearest that it has."""
    families = (DEFAULT_INPUTS, *getattr(problem, "INPUT_FAMILIES", {}))
    for what, names, known in (("shape", shapes, problem.SHAPES), ("inputs", inputs, families)):
        for name in names:
            if name not in known and not (what == "inputs" and name.partition(":")[0] in (*VALUES, *NON_FINITE)):
                raise GatesError(f"problem {problem.__name__} has no {what} {name!r}", hint=nearest(name, known))
