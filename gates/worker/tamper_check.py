"""Whether a kernel's Python code has replaced functions of the process that times it.

A Python function is timed in the process that holds it, beside the clock. ``Functions`` remembers every function and
class of torch, of the clocks and of this package before the kernel's code is loaded; afterwards each must still be the
same object with the same code. That finds a timer or a comparison that was replaced and left so. It can't find code that puts things
back in time, or that goes at memory: what is and is not held is in docs/internals/sandbox.md.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch

_CLASSES = (torch.Tensor, torch.cuda.Event, torch.cuda.Stream, torch.cuda.CUDAGraph)
_MODULES = (torch, torch.cuda, torch.linalg, torch.nn.functional, time, statistics)
_BASES, _OF_CLASS = vars(type)["__mro__"].__get__, vars(type)["__dict__"].__get__  # what no metaclass changes
_REPLACED_BY_COMPILERS = ("torch.manual_seed",)  # by torch.compile's first use


class Functions:
    """The functions that a timing relies on, as they are now."""

    def __init__(self) -> None:
        self._known = [
            (owner, [(name, value, _code(value)) for name, value in _members(owner).items() if _counts(value)]) for owner in _owners()
        ]

    def replaced(self) -> list[str]:
        """Names of those that are another object now, or gone."""
        found = []
        for owner, known in self._known:
            now = _members(owner)
            found += [f"{_name(owner)}.{name}" for name, value, code in known if now.get(name) is not value or _code(value) is not code]
        return [name for name in found if name not in _REPLACED_BY_COMPILERS]


def _owners() -> Iterator[Any]:
    ours = [module for name, module in list(sys.modules.items()) if name.split(".")[0] == "gates" and isinstance(module, ModuleType)]
    yield from (*_CLASSES, *_MODULES, *ours)
    for module in ours:
        yield from (value for value in list(vars(module).values()) if isinstance(value, type) and value.__module__ == module.__name__)


def _members(owner: Any) -> dict[str, Any]:
    """What the owner has by name, of a class inherited ones too, read without running code of either."""
    if not isinstance(owner, type):
        return dict(object.__getattribute__(owner, "__dict__"))
    return {name: value for holder in reversed(_BASES(owner)) for name, value in _OF_CLASS(holder).items()}


def _counts(value: Any) -> bool:
    return callable(value) or isinstance(value, (property, classmethod, staticmethod))


def _code(value: Any) -> Any:
    """The code of a function written in Python; None of anything else."""
    return getattr(getattr(value, "__func__", getattr(value, "fget", value)), "__code__", None)


def _name(owner: Any) -> str:
    return owner.__name__ if isinstance(owner, ModuleType) else f"{owner.__module__}.{owner.__qualname__}"
