"""The baseline's time in a process that never held the candidate, taken after the measurement.

Candidate and baseline share a process while they are measured, so the candidate could make the baseline slower. When that process and all
that it left behind have ended, a runner of its own times a few blocks of the baseline: same input values, same number of sets and launches,
same places of the outputs, same cache mode. The judge compares the two times (``gates.gate.performance.consistency``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gates.core.records import to_json
from gates.gate.performance.runner.protocol import telling_stops
from gates.stats import sampling
from gates.stats.samples import BASELINE, Series
from gates.worker.job import FinishedJob, ResultWriter

BLOCKS, MOST_BLOCKS = 3, 9  # undisturbed blocks that are wanted, and how many are taken for them


def job_of(job: Mapping[str, Any], measured: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """The job that times the baseline of the timing job ``job`` alone, as each shape was ``measured``; None where no block of it was
    taken.
    """
    each = {}
    for shape, one in measured.items():
        series = next(series for series in one["series"] if series["mode"] == job["cache"])
        if (launches := series["launches"].get(BASELINE)) is not None:
            each[shape] = {"seed": one["seed"], "sets": one["inputs"]["sets"], "launches": launches}
    return {**job, "kind": "timing_alone", "each": each} if each else None


def read(tried: FinishedJob, shape: str) -> dict[str, Any]:
    """What the runner's lines say of ``shape``: {"series", "message"}; without a series the message says why there is none."""
    lines = {str(line.get("type")): line for line in tried.own() if line.get("shape", shape) == shape}
    if "alone" in lines:
        return {"series": lines["alone"].get("series"), "message": ""}
    said = next((str(lines[kind].get(key)) for kind, key in (("stopped", "message"), ("error", "what")) if kind in lines), "")
    return {"series": None, "message": said or f"its process gave no result ({tried.cause}): {tried.last_words()}"}


def execute(job: dict[str, Any], folder: Path) -> None:
    """Runner job ``timing_alone``: an ``alone`` line with the blocks of each shape, or a ``stopped`` line."""
    from gates.gate.performance.runner import ask as timing_ask

    timing_ask.judge(job, measure)


def measure(
    job: Mapping[str, Any],
    writer: ResultWriter,
    connect: Callable[[], Any],
    before: Mapping[str, frozenset[int]],
    pid: int | None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Time the baseline with the process that ``connect`` reaches."""
    from gates.task import problem as problems

    problem = problems.load(job["candidate"]["problem"], Path(job["candidate"]["folder"]))
    with telling_stops(writer, "the input sets"):
        ask, card = connect(), None
        for shape, how in job["each"].items():
            series, card = _series({**job, **how, "shape": shape}, problem, ask, before, pid, clock, card)
            writer.write("alone", shape=shape, series=to_json(series))


def _series(
    job: Mapping[str, Any],
    problem: Any,
    ask: Any,
    before: Mapping[str, frozenset[int]],
    pid: int | None,
    clock: Callable[[], float],
    card: Any,
) -> tuple[Series, Any]:
    """The blocks of one shape, and the card as it was first opened."""
    from gates.gate.performance.runner import nvml
    from gates.gate.performance.runner.session import AskedSide
    from gates.gate.performance.runner.values import Values
    from gates.task.sources.default_stream import DEFAULT

    mode, launches = str(job["cache"]), int(job["launches"])
    given = {
        name: list(job[of].get("arguments") or problem.ARGUMENTS)
        for name, of in (("candidate", "candidate"), ("baseline", "baseline"), ("control", "baseline"))
    }
    arguments = given[BASELINE]
    beside = [job["candidate"], job["baseline"]]
    on_default = {"stream": DEFAULT} if any(one.get("stream") == DEFAULT for one in beside) else {}  # one such side put both there
    device = ask(
        "open", device=job["device"], sides={BASELINE: {"side": {**job["baseline"], **on_default}, "library": None, "arguments": arguments}}
    )
    card = card or nvml.open_device(device["uuid"], before, pid)
    values = Values(problem, problem.SHAPES[job["shape"]], int(job["sets"]), int(job["seed"]))
    ask("sets", sides=given, **values.question(int(job["sets"])))  # outputs of all three sides: the baseline's lie where they lay
    side = AskedSide(BASELINE, arguments, ask)
    sample_us = launches * side.estimate()
    timer = side.prepare(mode, launches)
    sampler = sampling.Sampler({BASELINE: timer}, read_state=card.state, samples=sampling.block_samples(sample_us), clock=clock)
    sampler.warm_up(BASELINE)
    blocks: list[Any] = []
    while sum(block.valid for block in blocks) < BLOCKS and len(blocks) < MOST_BLOCKS:
        blocks.append(sampler.block(BASELINE, len(blocks)))
    enough = sum(block.valid for block in blocks) >= BLOCKS
    return Series(mode, {BASELINE: launches}, tuple(blocks), "pairs" if enough else "invalid"), card
