"""Correctness: run every case of shapes x seeds in a runner process, and survive whatever a case does.

``run_correctness`` is the engine's side: it never imports torch. It hands the cases to a runner
process; where that crashes or hangs, the case at hand is recorded with the cause and the rest goes
to a new process. ``execute`` is the runner's side. Candidate and baseline run in separate
processes, one after the other, so that neither can disturb the other; that they saw the same inputs
is shown by the digests.
"""

from __future__ import annotations

import contextlib
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gates.errors import GatesError
from gates.run.attempt import Attempt, ResultWriter, attempt
from gates.task import nearest

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
    odd: bool = True,
    python: str = sys.executable,
) -> dict[str, Any]:
    """Raw record of all cases of ``candidate`` (and ``baseline``), for ``gates.parse.correctness.parse``.

    The sides are dicts as a job has them (name, library, entry, folder, problem, emulated). ``limit_s``
    holds for one process, which runs several cases. ``extra_seeds`` are tried on the first shape
    (emulator) or on every shape (device). With ``odd`` the problem's ODD_SHAPES are tried with seed 0.
    Raises GatesError for duplicate shapes or seeds.
    """
    _refuse_duplicates("shape", shapes)
    _refuse_duplicates("seed", [*seeds, *extra_seeds])
    emulated = bool(candidate["emulated"])
    asked = [
        {"shape": shape, "seed": seed, "role": "headline", "orders": _orders(emulated, index)}
        for shape in shapes for index, seed in enumerate(seeds)
    ]
    asked += [
        {"shape": shape, "seed": seed, "role": "extra", "orders": _orders(emulated, 0)}
        for seed in extra_seeds for shape in (shapes[:1] if emulated else shapes)
    ]
    if asked:
        asked[0]["probe"] = True
    common = {
        "kind": "correctness", "device": device,
        "atols": {"reference": bad_atol, "end_to_end": end_to_end_bad_atol},
    }
    raw: dict[str, Any] = {
        "kind": "correctness", "device": "emulator" if emulated else device,
        "bad_atol": bad_atol, "end_to_end_bad_atol": end_to_end_bad_atol,
        "extra_seeds": list(extra_seeds), "asked": [{key: case[key] for key in ("shape", "seed", "role")} for case in asked],
        "candidate": _run_side(candidate, asked, {**common, "odd": odd}, work, "candidate", limit_s, python),
        "baseline": None,
    }
    if baseline is not None:
        if bool(baseline["emulated"]) != emulated:
            raise GatesError("candidate and baseline must both be emulated, or both run on the device")
        once = [{**case, "orders": ["forward"], "probe": False} for case in raw["candidate"]["cases"]]
        raw["baseline"] = _run_side(baseline, once, {**common, "odd": False}, work, "baseline", limit_s, python)
    return raw


def execute(job: dict[str, Any], folder: Path) -> None:
    """Run the cases of ``job`` and write a line for each; ends the process's work at a broken CUDA context."""
    import torch

    from gates import problem as problems
    from gates.run import casecheck
    from gates.run.launch import Side

    with ResultWriter(job) as writer:
        problem = problems.load(job["side"]["problem"], Path(job["side"]["folder"]))
        cases = list(job["cases"])
        check_shapes(problem, [case["shape"] for case in cases])
        if job.get("odd"):
            known = {(case["shape"], case["seed"]) for case in cases}
            orders = _orders(bool(job["side"]["emulated"]), 0)
            cases += [
                {"shape": shape, "seed": 0, "role": "odd", "orders": orders}
                for shape in getattr(problem, "ODD_SHAPES", ()) if (shape, 0) not in known
            ]
        writer.write("header", cases=cases, torch=torch.__version__, python=sys.version.split()[0])
        side = Side(job["side"], job["device"])
        for index, case in enumerate(cases):
            result = casecheck.check(
                side, case, job["atols"], lambda phase, index=index: writer.write("phase", index=index, phase=phase)
            )
            lost = result.pop("lost", False)
            writer.write("case", index=index, result=result)
            if lost:
                return
        writer.write("done", cases=len(cases))


def check_shapes(problem: Any, shapes: Sequence[str]) -> None:
    """Raise GatesError for a name that is not one of the problem's shapes, with the nearest that are."""
    for shape in shapes:
        if shape not in problem.SHAPES:
            raise GatesError(f"problem {problem.__name__} has no shape {shape!r}", hint=nearest(shape, problem.SHAPES))


def _run_side(
    side: Mapping[str, Any], cases: list[dict[str, Any]], common: Mapping[str, Any],
    work: Path, name: str, limit_s: float, python: str,
) -> dict[str, Any]:
    """All cases of one side, over as many processes as its crashes need."""
    plan: list[dict[str, Any]] | None = None
    todo, attempts, timeouts = list(cases), [], 0
    while todo:
        job = {**common, "side": dict(side), "cases": todo, "odd": common["odd"] and plan is None}
        tried = attempt(
            Path(side["folder"]), job, work, limit_s=limit_s, name=f"{name}.{len(attempts)}", python=python
        )
        if (refusal := tried.refusal()) is not None:
            raise refusal
        ended = _Ended(tried)
        if plan is None:
            plan = ended.plan or list(cases)
            todo = list(plan)
        attempts.append({**tried.record(), "asked": todo})
        timeouts += tried.timed_out
        remaining = todo[ended.reached :]
        if ended.complete or ended.reached == 0 or timeouts >= _MAX_TIMEOUTS:
            break
        todo = remaining
    return {"name": side["name"], "cases": plan or list(cases), "attempts": attempts}


class _Ended:
    """How far a process came: its plan of cases, and how many of them it finished or died in."""

    def __init__(self, tried: Attempt) -> None:
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


def _orders(emulated: bool, index: int) -> list[str]:
    """Thread orders of a case's calls. All three on the emulator for a shape's first seed, then two, which is quicker."""
    if not emulated:
        return ["forward", "forward"]
    if index == 0:
        return ["forward", "shuffled", "reversed"]
    return ["forward", "shuffled" if index % 2 else "reversed"]


def _refuse_duplicates(what: str, values: Sequence[Any]) -> None:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise GatesError(f"{what} {value} is given twice", hint=f"each {what} counts once; name different ones")


