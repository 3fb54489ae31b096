"""Judge a run again from its stored evidence, under its recorded limits or under changed ones. Nothing is written.

What was counted while the run went on can't be counted again: ``bad_atol`` decided which elements
were bad, so it can't be changed here. All other limits are compared with stored figures.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gates.core import yamlio
from gates.core.errors import EXIT_USAGE, GatesError
from gates.core.records import Decision, GateResult
from gates.core.schema import in_words
from gates.evidence.judging import decision_of, rejudge
from gates.evidence.run_directory import RunInfo, Verdict, read_record
from gates.gate.decision import EXIT_CODES
from gates.gate.registry import GATES, known_names, task_schema
from gates.task.load import nearest
from gates.verify.run import require_sound_files, verify_run

_COUNTED = (("correctness", "bad_atol"), ("correctness", "end_to_end", "bad_atol"))

Limits = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Change:
    """One limit that was set from outside; ``recorded`` is None where the run had no such limit."""

    name: str
    recorded: Any
    value: Any


@dataclass(frozen=True)
class Judgement:
    """Each gate's recorded verdict beside the one from its evidence now, and the decision that follows."""

    task: str
    changes: tuple[Change, ...]
    gates: tuple[tuple[GateResult, GateResult], ...]  # (recorded, now)
    recorded_decision: Decision
    decision: Decision
    reason: str
    problems: tuple[str, ...] = ()  # why the run is not sound, as ``gates verify`` says it: then nothing is decided by it

    @property
    def exit_code(self) -> int:
        """0 merge, 1 reject, 3 hold; 2 where the run is not sound."""
        return EXIT_USAGE if self.problems else EXIT_CODES[self.decision]


def judge_again(run: Path, settings: Iterable[str] = ()) -> Judgement:
    """Every gate of ``run`` judged from its evidence, with ``settings`` (``GATE.KEY=VALUE``) for its limits.

    A gate that left no evidence keeps its recorded verdict. Raises GatesError for a setting that
    the schema of task.yaml does not know or allow, and for evidence that was changed after the run. A run that is
    not sound otherwise is judged, so that what differs is seen, and its ``problems`` are told.
    """
    require_sound_files(run)
    info: RunInfo = read_record(RunInfo, run, "run.json")
    verdict: Verdict = read_record(Verdict, run, "verdict.json")
    limits, changes = changed_limits(info.task.limits, settings)
    asked = dataclasses.replace(info, task=dataclasses.replace(info.task, limits=limits))
    gates = tuple((recorded, rejudge(run, asked, recorded.gate) or recorded) for recorded in verdict.gates)
    decision, reason = decision_of(info, [now for _, now in gates])
    return Judgement(info.task.name, changes, gates, verdict.decision, decision, reason, tuple(verify_run(run)))


def changed_limits(recorded: Mapping[str, Mapping[str, Any]], settings: Iterable[str]) -> tuple[Limits, tuple[Change, ...]]:
    """The limits with ``settings`` in force, and what each changed."""
    schema = task_schema()
    limits: Limits = copy.deepcopy({gate: dict(values) for gate, values in recorded.items()})
    changes = []
    for setting in settings:
        name, equals, text = setting.partition("=")
        path = tuple(name.strip().split("."))
        if not equals or len(path) < 2 or not all(path):
            raise GatesError(f"--set {setting!r} is not GATE.KEY=VALUE", hint="e.g. --set performance.shapes.mission=20")
        _require_known(path, schema)
        before, value = _get(limits, path), _value(name, text)
        if path in _COUNTED and value != before:
            raise GatesError(
                f"--set {name}: the run counted its bad elements against {before}, which can't be done again from the evidence",
                hint="set it in task.yaml and run the stage again",
            )
        _set(limits, path, value)
        changes.append(Change(".".join(path), before, value))
    for gate in dict.fromkeys(change.name.split(".")[0] for change in changes):
        _require_valid(gate, limits[gate], schema)
    return limits, tuple(changes)


def _require_known(path: tuple[str, ...], schema: Mapping[str, Any]) -> None:
    node: Mapping[str, Any] = schema["properties"]["gates"]
    for depth, key in enumerate(path):
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        known, others = node.get("properties", {}), node.get("additionalProperties")
        if key in known:
            node = known[key]
        elif isinstance(others, dict):
            names = known_names().get((path[0], path[1]), ()) if depth == 2 else ()
            if names and key not in names:
                raise GatesError(f"--set {'.'.join(path)}: {'.'.join(path[:depth])} can't name {key!r}", hint=nearest(key, names))
            node = others
        elif depth == 0:
            raise GatesError(f"--set {'.'.join(path)}: there is no gate {key!r}", hint=nearest(key, GATES))
        else:
            within = ".".join(path[:depth])
            raise GatesError(f"--set {'.'.join(path)}: {within} has no limit {key!r}", hint=nearest(key, known))


def _value(name: str, text: str) -> Any:
    try:
        value = yamlio.value(text)
    except GatesError as error:
        raise GatesError(f"--set {name}: {error.what}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise GatesError(f"--set {name}: {text!r} is not a finite number")
    return value


def _get(limits: Limits, path: tuple[str, ...]) -> Any:
    node: Any = limits
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return copy.deepcopy(node)


def _set(limits: Limits, path: tuple[str, ...], value: Any) -> None:
    node: dict[str, Any] = limits
    for key in path[:-1]:
        node = node.setdefault(key, {})
    node[path[-1]] = value


def _require_valid(gate: str, limits: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    import jsonschema

    rules = {**schema["properties"]["gates"]["properties"][gate], "$defs": schema["$defs"]}
    for error in jsonschema.Draft202012Validator(rules).iter_errors(limits):
        name = ".".join((gate, *map(str, error.absolute_path)))
        raise GatesError(f"--set {name}: {in_words(error)}", hint="docs/guide/writing-a-task.md lists every limit with its type")
