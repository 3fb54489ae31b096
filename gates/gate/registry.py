"""The gates, one row each, in the order in which a run judges them. Everything that lists gates reads this table.

Modules are named, not imported: a row costs nothing, and reading a task.yaml or a run loads no gate that it does not need.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gates.core.reason_code import Code
from gates.core.schema import FOLDER


@dataclass(frozen=True)
class Job:
    """A kind of job of a worker process: ``module`` has its ``execute``; ``kernel_process`` runs its kernels, in a process of its own."""

    module: str
    kernel_process: str = ""


@dataclass(frozen=True)
class Gate:
    """One gate; its modules are in the folder of its name. Objects are named as ``module:name``."""

    name: str
    record: str  # in the folder's evidence.py, the record of its evidence, <name>.json
    holds: str  # what the evidence file holds, in words
    kinds: tuple[str, ...]  # of the kinds of tasks, those that the cpu profile asks it for
    evaluated: str  # the stage of `gates evaluate` that judges by it; "" for none
    optional: bool = False  # a task has it only if its task.yaml names it
    of_kernels: bool = False  # it finds kernels by the names in ``kernels``
    of_binaries: bool = False  # it reads compiled code, one binary an ``arch``
    of_optimised_code: bool = False  # nvcc -G changes its figures beyond recognition: a debug build has no verdict on it
    beside: tuple[str, ...] = ()  # earlier gates: this one's work starts with the first of them for which ``ahead`` returns any
    prepares: bool = False  # its ``prepare`` starts processes before the kernel is built
    measured_anyway: bool = False  # a first rung has nothing to beat in it, and is measured and recorded all the same
    # key of its limits -> the table of names to use there, and what follows each
    names: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    unsaid: Mapping[str, str] = field(default_factory=dict)  # what a key of its limits means if task.yaml leaves it out
    against_baseline: tuple[str, ...] = ()  # keys of its limits that compare with the baseline
    minima: tuple[str, ...] = ()  # keys of its limits whose larger value is stricter; every other number is a maximum
    first_limits: str = ""  # limits to begin with, if it comes to no verdict without any
    context: str = ""  # in its folder, what else of the run its judge is given by name, if anything
    jobs: Mapping[str, Job] = field(default_factory=dict)  # kind -> what a worker process does for it
    no_terms: tuple[str, ...] = ()  # keys that are no terms: a stage's own gain, which another stage need not have
    former: tuple[str, ...] = ()  # keys of limits that decided nothing, which runs of earlier versions have
    terms: str = ""  # in its folder, what brings the limits of two stages into one form before they are compared, if anything

    @property
    def package(self) -> str:
        """The package of the gate's own modules."""
        return f"gates.gate.{self.name}"

    def collecting(self) -> Callable[..., Any]:
        """The function that runs what the gate needs and writes its evidence (``gates.gate.session`` says how)."""
        return self._own("step:collect")

    def preparing(self) -> Callable[..., Any]:
        """Return a function of the session. It returns what starts the gate's processes before the kernel is built, or None."""
        return self._own("step:prepare")

    def beginning(self) -> Callable[..., Any]:
        """The function of a session that gives what can be begun ahead of the gate's turn, or None."""
        return self._own("step:ahead")

    def judging(self) -> Callable[..., Any]:
        """The function that judges, a pure one of (evidence, limits, baseline)."""
        return self._own("judge:judge")

    def codes(self) -> Mapping[str, Code]:
        """The gate's own reason codes, each with its explanation."""
        return self._own("codes:CODES")

    def context_of(self, run: Path, info: Any, evidence: Any) -> Mapping[str, Any]:
        """What else of the run the judge is given, by the names of its parameters."""
        return self._own(self.context)(run, info, evidence) if self.context else {}

    def terms_of(self, limits: Mapping[str, Any], others: Mapping[str, Any]) -> Mapping[str, Any]:
        """The limits in a form in which they can be compared with ``others``."""
        return self._own(self.terms)(limits, others) if self.terms else limits

    def own_limits(self, limits: Mapping[str, Any]) -> dict[str, Any]:
        """The limits that need no baseline."""
        return {key: limit for key, limit in limits.items() if key not in self.against_baseline}

    def planted(self) -> Iterator[Any]:
        """What the gate says to planted faults and to sound evidence (``gates.gate.plant``)."""
        return self._own("planted:planted")()

    def contradictions(self, evidence: Any) -> Iterator[str]:
        """What does not add up in a record of the gate's evidence, whatever its verdict is."""
        return self._own("soundness:contradictions")(evidence)

    def departures(self, info: Any, side: Any, evidence: Any, others: Mapping[str, Any]) -> Iterator[str]:
        """What the evidence of a run's ``side`` has otherwise than its run.json; ``others``: the side's evidence by gate."""
        return self._own("soundness:departures")(info, side, evidence, others)

    def evidence(self) -> type:
        """The record of the gate's evidence."""
        return self._own(f"evidence:{self.record}")

    def _own(self, name: str) -> Any:
        return _object(f"{self.package}.{name}")

    def limits(self) -> dict[str, Any]:
        """The JSON Schema of the gate's section in task.yaml."""
        return json.loads((Path(__file__).parent / self.name / "limits.schema.json").read_text(encoding="utf-8"))


ROWS = {
    row.name: row
    for row in (
        Gate(
            "ptxas",
            "PtxasEvidence",
            "What the compiler says of each kernel's resources, and how the kernels were launched.",
            ("cuda", "torch-extension", "triton", "numba", "warp"),
            "static",
            of_kernels=True,
            of_binaries=True,
            of_optimised_code=True,
        ),
        Gate(
            "sass",
            "SassEvidence",
            "Machine instructions of each kernel.",
            ("cuda", "torch-extension", "triton", "numba", "warp"),
            "static",
            of_kernels=True,
            of_binaries=True,
            of_optimised_code=True,
            beside=("ptxas",),
            first_limits="{forbid: [local_memory]}",
            minima=("require",),
            names=dict.fromkeys(("require", "forbid"), ("gates.gate.sass.evidence:CLASSES", "")),
        ),
        Gate(
            "size",
            "SizeEvidence",
            "Bytes of the compiled code.",
            ("cuda", "torch-extension", "triton", "numba", "warp"),
            "static",
            optional=True,
            against_baseline=("max_growth_pct",),
            of_binaries=True,
            of_optimised_code=True,
        ),
        Gate(
            "correctness",
            "CorrectnessEvidence",
            "Errors and traces of every case.",
            ("cuda", "triton", "numba", "warp", "python"),
            "numbers",
            beside=("ptxas",),
            prepares=True,
            against_baseline=("match_baseline",),
            jobs={
                "correctness": Job("gates.gate.correctness.collect", kernel_process="gates.launch.answering"),
                "magnitude": Job("gates.gate.correctness.output_scale"),
            },
        ),
        Gate("sanitizer", "SanitizerEvidence", "What the memory checkers reported.", ("cuda",), "memory", beside=("ptxas", "correctness")),
        Gate(
            "performance",
            "PerformanceEvidence",
            "Every sample, and all that is needed to judge speed again.",
            (),
            "speed",
            of_optimised_code=True,
            measured_anyway=True,
            first_limits="{shape: mission, min_speedup_pct: 15}",
            unsaid={"cache": "cold"},
            context="context:of_run",
            jobs={
                "timing": Job("gates.gate.performance.collect", kernel_process="gates.gate.performance.runner.hands"),
                "timing_alone": Job("gates.gate.performance.runner.alone", kernel_process="gates.gate.performance.runner.hands"),
            },
            minima=("min_speedup_pct", "shapes", "min_limit_pct"),
            former=("also",),
            terms="thresholds:comparable",
        ),
        Gate(
            "ncu",
            "NcuEvidence",
            "Hardware counters; ncu's own report is profile.ncu-rep.",
            (),
            "",
            first_limits="{max: {local_loads: 0}}",
            of_kernels=True,
            of_optimised_code=True,
            beside=("performance",),
            measured_anyway=True,
            against_baseline=("rises", "steady"),
            minima=("min",),
            context="context:of_run",
            no_terms=("rises",),
            names={
                **dict.fromkeys(("rises", "min", "max"), ("gates.hardware.ncu_metrics:METRICS", "")),
                "steady": ("gates.hardware.ncu_metrics:METRICS", "_pct"),
            },
        ),
    )
}
GATES = tuple(ROWS)
ALWAYS = "correctness"  # no task can declare it inapplicable
FIRST_GATES = ("ptxas", "sass", "correctness", "sanitizer", "performance", "ncu")  # that every run has, whatever version wrote it


def gates_of(named: Collection[str]) -> tuple[str, ...]:
    """The gates of a task whose task.yaml names those: all, but of the optional ones only these."""
    return tuple(row.name for row in ROWS.values() if not row.optional or row.name in named)


def cpu_gates(kind: str, gates: Collection[str]) -> tuple[str, ...]:
    """Those of a task's ``gates`` that the cpu profile asks it for."""
    return tuple(row.name for row in ROWS.values() if kind in row.kinds and row.name in gates)


def known_names() -> dict[tuple[str, str], tuple[str, ...]]:
    """What may be named under gates.<gate>.<key>: instruction classes and counters, by (gate, key)."""
    return {
        (row.name, key): tuple(f"{name}{suffix}" for name in _object(table))
        for row in ROWS.values()
        for key, (table, suffix) in row.names.items()
    }


@cache
def task_schema() -> Mapping[str, Any]:
    """The JSON Schema of task.yaml, with each gate's limits."""
    schema = json.loads((FOLDER / "task.schema.json").read_text(encoding="utf-8"))
    properties = schema["properties"]
    properties["gates"]["properties"] = {row.name: row.limits() for row in ROWS.values()}
    reason = {"type": "string", "minLength": 1}
    properties["not_applicable"]["patternProperties"] = {f"^({'|'.join(gate for gate in GATES if gate != ALWAYS)})$": reason}
    return schema


def _object(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
