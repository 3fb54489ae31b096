"""Why Triton refused a kernel, and at which line of the task: told from a Triton that does not work on this machine.

Triton counts lines from the ``def`` of the function that it compiles, and wraps an error in a called function in one of its caller.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PASSES = "PassManager::run failed"  # what a pass of the compiler raises; its reason goes to stderr


def refused(error: Exception, function: Any, folder: Path) -> dict[str, Any] | None:
    """{"file", "line", "kind", "message"} of an error in compiling ``function``; None if it says nothing about the kernel.

    The place is the innermost one in ``folder``, the task's; without any it is the kernel's own ``def``.
    """
    from triton.errors import TritonError

    if not isinstance(error, TritonError) and _PASSES not in str(error):
        return None
    chain = list(_chain(error))
    places = [place for one in chain if (place := _place(one, function)) and Path(place[0]).is_relative_to(folder)]
    file, line = places[-1] if places else _definition(function)
    said = [text for one in chain if (text := str(getattr(one, "error_message", None) or ("" if hasattr(one, "node") else one)).strip())]
    return {"file": Path(file).name, "line": line, "kind": type(chain[-1]).__name__, "message": (said or [str(error)])[-1]}


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and its causes, the outermost first."""
    while error is not None:
        yield error
        error = error.__cause__


def _place(error: BaseException, function: Any) -> tuple[str, int] | None:
    """(file, line) of an error that Triton found at a node of a function's source."""
    source, line = getattr(error, "src", None), getattr(getattr(error, "node", None), "lineno", None)
    owner = next((one for one in _functions(function) if getattr(one, "src", None) == source), None)
    if owner is None or not isinstance(line, int):
        return None
    file, first = _definition(owner)
    return file, first + line - 1


def _functions(function: Any) -> Iterator[Any]:
    """``function``, and every other compiled function that a loaded module names, without what is wrapped around it (autotuning,
    heuristics).
    """
    from triton.runtime.jit import JITFunction

    yield function
    for module in list(sys.modules.values()):
        for value in list(getattr(module, "__dict__", {}).values()):
            while str(type(value).__module__).startswith("triton.runtime") and not issubclass(type(value), JITFunction):
                value = getattr(value, "fn", None)
            if issubclass(type(value), JITFunction):  # isinstance would ask the value, and some warn
                yield value


def _definition(function: Any) -> tuple[str, int]:
    """The file and line of a compiled function's ``def``."""
    lines = list(getattr(function, "raw_src", ()))
    offset = next((index for index, line in enumerate(lines) if line.strip().startswith("def ")), 0)
    return function.fn.__code__.co_filename, function.starting_line_number + offset
