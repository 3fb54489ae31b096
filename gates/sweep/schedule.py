"""A sweep from its parameters to the winner's verdict; everything that is done is on disk at once, and done once.

The folder is ``results/sweeps/<task>/<id>/``: sweep.json, and ``variants/<name>/`` with the evidence of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gates.build.build import check_build_root
from gates.core.errors import GatesError
from gates.evidence.run_directory import require_outside_a_run
from gates.render.console import Progress
from gates.sweep import work
from gates.sweep.cluster import Cluster, Jobs, Work
from gates.sweep.halving import halve, reference_of, winner
from gates.sweep.kept import Kept, begun, held, make_folder, publish, require_writable
from gates.sweep.plan import Options, now, params_of, plan, task_of
from gates.sweep.record import FILE, Round, Sweep, Timing, Variant, dropped_by_gates
from gates.sweep.workers import workers
from gates.task.load import CUDA, Task


def run_sweep(options: Options, progress: Progress) -> tuple[Path, Sweep]:
    """Do what is left of the sweep and return its folder and what came of it.

    Raises GatesError for bad input, for a folder of another task or of changed sources, and where nothing can be
    built or no workers can be had.
    """
    task = task_of(options)
    if task.kind != CUDA:
        raise GatesError(f"{task.name} is of kind {task.kind}", hint="a sweep takes tasks of kind cuda, whose toggles are compiled in")
    params = params_of(options, task)
    check_build_root(options.build_dir)
    home = options.resume or options.results / "sweeps" / task.name
    require_outside_a_run(home / FILE)
    for place in (home, options.results / task.name):  # the winner's run goes to the second
        require_writable(place)
    with workers(options.profile, options.scheduler, options.workers, progress, timed=options.timed) as (cluster, why):
        new = plan(task, params, cluster.devices, why)
        folder = options.resume or home / new.id
        make_folder(folder)
        with held(folder):
            kept = Kept(folder, begun(folder, new), progress)
            try:
                _Work(task, options, cluster, kept).do()
            except (KeyboardInterrupt, GatesError):
                progress.done(f"kept so far: {kept.counts()} in {folder}; the same command continues")
                raise
            return folder, kept.sweep


class _Work:
    """The stages, each of which leaves out what was done before."""

    def __init__(self, task: Task, options: Options, cluster: Cluster, kept: Kept) -> None:
        self.task, self.options, self.cluster, self.kept = task, options, cluster, kept
        self.on_device = bool(cluster.devices)

    def do(self) -> None:
        """Everything that is left."""
        if self.kept.sweep.ended:
            return
        self._screen()
        if self.on_device and self.kept.sweep.left():
            self._rank()
            self._judge()
        self.kept.change(ended=now())

    def _screen(self) -> None:
        """Compile every variant, and check each as soon as it has compiled within the budget."""
        new = [one for one in self.kept.sweep.left() if one.correctness is None]
        if not new:
            return
        with self.cluster.jobs() as jobs:
            if self.on_device and self.task.baseline is not None:
                jobs.add(work.build_baseline, self._job(new[0]))
            for one in new:
                self._next(jobs, one)
            self._count()
            for function, done in jobs:
                if function is work.build_baseline:
                    continue
                self.kept.files(done)
                assert done.found is not None, "a gate has a verdict"
                if function is work.compile_variant:
                    self._next(jobs, self._tell(done, ptxas=done.found, sass=done.sass, resources=done.resources))
                else:
                    self._tell(done, correctness=done.found)
                self._count()

    def _next(self, jobs: Jobs, one: Variant) -> None:
        if one.ptxas is None:
            jobs.add(work.compile_variant, self._job(one))
        elif not one.dropped:
            jobs.add(work.check_variant, self._job(one), device=self.on_device)

    def _count(self) -> None:
        self.kept.progress.step(self.kept.counts())

    def _rank(self) -> None:
        left = [one.name for one in self.kept.sweep.left()]
        reference = self.kept.sweep.reference if self.kept.sweep.rounds else reference_of(self.kept.sweep.incumbent, left)
        self.kept.change(reference=reference)
        entrants = self.kept.sweep.rounds[0].variants if self.kept.sweep.rounds else tuple(name for name in left if name != reference)
        rounds = halve(entrants, self._timed)
        best, why = winner(rounds, reference)
        self.kept.change(ranking="timed", winner=best, winner_reason=why)

    def _timed(self, number: int, budget_s: float, names: Sequence[str]) -> tuple[Timing, ...]:
        """The timings of one round: those on disk, and those that are missing there."""
        rounds = self.kept.sweep.rounds
        if number == len(rounds):
            self.kept.change(rounds=(*rounds, Round(budget_s, tuple(names), ())))
        had = {timing.variant for timing in self.kept.sweep.rounds[number].timings}
        reference = self.kept.sweep.variant(self.kept.sweep.reference)
        jobs = [
            replace(self._job(self.kept.sweep.variant(name)), reference=(reference.toggles, reference.digest), budget_s=budget_s)
            for name in names
            if name not in had
        ]
        for done in self._each(f"timed in round {number + 1}", work.time_variant, jobs):
            timing = done.timing
            assert timing is not None, "a timing job times"
            self.kept.files(done, lambda name: name.replace("performance.json", f"performance.round{number + 1}.json"))
            rounds = self.kept.sweep.rounds
            self.kept.change(
                rounds=(*rounds[:number], replace(rounds[number], timings=(*rounds[number].timings, timing)), *rounds[number + 1 :])
            )
            if timing.ratio is None:
                self.kept.change_variant(done.variant, dropped=timing.sentence)
            self.kept.progress.done(f"{done.variant}: {timing.sentence}")
        return self.kept.sweep.rounds[number].timings

    def _judge(self) -> None:
        best = self.kept.sweep.winner
        if best is None or self.kept.sweep.run is not None:
            return
        for done in self._each("judged by all gates", work.judge_variant, [self._job(self.kept.sweep.variant(best))]):
            assert done.run is not None, "a whole run has a name"
            path = publish(done, self.options.results, self.task.name)
            self.kept.change(run=path.relative_to(self.options.results).as_posix(), decision=done.run[1])

    def _job(self, variant: Variant) -> work.Job:
        return work.Job(
            variant.name,
            str(self.task.folder),
            variant.toggles,
            variant.digest,
            str(self.options.build_dir.resolve()),
            self.kept.sweep.shapes,
            self.kept.sweep.seed,
            self.cluster.devices[0].arch if self.on_device else None,
            1,
        )

    def _each(self, what: str, function: Work, jobs: Sequence[work.Job]) -> Iterator[work.Done]:
        """What comes of the jobs, each with a device to itself."""
        if not jobs:
            return
        self.kept.progress.step(f"0 of {len(jobs)} variants {what}")
        with self.cluster.jobs() as given:
            for job in jobs:
                given.add(function, job, device=True)
            for number, (_, done) in enumerate(given, 1):
                yield done
                self.kept.progress.step(f"{number} of {len(jobs)} variants {what}")

    def _tell(self, done: work.Done, **values: object) -> Variant:
        judged = replace(self.kept.sweep.variant(done.variant), **values)  # type: ignore[arg-type]
        changed = self.kept.change_variant(done.variant, **values, dropped=dropped_by_gates(judged, on_device=self.on_device))
        said = f"dropped: {changed.dropped}" if changed.dropped else done.found.sentence if done.found else ""
        self.kept.progress.done(f"{done.variant}: {said}")
        return changed
