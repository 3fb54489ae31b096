"""Reason codes: the stable name of each outcome, with its explanation beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Code(str):
    """A reason code, ``<gate>.<reason>``, that knows what it means, its usual causes and the next step.

    It is its own text: it compares, hashes and serialises as a string. A code that several gates share has no gate until ``of`` gives it
    one.
    """

    meaning: str
    causes: str
    next_step: str

    def __new__(cls, text: str, meaning: str = "", *, causes: str = "", next_step: str = "") -> Code:
        code = super().__new__(cls, text)
        code.meaning, code.causes, code.next_step = meaning, causes, next_step
        return code

    @property
    def reason(self) -> str:
        """The code without its gate."""
        return self.rpartition(".")[2]

    @property
    def explanation(self) -> str:
        """Meaning, usual causes and next step, in this order."""
        return " ".join(filter(None, (self.meaning, self.causes, self.next_step)))

    def of(self, gate: str) -> Code:
        """The code of ``gate`` for the same reason."""
        return Code(f"{gate}.{self.reason}", self.meaning, causes=self.causes, next_step=self.next_step)


def codes_in(module: Mapping[str, Any]) -> dict[str, Code]:
    """The codes among a module's names (its ``globals()``), by their text, in the order of the module."""
    return {value: value for value in module.values() if isinstance(value, Code)}
