"""Correctness: run every case of shapes x seeds in a runner process, and survive whatever a case does.

``run_correctness`` is the engine's side: it never imports torch. It hands the cases to a runner
process; where that crashes or hangs, the case at hand is recorded with the cause and the rest goes
to a new process. ``execute`` is the runner's side. On a device the cases of one side may be shared out
to several processes. Candidate and baseline run in separate processes, one after the other, so that
neither can disturb the other; that they saw the same inputs is shown by the digests.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gates.core.errors import EXIT_HOLD, GatesError
from gates.gate.correctness import plan
from gates.launch import answering
from gates.launch.entry_point import on_emulator
from gates.task.problem import is_ordinary
from gates.worker import isolated, process, turn
from gates.worker.job import KILLED, FinishedJob, ResultWriter, Spares, run_job
from gates.worker.machine_fault import MachineFault

_MAX_TIMEOUTS = 2  # a kernel that hung twice is not given a third time limit


def draw_seed() -> int:
    """A fresh seed for one more case, so that a kernel can't know all seeds before."""
    return secrets.randbelow(2**31 - 1)


def run_correctness(
    candidate: Mapping[str, Any],
    shapes: Sequence[str],
    seeds: Sequence[int],
    *,
    work: Path,
    limit_s: float,
    device: str = "cuda:0",
    baseline: Mapping[str, Any] | None = None,
    extra_seeds: Sequence[int] = (),
    bad_atol: float | None = None,
    end_to_end_bad_atol: float | None = None,
    quick: bool = True,
    thorough: bool = False,
    hangs: bool = False,
    inputs: Sequence[str] = (),
    limits: Mapping[str, Any] | None = None,
    runner: str = "",
    default_launches: Sequence[str] = (),
    limits_at: Mapping[str, str] | None = None,
    timed: str = "",
    processes: int = 1,
    spares: Spares | None = None,
    python: str = sys.executable,
) -> dict[str, Any]:
    """Raw record of all cases of ``candidate`` (and ``baseline``), for ``gates.gate.correctness.evidence.parse``.

    The sides are dicts as a job has them (name, library, entry, folder, problem, emulated). ``limit_s``
    holds for one process, which runs several cases. ``extra_seeds`` are tried on the first shape
    (emulator) or on every shape (device). With ``quick`` the problem's ODD_SHAPES and its INPUT_FAMILIES are
    tried as well, and what the first extra seed draws (``plan``), with ``thorough`` the EDGE_SHAPES too and the families on more shapes and
    seeds. ``inputs`` are names of families or "default": then shapes x seeds x inputs are tried and nothing else (a replay).
    With ``hangs`` the kernel is known to hang, so the first time limit ends its cases, else the second.
    ``limits``: those of task.yaml on errors; outputs that break one are mapped. ``runner``: how a user starts the task's
    runner.py, for the commands that replay one case. ``default_launches``: those in its sources that name no stream. ``limits_at``: each
    limit's file and line, to be named. ``timed``: the first shape that is timed, which extra seeds try on a device. ``processes``: how
    many share the cases of a side; ``spares``: processes that run already.
    Raises GatesError for duplicate shapes, seeds or inputs, and for names that the problem does not have.
    """
    emulated = bool(candidate["emulated"])
    asked = plan.asked(shapes, seeds, () if inputs else extra_seeds, inputs, emulated, timed)
    drawn = next((case["seed"] for case in asked if case["role"] == "extra"), None)
    more = {
        "replay": bool(inputs),
        "quick": quick,
        "fresh": drawn if quick else None,
        "thorough_seeds": list(seeds) if thorough else [],
    }
    common = {
        "kind": "correctness",
        "device": device,
        "atols": {"reference": bad_atol, "end_to_end": end_to_end_bad_atol},
        "budget_s": limit_s / 4,  # so that one case may take the rest
        "limits": dict(limits or {}),
    }
    raw: dict[str, Any] = {
        "kind": "correctness",
        "device": ("emulator" if on_emulator(candidate) else "cpu") if emulated else device,
        "bad_atol": bad_atol,
        "end_to_end_bad_atol": end_to_end_bad_atol,
        "runner": runner,
        "default_launches": list(default_launches),
        "limits_at": dict(limits_at or {}),
        "replay": bool(inputs),
        "extra_seeds": list(dict.fromkeys(case["seed"] for case in asked if case["role"] == "extra")),
        "asked": [{key: case[key] for key in ("shape", "seed", "inputs", "role")} for case in asked],
        "candidate": _run_side(
            candidate, asked, {**common, "more": more}, work, "candidate", limit_s, python, processes, 1 if hangs else _MAX_TIMEOUTS, spares
        ),
        "baseline": None,
    }
    if baseline is not None:
        if bool(baseline["emulated"]) != emulated:
            raise GatesError("candidate and baseline must both be emulated, or both run on the device")
        once = [
            {**case, "orders": ["forward"], "probe": False, "plain": True}
            for case in raw["candidate"]["cases"]
            if is_ordinary(case["role"], case["inputs"])
        ]
        raw["baseline"] = _run_side(baseline, once, {**common, "more": {}}, work, "baseline", limit_s, python, processes)
    return raw


def _tell_phase(writer: Any, index: int, phase: str) -> None:
    writer.write("phase", index=index, phase=phase)


def execute(job: dict[str, Any], folder: Path) -> None:
    """Run the cases of ``job`` and write a line for each; ends the process's work at a broken CUDA context."""
    child = job.get("child") or isolated.start(answering.__name__)  # it imports torch while this process does

    import torch

    from gates.gate.correctness.runner import case as casecheck
    from gates.gate.correctness.runner.yardstick import Yardstick
    from gates.launch.side import opened
    from gates.task import problem as problems
    from gates.worker import wire

    if "turn" in job:
        wire.send(child.stdin, answering.first_question(job))
        job |= {**turn.wait(job["turn"]), "confines": True}
        if isolated.has_ended(child):  # it knew no kernel yet
            raise GatesError("the kernel's process ended before this process had its turn", hint="run it again", exit_code=EXIT_HOLD)
        Path(job["turn"]).unlink()  # as the job's own file: it is not the kernel's to read
    with ResultWriter(job) as writer, opened(job, child) as side:  # which wakes the device while the cases are planned
        problem = side.problem
        cases, emulated = list(job["cases"]), bool(job["side"]["emulated"])
        problems.check_names(problem, [case["shape"] for case in cases], [case["inputs"] for case in cases])
        share, shares = job["share"]
        whole = plan.whole(problem, cases, job["more"], emulated)
        cases = whole[share::shares]
        beside = job.get("beside", min(shares, len(whole)))  # processes with cases
        torch.set_num_threads(max(1, torch.get_num_threads() // max(1, beside)))
        writer.write("header", cases=cases, torch=torch.__version__, python=sys.version.split()[0])
        yardstick, started = Yardstick(problem), time.monotonic()
        writer.write("confined", held=side.held)
        for index, case in enumerate(cases):
            result = casecheck.check(
                side,
                case,
                job["atols"],
                partial(_tell_phase, writer, index),
                job["limits"],
                yardstick,
                2 * job["budget_s"],
            )
            lost = result.pop("lost", False)
            writer.write("case", index=index, result=result)
            if lost or (time.monotonic() - started > job["budget_s"] and index + 1 < len(cases)):
                return  # the next process goes on: a long plan must not reach the time limit of one process
        writer.write("done", cases=len(cases))


def _run_side(
    side: Mapping[str, Any],
    cases: list[dict[str, Any]],
    common: Mapping[str, Any],
    work: Path,
    name: str,
    limit_s: float,
    python: str,
    shares: int,
    most_timeouts: int = _MAX_TIMEOUTS,
    spares: Spares | None = None,
) -> dict[str, Any]:
    """All cases of one side, shared out to ``shares`` processes."""

    def run(share: int) -> dict[str, Any]:
        own = {**common, "share": (share, shares)}
        return _run_share(side, cases, own, work, shared_name(name, share, shares), limit_s, python, most_timeouts, spares)

    with process.ToolThreads(shares) as together:
        done = list(together.map(run, range(shares)))
    turns = itertools.zip_longest(*(one["cases"] for one in done))
    return {
        "name": side["name"],
        "cases": [case for turn in turns for case in turn if case is not None],
        "jobs": [job for one in done for job in one["jobs"]],
    }


def shared_name(name: str, share: int, shares: int) -> str:
    """Return the name of one share's jobs, of ``shares``. The number of each job follows it."""
    return f"{name}.{share}" if shares > 1 else name


def _run_share(
    side: Mapping[str, Any],
    cases: list[dict[str, Any]],
    common: Mapping[str, Any],
    work: Path,
    name: str,
    limit_s: float,
    python: str,
    most_timeouts: int,
    spares: Spares | None,
) -> dict[str, Any]:
    """The cases of one share, over as many processes as its crashes need."""
    planned: list[dict[str, Any]] | None = None
    todo, timeouts = list(cases), 0
    jobs: list[dict[str, Any]] = []
    while todo:
        again = {} if planned is None else {"more": {}, "share": (0, 1), "beside": common["share"][1]}
        job = {**common, "side": dict(side), "cases": todo, **again}
        number = f"{name}.{len(jobs)}"
        tried = spares.run(number, job) if spares else None
        tried = tried or run_job(Path(side["folder"]), job, work, limit_s=limit_s, name=number, python=python)
        if (refusal := tried.refusal()) is not None:
            raise refusal
        ended = _Ended(tried)
        if ended.reached == 0 and tried.cause == KILLED:  # the kernel runs in another process, and had not been asked
            raise MachineFault(
                f"the process that judges {side['name']} was {KILLED} before a case began",
                hint="look into the system's log, then ask again",
            )
        if planned is None:
            share, shares = common["share"]
            planned = list(cases)[share::shares] if ended.plan is None else ended.plan
            todo = list(planned)
        jobs.append({**tried.record(), "asked": todo})
        timeouts += tried.timed_out
        remaining = todo[ended.reached :]
        if ended.complete or ended.reached == 0 or timeouts >= most_timeouts:
            break
        todo = remaining
    return {"cases": planned or [], "jobs": jobs}


class _Ended:
    """How far a process came: its plan of cases, and how many of them it finished or died in."""

    def __init__(self, tried: FinishedJob) -> None:
        self.plan: list[dict[str, Any]] | None = None
        self.reached = 0
        self.complete = False
        for line in tried.own():
            kind = line.get("type")
            with contextlib.suppress(KeyError, TypeError):
                if kind == "header" and self.plan is None:
                    self.plan = list(line["cases"])
                elif kind in ("phase", "case"):
                    self.reached = max(self.reached, int(line["index"]) + 1)
                elif kind == "done":
                    self.complete = True
