"""Timing: candidate against baseline on a CUDA device, in two processes.

``run_timings`` is the engine's side and never imports torch; ``execute`` is the runner's, the judge of the times: it holds the
problem, a clock, and no kernel. The kernels and the device's clock are in a third process, which does what it is asked
(``gates.gate.performance.runner.hands``). The procedure is gates.gate.performance.runner.session's. The measurement is on disk before the
context rows (other implementations) are tried, so that they can't spoil it.
"""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gates.core.errors import GatesError
from gates.core.records import from_json
from gates.evidence.run_directory import utc_now
from gates.gate.performance import codes
from gates.gate.performance.runner.protocol import SINGLE_PAIRS, telling_stops
from gates.gate.registry import ROWS
from gates.launch.entry_point import is_c
from gates.stats.estimators import MIN_P90, hodges_lehmann
from gates.stats.samples import Series
from gates.stats.sampling import BUDGET_S, differences
from gates.stats.stopping_rule import CONFIDENCE
from gates.task.load import nearest
from gates.worker.job import FinishedJob, ResultWriter, run_job

HANDS = ROWS["performance"].jobs["timing"].kernel_process
SINGLES_A_BLOCK = 25
MAX_SINGLES_A_BLOCK = 1000


def run_timing(candidate: Mapping[str, Any], *, shape: str, bar_pct: float, **terms: Any) -> dict[str, Any]:
    """The raw record of one shape; ``bar_pct``: the gain in percent by which sampling stops. ``terms``: see ``run_timings``."""
    (raw,) = run_timings(candidate, shapes={shape: bar_pct}, **terms)
    return raw


def run_timings(
    candidate: Mapping[str, Any],
    *,
    shapes: Mapping[str, float],
    work: Path,
    limit_s: float,
    baseline: Mapping[str, Any] | None = None,
    output_limits: Mapping[str, float] | None = None,
    device: str = "cuda:0",
    cache: str = "cold",
    seed: int | None = None,
    iters: int | None = None,
    budget_s: float = BUDGET_S,
    confidence: float = CONFIDENCE,
    least_pairs: int = 0,
    equal_ends: bool = False,
    others: bool = True,
    always_alone: bool = True,
    python: str = sys.executable,
    hands: str = HANDS,
) -> list[dict[str, Any]]:
    """Raw records of the timed ``shapes`` (name -> the gain in percent by which sampling stops), each for
    ``gates.gate.performance.evidence.parse``.

    One process times them all, the smallest first, in at most ``budget_s``; one that ends early is followed by another for the rest.
    ``limit_s`` is a process's. Without a device the first record is the only one.
    The sides are dicts as a job has them. ``output_limits`` are the correctness limits (max_abs_err,
    mean_abs_err, bad_pct, bad_atol) that outputs must keep before and after timing. ``seed`` decides
    input values and order; drawn and recorded if None. ``confidence``, ``least_pairs``, ``equal_ends``: as
    ``gates.stats.sampling.measure`` has them.
    ``iters`` is the number of single launches a side (300 if None, at least 120). ``others``: time the problem's other
    implementations and the other cache mode for context. ``always_alone``: time the baseline without the candidate also where the
    candidate took longer, which gains nothing by slowing it. ``hands``: the module of the kernels' process.
    Raises GatesError for an unknown shape, a bad ``iters`` or ``cache``.
    """
    if iters is not None and iters < 1:
        raise GatesError(f"iterations must be at least 1, got {iters}")
    if cache not in ("cold", "warm"):
        raise GatesError(f"cache mode {cache!r} is not one of cold, warm")
    work.mkdir(parents=True, exist_ok=True)
    control = Path((baseline or candidate)["library"])
    if is_c(baseline or candidate):
        control = work / "control.so"
        shutil.copyfile((baseline or candidate)["library"], control)  # another file, so that the loader maps it anew
    records, left = list[dict[str, Any]](), dict(shapes)
    while left:
        job = job_of(
            candidate,
            baseline,
            control=control,
            device=device,
            shapes=left,
            output_limits=output_limits or {},
            cache=cache,
            seed=seed,
            iters=iters,
            budget_s=budget_s - sum(raw["measured"]["elapsed_s"] for raw in records if raw["measured"]),
            confidence=confidence,
            least_pairs=least_pairs,
            equal_ends=equal_ends,
            others=others,
        )
        began, name = utc_now(), f"timing.{len(records)}" if records else "timing"
        tried = run_job(Path(candidate["folder"]), job, work, limit_s=limit_s, name=name, python=python, kernel_process=hands)
        if (refusal := tried.refusal()) is not None:
            raise refusal
        found = _reached(tried, list(left))
        to_hold = {
            shape: read["measured"] for shape, read in found.items() if read["measured"] and (always_alone or _faster(read["measured"]))
        }
        alone = _alone(job, to_hold, work, limit_s, python, hands) if baseline else {}
        span = {"began": began.isoformat(timespec="milliseconds"), "ended": utc_now().isoformat(timespec="milliseconds")}
        head = {
            "task": candidate["name"],
            "baseline": baseline["name"] if baseline else None,
            "output_tail": tried.output_tail,
            "span": span,
        }
        records += [{**head, "shape": shape, **read, "alone": alone.get(shape)} for shape, read in found.items()]
        left = {shape: bar_pct for shape, bar_pct in left.items() if shape not in found}
        if records[-1]["code"] == codes.NO_DEVICE:
            break
    return sorted(records, key=lambda raw: list(shapes).index(raw["shape"]))


def _reached(tried: FinishedJob, shapes: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What the process says of each shape that it timed, and of the one at which it ended. A time limit is for all of its shapes: if it
    has timed some, the next one is not blamed.
    """
    found: dict[str, dict[str, Any]] = {}
    told = next((line.get("shapes") for line in tried.own() if line.get("type") == "order"), None)
    for shape in told if isinstance(told, list) and sorted(map(str, told)) == sorted(shapes) else shapes:
        read = _read(tried, shape, one_of=len(shapes))
        if read["measured"] is not None or not tried.timed_out or not found:
            found[shape] = read
        if read["measured"] is None:
            break
    return found


def _faster(measured: Mapping[str, Any], pct: float = 0.0) -> bool:
    """Whether the estimated speed-up is above ``pct`` percent, or no pair counts."""
    series = next(one for one in measured["series"] if one["mode"] == measured["gated_mode"])
    found = differences(from_json(Series, series, "timing result"))
    return not found or hodges_lehmann(found) > math.log1p(pct / 100.0)


def _alone(
    job: Mapping[str, Any], measured: Mapping[str, Mapping[str, Any]], work: Path, limit_s: float, python: str, hands: str
) -> dict[str, dict[str, Any]]:
    """By shape, the baseline timed without the candidate, when the process that held both has ended; see
    ``gates.gate.performance.runner.alone``.
    """
    from gates.gate.performance.runner import alone

    if (own := alone.job_of(job, measured)) is None:
        return {}
    tried = run_job(Path(job["baseline"]["folder"]), own, work, limit_s=limit_s, name="timing_alone", python=python, kernel_process=hands)
    return {shape: alone.read(tried, shape) for shape in own["each"]}


def job_of(
    candidate: Mapping[str, Any],
    baseline: Mapping[str, Any] | None,
    *,
    control: Path,
    device: str,
    shapes: Mapping[str, float],
    output_limits: Mapping[str, Any],
    cache: str = "cold",
    seed: int | None = None,
    iters: int | None = None,
    budget_s: float = BUDGET_S,
    confidence: float = CONFIDENCE,
    least_pairs: int = 0,
    equal_ends: bool = False,
    others: bool = True,
) -> dict[str, Any]:
    """The timing job of ``run_timings``'s arguments; ``control`` is another file of the baseline's library."""
    limits = {key: value for key, value in output_limits.items() if isinstance(value, (int, float)) and not isinstance(value, bool)}
    return {
        "kind": "timing",
        "device": device,
        "candidate": dict(candidate),
        "baseline": dict(baseline) if baseline else None,
        "control_library": str(control),
        "shapes": {shape: float(bar_pct) for shape, bar_pct in shapes.items()},
        "cache": cache,
        "budget_s": budget_s,
        "seed": seed,
        "output_limits": limits,
        "singles_a_block": singles_a_block(iters),
        "confidence": confidence,
        "least_pairs": least_pairs,
        "equal_ends": equal_ends,
        "others": others,
    }


def singles_a_block(iters: int | None) -> int:
    """Single launches a block for ``iters`` launches a side over twelve blocks, within 10, which a p90 needs, and 1000."""
    wanted = SINGLES_A_BLOCK if iters is None else math.ceil(iters / SINGLE_PAIRS)
    return max(MIN_P90, min(MAX_SINGLES_A_BLOCK, wanted))


def _read(tried: FinishedJob, shape: str, one_of: int = 1) -> dict[str, Any]:
    """What the runner's lines say of ``shape``, one of so many, or why they say nothing."""
    lines = {str(line.get("type")): line for line in tried.own() if line.get("shape", shape) == shape}
    measured = lines.get("measured", {}).get("evidence")
    if measured is not None:
        seconds = tried.wall_s if one_of == 1 else lines["measured"]["seconds"]
        others = lines.get("backends", {}).get("backends", {})
        return {"measured": measured, "backends": others, "code": "", "message": "", "process_s": seconds}
    if "stopped" in lines:
        code, message = str(lines["stopped"].get("code")), str(lines["stopped"].get("message"))
    elif tried.timed_out:
        code, message = codes.TIME_LIMIT, f"timing was {tried.cause}"
    else:
        code, message = codes.RUNNER_DIED, f"the timing process gave no result ({tried.cause}): {tried.last_words()}"
    return {"measured": None, "backends": {}, "code": code, "message": message, "process_s": tried.wall_s}


def execute(job: dict[str, Any], folder: Path) -> None:
    """Runner job ``timing``: time the sides and write a ``measured`` and a ``backends`` line, or one ``stopped`` line."""
    from gates.gate.performance.runner import ask

    ask.judge(job, measure)


def measure(
    job: Mapping[str, Any],
    writer: ResultWriter,
    connect: Callable[[], Any],
    before: Mapping[str, frozenset[int]],
    pid: int | None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """A session for each shape with the process that ``connect`` reaches. Only when all are measured does that process load the problem,
    which the other implementations need. They are timed only if the candidate gains what the task asks.
    """
    from gates.gate.performance.runner.session import Session
    from gates.task import problem as problems

    problem, shapes = problems.load(job["candidate"]["problem"], Path(job["candidate"]["folder"])), job["shapes"]
    if unknown := [shape for shape in shapes if shape not in problem.SHAPES]:
        raise GatesError(f"problem {problem.__name__} has no shape {unknown[0]!r}", hint=nearest(unknown[0], problem.SHAPES))
    with telling_stops(writer, "the reference"):
        ask, left_s, sessions, promising = connect(), job["budget_s"], dict[str, Session](), dict[str, Session]()
        first: Session | None = None
        order = sorted(shapes, key=lambda shape: _size(problem.SHAPES[shape]))  # what quick shapes leave of the time is for slow ones
        writer.write("order", shapes=order)
        for shape in order:
            began = clock()
            own = of_shape(job, shape, left_s / (len(shapes) - len(sessions)))
            session = sessions[shape] = Session(own, problem, ask, before, pid, clock, first)
            first, evidence = first or session, session.measure()
            if _faster(evidence, own["bar_pct"]):  # torch.compile among the others takes longer than the rest of the run
                promising[shape] = session
            writer.write("measured", shape=shape, evidence=evidence, seconds=round(clock() - began, 3))
            left_s -= evidence["elapsed_s"]
        if job["others"]:
            for shape, session in promising.items():
                writer.write("backends", shape=shape, backends=session.backends(again=len(shapes) > 1))
        writer.write("done")


def _size(shape: Mapping[str, int]) -> int:
    """The product of a shape's dimensions: what it takes to draw, send and time its inputs grows with it."""
    return math.prod(max(1, abs(extent)) for extent in shape.values())


def of_shape(job: Mapping[str, Any], shape: str, budget_s: float) -> dict[str, Any]:
    """The part of a timing job that is about one of its shapes."""
    return {**job, "shape": shape, "bar_pct": job["shapes"][shape], "budget_s": budget_s}
