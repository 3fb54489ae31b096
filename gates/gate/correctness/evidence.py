"""What the correctness runs left, checked line by line and made into one frozen record.

The lines come from a process that ran a kernel, so nothing in them is believed before it is checked:
each must be strict JSON, carry the nonce of its job, and be about a case that was asked for, once.
A case without such a line gets the reason instead: crash, time limit, or missing.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.core.records import from_json
from gates.gate.correctness.error_map import ErrorMap
from gates.task.problem import DEFAULT_INPUTS

SCHEMA_VERSION = 1
ROLES = ("headline", "odd", "extra", "edge", "family", "fresh")
UNJUDGED = ("undefined", "declined")  # inputs or sizes of the engine's own that the problem or the kernel has no word for
STATUSES = ("ok", "launch_error", "crash", "timeout", "no_memory", "too_large", "problem_error", "bad_output", "missing", *UNJUDGED)


@dataclass(frozen=True)
class NullErrors:
    """Errors of a given answer:

    ``zeros``, the reference's ``mean``, its ``rows_shifted``, one of the problem's; or the reference ``rounded``.
    """

    kind: str
    max_abs_err: float | None
    mean_abs_err: float | None
    bad_pct: float | None
    max_err_over_bound: float | None = None


@dataclass(frozen=True)
class OutputErrors:
    """Errors of one output tensor; None where no element is finite, no ``bad_atol`` was given, or the problem has no bound.

    ``max_err_over_bound`` is the largest error over its element's bound; ``bound_index`` says where, ``bound_error`` and
    ``bound_at`` what the two are there.
    """

    name: str
    dtype: str
    elements: int
    nonfinite: int
    max_abs_err: float | None
    mean_abs_err: float | None
    bad_pct: float | None
    worst_index: tuple[int, ...]
    worst_expected: float | str | None
    worst_got: float | str | None
    reference_max_abs: float
    reference_mean_abs: float
    unit_roundoff: float
    nulls: tuple[NullErrors, ...] = ()
    max_err_over_bound: float | None = None
    bound_index: tuple[int, ...] = ()
    bound_error: float | None = None
    bound_at: float | None = None
    error_map: ErrorMap | None = None  # where it breaks a limit, or differs between calls
    reference_dtype: str = ""  # what the reference is given in; runs of before do not have it
    honest_err: float | None = None  # largest honest error, where the bound comes from it
    max_err_over_rule: float | None = None  # the largest error over a tolerance of others, which judges nothing
    rule_over_bound: float | None = None  # how many times as wide as the bound that tolerance is, over all elements
    best: NullErrors | None = None  # of the exact result rounded to the output's format: no kernel can promise better


@dataclass(frozen=True)
class Launch:
    """A kernel launch that the emulator saw; empty ``error`` if it was valid."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    dynamic_smem_bytes: int
    static_smem_bytes: int
    opt_in_smem_bytes: int
    error: str = ""
    max_threads: int | None = None  # of the kernel's __launch_bounds__; 0: it has none; None: not recorded
    function: str = ""  # its signature with the template's arguments, as g++ writes it; empty where not recorded


@dataclass(frozen=True)
class EmulatorFinding:
    """Something that the emulator objects to, whatever the numbers say."""

    kind: str
    kernel: str
    where: str
    message: str


@dataclass(frozen=True)
class Case:
    """One shape, seed and kind of inputs. ``role`` is one of ROLES; figures exist only with status ``ok``."""

    shape: str
    seed: int
    role: str
    status: str
    message: str
    wall_s: float | None = None
    inputs_sha256: str = ""
    output_sha256: str = ""
    reference_sha256: str = ""
    orders: tuple[str, ...] = ()
    launches: tuple[Launch, ...] = ()
    launch_count: int = 0
    guards: tuple[str, ...] = ()
    mutated: tuple[str, ...] = ()
    differences: int = 0
    first_difference: str = ""
    findings: tuple[EmulatorFinding, ...] = ()
    unwritten: Mapping[str, int] = dataclasses.field(default_factory=dict)
    outputs: tuple[OutputErrors, ...] = ()
    end_to_end: tuple[OutputErrors, ...] = ()
    silent_inputs: tuple[str, ...] = ()
    nudged: tuple[OutputErrors, ...] = ()  # of one more launch, on inputs with a few elements exchanged
    inputs: str = DEFAULT_INPUTS  # or the name of an input family of the problem
    check: str = ""  # what the problem's own check says against the outputs
    default_stream: tuple[
        OutputErrors, ...
    ] = ()  # where the outputs are wrong: those of the same kernel on the default stream, if it is steady there
    rough_reference: str = ""  # what the reference computes in half precision; looked at in the first case
    limit_scale: float = 1.0  # how many times the absolute limits hold, for inputs that the engine made; see ``widened``
    limit_floor: float = 0.0  # what an honest evaluation is off by on ordinary inputs
    undefined: Mapping[str, int] = dataclasses.field(default_factory=dict)  # elements of each output without an answer, left out
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)  # of the shape; earlier runs do not have them

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status {self.status!r} is not one of {', '.join(STATUSES)}")
        if (self.status == "ok") != bool(self.outputs):
            raise ValueError("a case has error figures exactly if its status is ok")

    @property
    def empty(self) -> bool:
        """Return whether the case ran and has no element to compare."""
        return self.status == "ok" and not any(output.elements for output in self.outputs)

    @property
    def where(self) -> str:
        """The case in a few words: ``mission seed 2``, ``tail seed 0 (odd)``, ``b1h2s130 seed 0 inputs zeros``."""
        if self.inputs != DEFAULT_INPUTS:
            return f"{self.shape} seed {self.seed} inputs {self.inputs}"
        return f"{self.shape} seed {self.seed}" + ("" if self.role == "headline" else f" ({self.role})")

    @property
    def key(self) -> tuple[str, int, str]:
        """What tells it from every other case of a run."""
        return self.shape, self.seed, self.inputs


@dataclass(frozen=True)
class CorrectnessEvidence:
    """All cases of a candidate and, where it ran, of its baseline. ``asked`` is the number of cases that "n/n" counts."""

    schema_version: int
    device: str
    candidate: str
    asked: int
    extra_seeds: tuple[int, ...]
    bad_atol: float | None
    end_to_end_bad_atol: float | None
    cases: tuple[Case, ...]
    baseline: str | None
    baseline_cases: tuple[Case, ...]
    refused: tuple[str, ...]  # result lines that were not believed, and why
    processes: tuple[str, ...]  # how each runner process ended
    replay: bool = False  # the user named the inputs: every case was asked for and counts, in whatever role
    runner: str = ""  # how the task's runner is started, up to the options that name a case
    default_launches: tuple[str, ...] = ()  # launches in the sources that name no stream: file:line and text
    limits_at: Mapping[str, str] = dataclasses.field(default_factory=dict)  # limit -> its file and line
    planned: Mapping[str, int] | None = None  # cases of the candidate by role; the first runs do not have it
    build: str = ""  # the identity of the build that was judged; earlier runs do not name it
    baseline_build: str = ""  # and of the baseline's
    excerpts: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)  # place of a finding -> lines of source there

    @property
    def emulated(self) -> bool:
        """Whether the kernel ran on the CPU emulator (and not as a Python function on the CPU: device "cpu")."""
        return self.device == "emulator"


def parse(raw: Mapping[str, Any]) -> CorrectnessEvidence:
    """The evidence in what ``gates.gate.correctness.collect.run_correctness`` returned."""
    refused: list[str] = []
    processes: list[str] = []
    cases = _side(raw["candidate"], refused, processes)
    known = {case.key for case in cases}
    for asked in raw["asked"]:  # whatever the runner's own plan said, these were asked for
        case = Case(**_identity(asked), status="missing", message="not in the runner's plan")
        if case.key not in known:
            cases.append(case)
    baseline, replay = raw["baseline"], bool(raw.get("replay"))
    return CorrectnessEvidence(
        SCHEMA_VERSION,
        raw["device"],
        raw["candidate"]["name"],
        sum(replay or asked["role"] == "headline" for asked in raw["asked"]),
        tuple(raw["extra_seeds"]),
        raw["bad_atol"],
        raw["end_to_end_bad_atol"],
        tuple(cases),
        baseline["name"] if baseline else None,
        tuple(_side(baseline, refused, processes)) if baseline else (),
        tuple(refused),
        tuple(processes),
        replay,
        raw.get("runner", ""),
        tuple(raw.get("default_launches", ())),
        raw.get("limits_at", {}),
        dict(Counter(case.role for case in cases)),
    )


def _side(side: Mapping[str, Any], refused: list[str], processes: list[str]) -> list[Case]:
    results: dict[tuple[str, int, str], Case] = {}
    for number, job in enumerate(side["jobs"], start=1):
        name = f"{side['name']} process {number}"
        processes.append(f"{name}: {job['cause']}{_confined(job)}")
        for case in _job(job, name, refused):
            results.setdefault(case.key, case)
    last = side["jobs"][-1] if side["jobs"] else None
    status, message = _absent(last)
    absent = [Case(**_identity(case), status=status, message=message) for case in side["cases"]]
    return [results.get(case.key, case) for case in absent]


def _identity(planned: Mapping[str, Any]) -> dict[str, Any]:
    """What a planned case is, as fields of its record."""
    return {"inputs": DEFAULT_INPUTS, **{key: planned[key] for key in ("shape", "seed", "role", "inputs", "sizes") if key in planned}}


def _job(job: Mapping[str, Any], name: str, refused: list[str]) -> list[Case]:
    """The cases that a process finished, and the one it died in."""
    asked, found, phases, done = job["asked"], {}, {}, False
    for number, text in enumerate(job["lines"], start=1):
        try:
            line = jsonio.loads(text, f"{name}, result line {number}")
            if not isinstance(line, dict) or line.get("nonce") != job["nonce"]:
                raise GatesError("does not carry this job's nonce")
            if done:
                raise GatesError("comes after the last line")
            kind = line.get("type")
            if kind == "done":
                done = True
            elif kind in ("phase", "case"):
                index = line.get("index")
                if type(index) is not int or not 0 <= index < len(asked):
                    raise GatesError("is about a case that was not asked for")
                if kind == "phase":
                    phases[index] = str(line.get("phase"))
                elif index in found:
                    raise GatesError("is a second result of one case")
                else:
                    found[index] = from_json(Case, {**line["result"], **_identity(asked[index])}, f"case {index}")
            elif kind not in ("header", "confined"):
                raise GatesError(f"is of an unknown type {kind!r}")
        except (GatesError, KeyError, TypeError) as error:
            if number < len(job["lines"]) or done or job["returncode"] == 0:
                refused.append(f"{name}, result line {number}: {error}")
    for index, phase in phases.items():
        if index not in found:
            found[index] = from_json(Case, {**_identity(asked[index]), **_death(job, phase)}, f"case {index}")
    return [found[index] for index in sorted(found)]


def _confined(job: Mapping[str, Any]) -> str:
    """What was taken away from a function that ran in an isolated process; empty for a C launcher."""
    for text in job["lines"]:
        with contextlib.suppress(GatesError, AttributeError, TypeError):
            line = jsonio.loads(text, "result line")
            if line.get("type") == "confined" and line.get("nonce") == job["nonce"]:
                return "; its kernel ran isolated: " + ", ".join(f"{what} {how}" for what, how in line["held"].items())
    return ""


def _death(job: Mapping[str, Any], phase: str) -> dict[str, str]:
    """Status and message of the case in which a process ended."""
    during = {"inputs": "making the inputs", "kernel": "running the kernel", "reference": "computing the reference"}
    message = f"{job['cause']} while {during.get(phase, phase)}"
    if job["timed_out"]:
        return {"status": "timeout", "message": message}
    if job["cause"] == "killed by SIGKILL" and phase in ("inputs", "reference"):
        return {"status": "no_memory", "message": f"{message}: the system ran out of memory"}
    if job["returncode"] == 0:
        return {"status": "missing", "message": f"the process ended without a result while {during.get(phase, phase)}"}
    return {"status": "crash", "message": message}


def _absent(last: Mapping[str, Any] | None) -> tuple[str, str]:
    """Status and message of a case that no process came to."""
    if last is None:
        return "missing", "no process was started"
    if last["timed_out"]:
        return "missing", "not tried: other cases reached the time limit"
    if last["returncode"] == 0:
        return "missing", "the runner ended with exit 0 and without a result"
    tail = last["output_tail"].strip().splitlines()
    return "crash", f"{last['cause']} before the case began" + (f": {tail[-1][:200]}" if tail else "")
