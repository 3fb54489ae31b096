"""Many candidates of one task at once: checks side by side, one timing at a time on a card."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType
from typing import Any

from gates.build.build import job_count
from gates.evaluation.evaluate import evaluate_task
from gates.evaluation.evolution.work import Ask, evaluate_there
from gates.evaluation.overlay import Candidate
from gates.evaluation.record import Evaluation
from gates.evaluation.terms import Terms
from gates.gate.session import ProgressLike
from gates.launch import device as devices
from gates.render.console import Silence
from gates.sweep.cluster import joined_cluster
from gates.task.load import find_task
from gates.worker.process import ToolThreads


class Evaluator:
    """Judges ``workers`` candidates of ``task`` at a time (default: one for two cores; with a card three for four); their
    processes do the work.

    ``scheduler``: the address of a Dask cluster whose workers do it instead, on all their cards; they must share the results folder.
    Each starts no more processes than its share of the cores. A candidate that is under way is not judged a second time. Use it as a
    context manager: leaving it waits for what was submitted. An exception that leaves it ends that at once.
    """

    def __init__(self, task: str, terms: Terms, workers: int | None = None, scheduler: str | None = None) -> None:
        self.task, self.terms, self._held = task, terms, contextlib.ExitStack()
        self._cluster = self._held.enter_context(joined_cluster(scheduler)) if scheduler is not None else None
        self._found = devices.probe()
        found = () if terms.profile == "cpu" else self._found.devices[terms.device : terms.device + 1]
        self._cores, self._least = job_count(None), 2 if found else 1
        self._at_a_time = workers or devices.candidates_at_a_time(found, self._cores)
        self._pool = ToolThreads(self._at_a_time)
        self._lock = threading.Lock()
        self._waiting: dict[tuple[Any, ...], Future[Evaluation]] = {}

    def submit(self, candidate: Candidate, progress: ProgressLike | None = None) -> Future[Evaluation]:
        """The answer to come. An error in the input or the machine is the future's exception, a GatesError."""
        key = (tuple(sorted(candidate.files.items())), tuple(sorted((name, str(value)) for name, value in candidate.toggles.items())))
        with self._lock:
            if (known := self._waiting.get(key)) is None:
                known = self._waiting[key] = self._pool.submit(self._judged, candidate, progress or Silence())
                known.add_done_callback(lambda _: self._waiting.pop(key, None))
            return known

    def map(self, candidates: Iterable[Candidate | Mapping[str, Any]]) -> Iterator[Evaluation]:
        """The answers in the order of the candidates; each a ``Candidate`` or its fields."""
        asked = [self.submit(one if isinstance(one, Candidate) else Candidate(**one)) for one in candidates]
        for future in asked:
            yield future.result()

    def _judged(self, candidate: Candidate, progress: ProgressLike) -> Evaluation:
        with self._lock:  # which keeps what submits this candidate until it counts
            beside = max(1, min(self._at_a_time, len(self._waiting)))
        terms = replace(self.terms, jobs=self.terms.jobs or max(self._least, self._cores // beside))
        if self._cluster is None:
            return evaluate_task(self.task, candidate, terms, progress, self._probe)
        folder = str(find_task(self.task, environ={}).folder)
        terms = replace(terms, results=terms.results.resolve(), build_dir=terms.build_dir.resolve())
        with self._cluster.jobs() as jobs:
            jobs.add(evaluate_there, Ask("", folder, candidate, terms), device=bool(self._cluster.devices))
            ((_, done),) = jobs
        found: Evaluation = done.evaluation
        return found

    def _probe(self) -> devices.DeviceProbe:
        """Return the devices found at the start. If one is lost later, the first check that needs it fails."""
        return self._found if self._found.devices else devices.probe()

    def close(self) -> None:
        """Wait for what was submitted, and end."""
        self._pool.shutdown(wait=True)
        self._held.close()

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._pool.shutdown() if error is None else self._pool.stop()
        self._held.close()
