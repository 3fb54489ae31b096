"""What a problem offers beside its reference, tried once on a small shape before anything is built.

Its inputs and its reference can be made, one seed gives the same inputs each time, and its work names known units. Its ARGUMENTS,
make_outputs, error bound, null answers, known mistakes and names of axes must fit its outputs; else a wrong one would be told late, as a
fault of a case, or never: a mistake of a wrong shape is just not compared. An error that these last raise is left to the cases.
"""

from __future__ import annotations

import contextlib
import math
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from gates.core.errors import GatesError
from gates.hardware.peaks import UNITS
from gates.task import problem as problems
from gates.task.tensor_digest import flat_bytes


def check_answers(problem: Any, shapes: Sequence[str], arguments: Sequence[str] = ()) -> None:
    """Try the smallest of ``shapes``, and the smallest of these and the problem's ODD_SHAPES, which may be too small to show a wrong axis.

    GatesError names the problem's file and the name that is wrong. ``arguments``: those that task.yaml calls the kernel with, if it names
    any.
    """
    chosen = [problems.smallest(problem, names) for names in (shapes, [*shapes, *getattr(problem, "ODD_SHAPES", ())]) if names]
    _check_seeded(problem, problem.SHAPES[chosen[0]])
    for shape in (problem.SHAPES[name] for name in dict.fromkeys(chosen)):
        if text := _wrong(problem, shape, arguments):
            raise GatesError(f"{problem.__file__}: {text}", hint="see docs/guide/writing-a-task.md for what a problem module holds")


def _check_seeded(problem: Any, shape: Mapping[str, int]) -> None:
    """Raise GatesError if ``make_inputs`` gives other values when it is called again with the same seed."""
    with _raising(problem, "make_inputs"):
        first, again = (problem.make_inputs(shape, 0, "cpu") for _ in range(2))
    if not isinstance(first, Mapping):
        return  # the reference fails with it
    for name, value in first.items():
        if not _same(value, again.get(name)):
            code = getattr(problem.make_inputs, "__code__", None)
            where = f"{code.co_filename}:{code.co_firstlineno}" if code else str(problem.__file__)
            raise GatesError(
                f"{where}: make_inputs gives other values for {name} when it is called again with seed 0",
                hint="draw all inputs from one generator: `generator = torch.Generator().manual_seed(seed)`, and then "
                "`torch.randn(…, generator=generator)`",
            )


def _same(one: Any, other: Any) -> bool:
    """Return whether two inputs have the same bits, so that NaN is equal to itself. Only tensors and numbers are compared."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return (one.dtype, one.shape) == (other.dtype, other.shape) and torch.equal(flat_bytes(one), flat_bytes(other))
    return not isinstance(one, (int, float)) or one == other or one != one


def _wrong(problem: Any, shape: Mapping[str, int], arguments: Sequence[str]) -> str:
    with _raising(problem, "make_inputs"):
        inputs = problem.make_inputs(shape, 0, "cpu")
    with _raising(problem, "reference"):
        outputs = problem.reference(inputs, shape)
    text = (
        fault("reference", outputs)
        or _wrong_room(problem, shape, outputs)
        or _wrong_axes(getattr(problem, "AXES", {}), outputs)
        or _wrong_work(problem, shape)
        or _wrong_answers(problem, inputs, shape, outputs)
    )
    if not text and hasattr(problem, "ARGUMENTS"):
        given = outputs if hasattr(problem, "make_outputs") or not arguments else {}
        problems.call_arguments(problem, inputs, given, shape, arguments)  # raises for a name that nothing provides
    return text


def fault(what: str, given: Any, outputs: Mapping[str, Any] | None = None) -> str:
    """What is wrong with ``given`` as a mapping of output names to tensors like ``outputs``; empty where nothing is."""
    if not isinstance(given, Mapping):
        return f"{what} gives {type(given).__name__}, not a mapping of output names to tensors"
    for name, value in given.items():
        if outputs is not None and name not in outputs:
            return f"{what} is about {name}, which the reference does not give"
        if not isinstance(value, torch.Tensor):
            return f"{what} gives {type(value).__name__} for {name}, not a tensor"
        if outputs is not None and value.shape != outputs[name].shape:
            return f"{what} gives {name} the shape {list(value.shape)}, the reference {list(outputs[name].shape)}"
    return ""


def null_fault(nulls: Any, outputs: Mapping[str, Any]) -> str:
    """What is wrong with what ``null_outputs`` gave; empty where nothing is."""
    if text := _names_fault("null_outputs", nulls, "answers"):
        return text
    return next((text for kind, answer in nulls.items() if (text := fault(f"null_outputs {kind!r}", answer, outputs))), "")


def _names_fault(what: str, given: Any, of: str) -> str:
    if not isinstance(given, Mapping):
        return f"{what} gives {type(given).__name__}, not a mapping of names to {of}"
    odd = [name for name in given if not isinstance(name, str)]
    return f"{what} names an answer {odd[0]!r}: names are text" if odd else ""


@contextlib.contextmanager
def _raising(problem: Any, name: str) -> Iterator[None]:
    """GatesError with the problem's own line for whatever one of its functions raises."""
    try:
        yield
    except GatesError:
        raise
    except (Exception, SystemExit) as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == problem.__file__]
        where = f"{problem.__file__}:{frames[-1].lineno}" if frames else str(problem.__file__)
        what = f"{type(error).__name__}: {str(error).strip().splitlines()[0]}" if str(error).strip() else type(error).__name__
        raise GatesError(
            f"{where}: {name} raises {what}", hint="the problem must run on the CPU; see docs/guide/writing-a-task.md"
        ) from None


def _wrong_room(problem: Any, shape: Mapping[str, int], outputs: Mapping[str, Any]) -> str:
    """What is wrong with the outputs that a kernel is given to write, beside what the reference gives."""
    made = problems.outputs_of(problem, shape) if hasattr(problem, "make_outputs") else {}
    for name, value in made.items():
        if name not in outputs:
            return f"make_outputs makes {name}, which the reference does not give"
        if value.shape != outputs[name].shape:
            return f"make_outputs makes {name} of the shape {list(value.shape)}, the reference gives {list(outputs[name].shape)}"
    return ""


def _wrong_axes(axes: Mapping[str, Sequence[str]], outputs: Mapping[str, Any]) -> str:
    for name, names in axes.items():
        if name not in outputs:
            return f"AXES is about {name}, which the reference does not give"
        if outputs[name].dim() and len(names) != outputs[name].dim():
            return f"AXES[{name!r}] names {len(names)} axes, the output has the shape {list(outputs[name].shape)}"
    return ""


def _wrong_work(problem: Any, shape: Mapping[str, int]) -> str:
    if not hasattr(problem, "work"):
        return ""
    with _raising(problem, "work"):
        least = problem.work(shape)
    if not isinstance(least, Mapping):
        return f"work gives {type(least).__name__}, not a mapping of units to numbers"
    known = (*UNITS, "flops", "bytes")
    for name, value in least.items():
        if name not in known:
            return f"work names {name!r}, which is not one of {', '.join(known)}"
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            return f"work gives {value!r} for {name}, not a number of at least 0"
    return ""


def _wrong_answers(problem: Any, inputs: Mapping[str, Any], shape: Mapping[str, int], outputs: Mapping[str, Any]) -> str:
    checks: dict[str, Callable[[Any], str]] = {
        "error_bound": lambda given: fault("error_bound", given, outputs),
        "null_outputs": lambda given: null_fault(given, outputs),
        "mistakes": lambda given: _names_fault("mistakes", given, "functions") or _wrong_mistakes(given, outputs),
    }
    for name, check in checks.items():
        if hasattr(problem, name) and (made := _made(partial(_alone, getattr(problem, name), inputs, shape))) and (text := check(made[0])):
            return text
    return ""


def _alone(make: Callable[..., Any], *given: Any) -> list[Any]:
    return [make(*given)]


def _wrong_mistakes(mistakes: Mapping[str, Any], outputs: Mapping[str, Any]) -> str:
    for name, make in mistakes.items():
        if not callable(make):
            return f"mistakes[{name!r}] is {type(make).__name__}, not a function that gives the wrong outputs"
        if (made := _made(partial(_alone, make))) and (text := fault(f"mistakes[{name!r}]", made[0], outputs)):
            return text
    return ""


def _made(make: Callable[[], Any]) -> Any:
    """What ``make`` gives; None where it fails, such as a mistake that a small shape can't hold."""
    try:
        return make()
    except (Exception, SystemExit):
        return None
