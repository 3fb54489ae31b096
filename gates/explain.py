"""What a reason code or a gate means: read from the gates themselves."""

from __future__ import annotations

import importlib
import inspect

from gates.errors import GatesError
from gates.task import GATES, nearest

MODULES = (*GATES, "decision")


def explain(code: str) -> str:
    """The explanation of a code (``ptxas.spills``) or of a whole gate (``ptxas``) with its codes."""
    gate = code.split(".")[0]
    if gate not in MODULES:
        raise GatesError(f"no gate or reason code {code!r}", hint=nearest(code, [*MODULES, *all_codes()]))
    module = importlib.import_module(f"gates.judge.{gate}")
    if code == gate:
        codes = "\n".join(f"  {name}" for name in sorted(module.CODES))
        return f"{inspect.cleandoc(module.__doc__ or '')}\n\nreason codes:\n{codes}"
    if code not in module.CODES:
        raise GatesError(f"no reason code {code!r}", hint=nearest(code, module.CODES))
    return f"{code}\n{module.CODES[code]}"


def all_codes() -> dict[str, str]:
    """Every reason code of every gate with its explanation."""
    codes: dict[str, str] = {}
    for name in MODULES:
        codes.update(importlib.import_module(f"gates.judge.{name}").CODES)
    return codes
