"""Kernel Gates: build, judge and compare CUDA kernels stage by stage.

From Python: ``gates.run``, ``gates.load``, ``gates.decide``, ``gates.compare``, ``gates.evaluate``
(see ``gates.api`` and docs/guide/python.md).
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"
__all__ = ["Candidate", "Evaluation", "Evaluator", "GatesError", "Run", "Terms", "compare", "decide", "evaluate", "load", "run"]

_HOMES = {"Evaluator": "gates.evaluation.evaluator", "Terms": "gates.evaluation.terms"}  # the others are in gates.api


def __getattr__(name: str) -> Any:
    """The Python interface on first use, so that ``import gates`` costs nothing."""
    if name in __all__:
        return getattr(importlib.import_module(_HOMES.get(name, "gates.api")), name)
    raise AttributeError(f"module 'gates' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
