"""What is computed: the inputs, the outputs, the exact reference and the shapes of an operator.

A problem is a Python module with these names:

    SHAPES      {name: {dimension: size}}, e.g. {"small": {"B": 1, "S": 32}}
    ARGUMENTS   names in the order of the kernel's C parameters; each is a key of the inputs, of the
                outputs, or a dimension of the shape
    make_inputs(shape, seed, device) -> {name: tensor or number}; same values on every device
    make_outputs(shape, device) -> {name: tensor}; the values do not matter
    reference(inputs, shape) -> {output name: float64 CPU tensor}, exact on those very inputs

and may have:

    work(shape) -> {"flops": …, "bytes": …} least work, for the floor check
    end_to_end(inputs, shape) -> {output name: tensor}: what a user would have without the kernel's
                input format, judged with limits of its own
    backends(inputs, shape) -> {name: callable}: other implementations, timed beside for context
    ODD_SHAPES  names of SHAPES with tails, tried by the sanitizer gate
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from gates.errors import GatesError

REQUIRED = ("SHAPES", "ARGUMENTS", "make_inputs", "make_outputs", "reference")


def load(name: str, folder: Path) -> ModuleType:
    """Import the problem module ``name``, found from the task's ``folder`` or an ancestor of it.

    Raises GatesError where the module is missing, can't be imported or lacks a required name.
    """
    folder = folder.resolve()
    first = name.split(".")[0]
    for root in (folder, *folder.parents):
        if (root / first).is_dir() or (root / f"{first}.py").is_file():
            if str(root) not in sys.path:
                sys.path.insert(0, str(root))
            break
    try:
        module = importlib.import_module(name)
    except Exception as error:  # the user's module: whatever it raises is a finding about it
        raise GatesError(
            f"can't import problem {name!r}: {type(error).__name__}: {error}",
            hint=f"the name is looked for in {folder} and the folders above it",
        ) from error
    missing = [required for required in REQUIRED if not hasattr(module, required)]
    if missing:
        raise GatesError(
            f"problem {name!r} ({module.__file__}) lacks {', '.join(missing)}",
            hint="see docs/writing-a-task.md for what a problem module holds",
        )
    return module


def call_arguments(
    module: ModuleType, inputs: Mapping[str, Any], outputs: Mapping[str, Any], shape: Mapping[str, int]
) -> tuple[Any, ...]:
    """The kernel's arguments in C order, looked up by name in outputs, inputs and shape."""
    values = {**shape, **inputs, **outputs}
    unknown = [name for name in module.ARGUMENTS if name not in values]
    if unknown:
        raise GatesError(f"problem {module.__name__}: ARGUMENTS names {', '.join(unknown)}, which nothing provides")
    return tuple(values[name] for name in module.ARGUMENTS)
