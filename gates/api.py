"""Gates from Python: run a task, load a run, decide and compare, with typed records and pandas frames.

    run = gates.run("stage2", profile="cpu")
    run.gates["correctness"].status, run.cases()

Nothing is printed. Every mistake in the input is a ``GatesError`` whose ``what`` says what is wrong and ``hint`` what to do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from gates.comparison.record import Comparison, Speed
from gates.comparison.within import speed_of
from gates.core.errors import GatesError
from gates.core.records import Decision, GateResult
from gates.evaluation.evaluate import evaluate_task
from gates.evaluation.overlay import Candidate
from gates.evaluation.record import STAGES, Evaluation
from gates.evaluation.terms import Terms
from gates.evidence.judging import load_evidence
from gates.evidence.run_directory import RunInfo, Verdict, read_record, resolve_run
from gates.gate.decision import exit_code
from gates.pipeline.run import Options, run_task
from gates.render.console import Progress, Silence, verdict_table
from gates.review.compare import compare_runs
from gates.review.decide import decide_run, decision_in
from gates.stats.samples import CANDIDATE
from gates.task.problem import MAX_SEED
from gates.verify.run import require_sound

if TYPE_CHECKING:
    import pandas

PROFILES = ("auto", "cpu", "full")


class Decided(NamedTuple):
    """A decision (``merge``, ``reject`` or ``hold``; it equals that text) and one sentence on why."""

    decision: Decision
    reason: str


@dataclass(frozen=True)
class Run:
    """A finished run: its directory, what ran, each gate's result, and the decision.

    ``gates`` maps each gate's name to its ``GateResult``: status, code, sentence, checks.
    """

    path: Path
    info: RunInfo
    gates: Mapping[str, GateResult]
    decision: Decision
    reason: str

    @property
    def task(self) -> str:
        """The name of the stage that was judged."""
        return self.info.task.name

    @property
    def exit_code(self) -> int:
        """That of ``gates run``: 0 every asked-for gate passed, 1 a gate failed, 3 one came to no verdict."""
        return exit_code(tuple(self.gates.values()), self.info.asked_gates)

    @property
    def passed(self) -> bool:
        """Whether every gate that was asked for passed; without a device that is no ``merge`` yet."""
        return self.exit_code == 0

    @cached_property
    def evidence(self) -> Mapping[str, Any]:
        """Gate -> the record of its evidence (``gates.parse``), for each gate that left a file."""
        return load_evidence(self.path)

    @property
    def p50_us(self) -> float | None:
        """Median kernel time in us, in the cache mode that was gated; None where nothing was timed."""
        performance = self.evidence.get("performance")
        figures = performance.figures.get(performance.gated_mode, {}).get(CANDIDATE) if performance else None
        return figures.p50_us if figures else None

    @property
    def speed(self) -> Speed | None:
        """Speed-up over the baseline with its interval, in percent; None where no pairs were timed."""
        return speed_of(self.evidence)

    def samples(self) -> pandas.DataFrame:
        """Every timing sample, one a row: see ``gates.review.frames.samples``."""
        from gates.review.frames import samples

        return samples(self.evidence.get("performance"))

    def cases(self) -> pandas.DataFrame:
        """Every correctness case and output, one a row: see ``gates.review.frames.cases``."""
        from gates.review.frames import cases

        return cases(self.evidence.get("correctness"))

    def report(self) -> str:
        """The gate table, failing checks with their hints, and the decision, as ``gates run`` prints them."""
        return verdict_table(self.info, _verdict(self.path)).strip()


AnyRun: TypeAlias = "Run | Path | str"


def run(
    task: str | Path,
    *,
    profile: str = "auto",
    shapes: Iterable[str] | None = None,
    seeds: Iterable[int] | None = None,
    inputs: Iterable[str] | None = None,
    thorough: bool = False,
    debug: bool = False,
    device: int = 0,
    toggles: Mapping[str, int] | None = None,
    results: str | Path = "results",
    build_dir: str | Path = "build",
    jobs: int | None = None,
    progress: bool = False,
) -> Run:
    """Build a task, judge it by its gates against its baseline, write a run directory, and load it.

    ``task`` is a name of ``gates list``, the part before its first underscore, or a path to a task folder. The
    options are those of ``gates run``; with ``progress`` its steps go to stderr. A kernel that fails its gates
    is a result, not an error. Raises GatesError for bad input and for a full profile without a CUDA device.
    """
    if profile not in PROFILES:
        raise GatesError(f"no profile {profile!r}", hint=f"profiles: {', '.join(PROFILES)}")
    if type(device) is not int or device < 0:
        raise GatesError(f"device is {device!r:.80}", hint="the index of a CUDA device, from 0")
    if jobs is not None and (type(jobs) is not int or jobs < 1):
        raise GatesError(f"jobs is {jobs!r:.80}", hint="how many compilers run at once, from 1; None for one per core")
    options = Options(
        task=str(task),
        profile=profile,
        shapes=_several("shapes", shapes, str),
        seeds=_several("seeds", seeds, int),
        inputs=_several("inputs", inputs, str) or (),
        thorough=thorough,
        debug=debug,
        device=device,
        toggles=_toggles(toggles),
        results=_folder("results", results),
        build_dir=_folder("build_dir", build_dir),
        jobs=jobs,
    )
    if options.inputs and thorough:
        raise GatesError("inputs and thorough exclude each other", hint="inputs tries the named cases and nothing else")
    if any(not 0 <= seed <= MAX_SEED for seed in options.seeds or ()):
        raise GatesError(f"seeds is {list(options.seeds or ())}", hint=f"a seed is from 0 to {MAX_SEED}")
    with Progress() if progress else contextlib.nullcontext(Silence()) as shown:
        outcome = run_task(options, shown)
    return load(outcome.path, verify=False)  # it was written a moment ago, by us


def evaluate(
    task: str | Path,
    *,
    files: Mapping[str, str] | None = None,
    toggles: Mapping[str, int] | None = None,
    name: str = "",
    parent: str | None = None,
    note: str = "",
    stage: str = "memory",
    against: str = "task",
    budget_s: float = 10.0,
    profile: str = "auto",
    device: int = 0,
    results: str | Path = "results",
    build_dir: str | Path = "build",
    jobs: int | None = None,
) -> Evaluation:
    """Judge a candidate: the task with other text in some source ``files`` (name -> whole text) or other toggles.

    Checks go from the cheapest to ``stage`` (static, numbers, memory, speed) and stop at the first that fails. A candidate that fails is an
    answer, not an error. Raises GatesError for bad input, for ``speed`` without a CUDA device, and for a fault of the machine.
    """
    if stage not in STAGES:
        raise GatesError(f"no stage {stage!r:.80}", hint=f"stages: {', '.join(STAGES)}")
    if profile not in PROFILES:
        raise GatesError(f"no profile {profile!r:.80}", hint=f"profiles: {', '.join(PROFILES)}")
    candidate = Candidate(dict(files or {}), _toggles(toggles), name, parent, note)
    places = _folder("results", results), _folder("build_dir", build_dir)
    return evaluate_task(str(task), candidate, Terms(stage, against, profile, device, budget_s, *places, jobs), Silence())


def load(run: AnyRun, *, results: str | Path = "results", verify: bool = True) -> Run:
    """The run in a directory, or of a name: ``latest:TASK``, ``recorded:DEVICE/TASK``.

    ``decision`` is the recorded one, with what a reviewer accepted since. Raises GatesError where there is no such
    run, and where its evidence is not sound; ``verify=False`` leaves that check out, which takes up to a second.
    """
    path = _path(run, results)
    if verify:
        require_sound(path)
    gates = {result.gate: result for result in _verdict(path).gates}
    return Run(path, read_record(RunInfo, path, "run.json"), gates, *decision_in(path))


def decide(run: AnyRun, *, results: str | Path = "results") -> Decided:
    """Merge, reject or hold, after a check of the run's evidence; raises GatesError where that is not sound."""
    return Decided(*decide_run(_path(run, results)))


def compare(baseline: AnyRun, candidate: AnyRun, *, force: bool = False, results: str | Path = "results") -> Comparison:
    """Two runs side by side; ``.markdown()`` is COMPARE.md's text, ``.decision`` the candidate's.

    Raises GatesError for runs that are not sound or can't be compared: see ``gates.review.compare.compare_runs``.
    """
    return compare_runs(_path(baseline, results), _path(candidate, results), force=force)


def _verdict(path: Path) -> Verdict:
    return read_record(Verdict, path, "verdict.json")


def _path(run: AnyRun, results: str | Path) -> Path:
    return run.path if isinstance(run, Run) else resolve_run(str(run), _folder("results", results))


def _folder(what: str, value: str | Path) -> Path:
    if not isinstance(value, (str, Path)):
        raise GatesError(f"{what} is {value!r:.80}", hint=f'a folder, e.g. {what}="{what}"')
    return Path(value)


def _toggles(values: Mapping[str, int] | None) -> dict[str, str]:
    if values is None:
        return {}
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise GatesError(f"toggles is {values!r:.80}", hint='a mapping of names to whole numbers, e.g. toggles={"USE_CP_ASYNC": 0}')
    return {name: str(value) for name, value in values.items()}


def _several(what: str, values: Iterable[Any] | None, kind: type) -> tuple[Any, ...] | None:
    """``values`` as a tuple of different items of ``kind``; None stays None."""
    if values is None:
        return None
    found = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else ()
    if not found or len(set(found)) != len(found) or any(type(one) is not kind for one in found):
        named = {str: '["small", "mission"]', int: "[0, 1, 2]"}[kind] if what != "inputs" else '["default"]'
        raise GatesError(f"{what} is {values!r:.80}", hint=f"a list of what is wanted, each once, e.g. {what}={named}")
    return found
