"""Searches without a compiler: a cluster of nobody whose evaluations come from a function of the candidate."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from places import TASKS
from sweep_kit import DEVICE, InTurn

from gates.core.records import to_json
from gates.evaluation.evolution import search, work
from gates.evaluation.evolution.proposers import Proposer
from gates.evaluation.evolution.record import Evolution
from gates.evaluation.evolution.search import Options, evolve
from gates.evaluation.evolution.work import Ask, Evaluated, Judged, Timed
from gates.evaluation.overlay import Candidate, digests, resolved
from gates.evaluation.record import Evaluation, GateSeen
from gates.render.console import Silence
from gates.sweep.record import Timing
from gates.task.load import Task, load_task

BLOCKS = TASKS / "blocks"
Answer = Callable[[Candidate, Mapping[str, int]], float | None]  # the true speed-up, None if it is wrong


@cache
def known_task(folder: str) -> Task:
    return load_task(Path(folder), environ={})


def in_force(ask: Ask) -> dict[str, int]:
    """The candidate's toggles."""
    return {
        **known_task(ask.folder).toggles,
        **{name: int(value) for name, value in {**ask.terms.toggles, **ask.candidate.toggles}.items()},
    }


def made_up(task: str, candidate: Candidate, true: float | None, *, stage: str, score: float | None) -> Evaluation:
    """An evaluation of a candidate that is wrong if ``true`` is None."""
    status, code = ("pass", f"{stage}.pass") if true is not None else ("fail", "correctness.max_abs_err")
    return Evaluation(
        schema_version=1,
        tool_version="0",
        id="",
        parent=candidate.parent,
        name=candidate.name,
        note=candidate.note,
        task=task,
        status=status,
        stage=stage,
        code=code,
        valid=true is not None,
        score=score,
        score_high=score and score * 1.01,
        p50_us=score and 10.0 / score,
        metrics={"registers": 32.0},
        gates=(GateSeen("correctness", status, code, "made up", 0.0),),
        feedback="no check failed" if true is not None else "correctness: wrong at [0]",
        artifacts={},
        seconds={},
        evidence="",
        files={},
        toggles={},
        device=None,
        asked=stage,
    )


class Bench:
    """Made-up workers. ``truth`` is of a candidate and its toggles; ``asked`` are the jobs done; ``noise`` of the n-th timing."""

    def __init__(
        self, truth: Answer, *, device: bool = True, noise: Callable[[int], float] = lambda _: 1.0, stop_after: int | None = None
    ) -> None:
        self.truth, self.noise, self.stop_after, self.asked = truth, noise, stop_after, list[tuple[str, str]]()
        functions: dict[str, Any] = {"evaluate_there": self.evaluate, "time_there": self.time, "run_there": self.run}
        self.cluster = InTurn((DEVICE,) if device else (), functions)
        self.device = DEVICE if device else None

    def _note(self, what: str, ask: Ask) -> float:
        if self.stop_after is not None and len(self.asked) >= self.stop_after:
            raise KeyboardInterrupt
        self.asked.append((what, ask.id))
        return self.noise(len(self.asked))

    def evaluate(self, ask: Ask) -> Evaluated:
        noise = self._note("evaluate", ask)
        task = known_task(ask.folder)
        toggles, files = in_force(ask), resolved(task, ask.candidate)
        true = self.truth(ask.candidate, toggles)
        found = replace(
            made_up(
                task.name, ask.candidate, true, stage=ask.terms.stage, score=true * noise if true is not None and self.device else None
            ),
            id=ask.id,
            metrics={"registers": float(toggles.get("BLOCK", 128)), "occupancy_pct": 100.0, "spill_bytes": 0.0},
            evidence=f"evaluations/{task.name}/{ask.id}",
            files=digests(files),
            toggles=toggles,
            device=self.device.name if self.device else None,
        )
        place = ask.terms.results / found.evidence
        place.mkdir(parents=True, exist_ok=True)
        (place / "evaluation.json").write_text(json.dumps(to_json(found)), encoding="utf-8")
        return Evaluated(ask.id, found)

    def time(self, ask: Ask) -> Timed:
        noise = self._note("time", ask)
        toggles = in_force(ask)
        ratio = (self.truth(ask.candidate, toggles) or 0.0) * noise
        return Timed(ask.id, Timing(ask.id, ratio > 1, "", "made up", ratio, ratio, ratio, 1.0, 1.0, DEVICE.uuid, 1.0), "{}")

    def run(self, ask: Ask) -> Judged:
        self._note("run", ask)
        return Judged(ask.id, "blocks/20260101T000000Z-made-up", "hold")


def here() -> InTurn:
    """A cluster that does the real work in this process, without a device."""
    return InTurn((), {function.__name__: function for function in (work.evaluate_there, work.run_there)})


def searched(
    monkeypatch: pytest.MonkeyPatch, root: Path, bench: Bench | InTurn, *proposers: Proposer, task: Path = BLOCKS, **options: Any
) -> tuple[Path, Evolution]:
    """A search with the made-up workers, or those of ``here``."""

    @contextmanager
    def workers(*_: Any, **__: Any) -> Any:
        yield bench if isinstance(bench, InTurn) else bench.cluster, "made up"

    monkeypatch.setattr(search, "workers", workers)
    asked = Options(str(task), proposers, results=root / "results", build_dir=root / "build")
    return evolve(replace(asked, **options), Silence())
