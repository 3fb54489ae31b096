"""What a run measured, as single facts, each with the file and field that it stands in.

A fact is read at the very path that it names, or computed from facts that are. The path is one that ``jq`` takes
(``sides.candidate.kernels[0].counters[8].value``), so anyone can look it up. What is not there has a reason instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gates.core import jsonio
from gates.gate.registry import GATES

_STEP = re.compile(r'\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|([^.\[\]]+)')
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def member(name: str) -> str:
    """The step of a path to the member ``name``, quoted where it is no plain word."""
    return f".{name}" if _PLAIN.fullmatch(name) else f"[{json.dumps(name)}]"


@dataclass(frozen=True)
class Fact:
    """One statement: ``value`` in ``unit``, and its sources (``file: path``); None has ``missing``, the reason."""

    key: str
    what: str
    value: float | int | str | None
    unit: str = ""
    sources: tuple[str, ...] = ()
    missing: str = ""

    def __post_init__(self) -> None:
        if (self.value is None) != bool(self.missing) or not (self.sources or self.missing):
            raise ValueError(f"fact {self.key}: a value has a source, and what has none a reason")


class Evidence:
    """The JSON files of a run directory, read once each."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._files: dict[str, Any] = {}

    def at(self, file: str, path: str = "") -> Any:
        """The value at ``path`` of ``file``; None where the file or the path is not there."""
        if file not in self._files:
            self._files[file] = jsonio.read(self._run / file) if (self._run / file).is_file() else None
        found = self._files[file]
        for index, quoted, plain in _STEP.findall(path):
            if index:
                found = found[int(index)] if isinstance(found, list) and int(index) < len(found) else None
            else:
                found = found.get(json.loads(quoted) if quoted else plain) if isinstance(found, dict) else None
        return found

    def index(self, file: str, path: str, **wanted: Any) -> int | None:
        """Where in the list at ``path`` the first object lies whose fields have these values."""
        for index, item in enumerate(self.at(file, path) or ()):
            if all(item.get(name) == value for name, value in wanted.items()):
                return index
        return None

    def gate(self, gate: str) -> str:
        """Where in verdict.json the gate's verdict stands."""
        return f"gates[{self.index('verdict.json', 'gates', gate=gate)}]"

    def without(self, file: str) -> str:
        """Why a gate's file does not hold what was looked for, in the gate's own words where it did not pass."""
        gate = file.removesuffix(".json")
        if gate in GATES:
            result = self.at("verdict.json", self.gate(gate))
            if (
                result and result["status"] != "pass" and not (result["status"] == "not_applicable" and self.at(file))
            ):  # such a gate may have measured
                return f"{gate} {result['status'].replace('_', ' ')}: {result['sentence']}"
        return f"not in {file}"


class Facts(dict[str, Fact]):
    """Facts by key, in the order in which they were found."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__()
        self.evidence = evidence

    def read(
        self,
        key: str,
        what: str,
        unit: str,
        file: str,
        path: str | None,
        shown: Callable[[Any], Any] = lambda value: value,
        *,
        comes_from: str = "",
    ) -> Fact:
        """Add the fact at ``path`` of ``file``; ``path`` is None where what it should lie in was not found.

        ``shown`` turns what stands there into the value; ``comes_from`` is the file to ask why nothing is there, if another.
        """
        value = self.evidence.at(file, path) if path is not None else None
        if value is None:
            self[key] = Fact(key, what, None, unit, missing=self.evidence.without(comes_from or file))
        else:
            self[key] = Fact(key, what, shown(value), unit, (f"{file}: {path}",))
        return self[key]

    def derive(self, key: str, what: str, unit: str, rule: Callable[..., float | int | str | None], *keys: str) -> Fact:
        """Add a fact computed from others; where one of them has no value, neither has this."""
        parts = [self[key] for key in keys]
        absent = next((part for part in parts if part.value is None), None)
        value = rule(*(part.value for part in parts)) if absent is None else None
        if value is None:
            reason = absent.missing if absent is not None else f"does not follow from {', '.join(part.what for part in parts)}"
            self[key] = Fact(key, what, None, unit, missing=reason)
        else:
            self[key] = Fact(key, what, value, unit, tuple(dict.fromkeys(source for part in parts for source in part.sources)))
        return self[key]

    def number(self, key: str) -> float | None:
        """The value of a fact that is a number; None where it is missing."""
        value = self[key].value if key in self else None
        return float(value) if isinstance(value, (int, float)) else None
