"""A search from its options to the champion's verdict; everything that is done is on disk at once, and done once.

The folder is ``results/evolve/<task>/<id>/``: evolution.json, tree.html, the texts of each candidate, its evaluation, and the timings of
elites. Time alone decides when a search ends early, so the same seed and answers give the same search.
"""

from __future__ import annotations

import platform
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from gates import __version__
from gates.build.build import check_build_root
from gates.core import jsonio
from gates.core.errors import GatesError
from gates.evaluation.describe import describe
from gates.evaluation.evolution import strategies, work
from gates.evaluation.evolution.proposers import DONE, Asked, FromFolder, Parent, Proposal, Proposer
from gates.evaluation.evolution.record import FILE, SCHEMA_VERSION, Evolution, Generation, Member, Refused, read_evolution, write_evolution
from gates.evaluation.overlay import Candidate, digests, editable, id_of, resolved
from gates.evaluation.record import Evaluation, read_evaluation
from gates.evaluation.terms import Terms
from gates.evidence.run_directory import require_outside_a_run
from gates.launch.device import candidates_at_a_time
from gates.pipeline.run import device_record
from gates.render.console import Progress
from gates.render.search.evolution import tree_html
from gates.sweep.cluster import Cluster, Work, core_count
from gates.sweep.kept import held, make_folder, require_writable
from gates.sweep.plan import now
from gates.sweep.record import sweep_id
from gates.sweep.workers import workers
from gates.task.load import Task, nearest, parse_toggle

MOST_PROPOSALS = 1000  # that are looked at for one generation
MOST_IDLE = 3  # generations without a new candidate
_CHARACTERS = 300  # of a refusal's reason
_MOST_TOLD = 3  # refusals of a generation, on the terminal
_FAILURES = 20  # the last ones, that a program is shown


@dataclass(frozen=True)
class Options:
    """What the user asked for. ``enough_pct``: stop at this share of the hardware's limit."""

    task: str
    proposers: tuple[Proposer, ...]
    strategy: str = "beam"
    generations: int = 10
    population: int = 5
    elite: int = 3
    evaluations: int = 45
    budget_s: float = 1800.0
    enough_pct: float | None = None
    seed: int = 0
    stage: str = "memory"  # without a device; on one, speed
    against: str = "task"
    timing_s: float = 10.0
    profile: str = "auto"
    scheduler: str | None = None
    workers: int | None = None
    results: Path = Path("results")
    build_dir: Path = Path("build")
    toggles: Mapping[str, int | str] = field(default_factory=dict)  # where the search begins, and what is timed against


def evolve(options: Options, progress: Progress) -> tuple[Path, Evolution]:
    """Do what is left of the search and return its folder and record.

    Raises GatesError for bad input, for a folder that was edited or is in use, and if nothing can be built or no workers can be had.
    """
    task = Terms(toggles=options.toggles).task(options.task)
    if not options.proposers:
        raise GatesError("nothing proposes candidates", hint="give --param, --patches, --from or --propose")
    check_build_root(options.build_dir)
    home = options.results / "evolve" / task.name
    require_outside_a_run(home / FILE)
    for place in (home, options.results / task.name):  # the champion's run goes to the second
        require_writable(place)
    with workers(options.profile, options.scheduler, options.workers, progress, whole=True) as (cluster, _):
        new = _plan(task, options, cluster)
        folder = home / new.id
        make_folder(folder)
        with held(folder):
            search = _Search(task, options, cluster, folder, _begun(folder, new), progress)
            try:
                search.do()
            except (KeyboardInterrupt, GatesError):
                progress.done(f"kept so far: {len(search.found.judged())} evaluations in {folder}; the same command continues")
                raise
            return folder, search.found


def _plan(task: Task, options: Options, cluster: Cluster) -> Evolution:
    devices, limits = cluster.devices, task.gates["performance"]
    if devices and not task.timed_shapes:
        raise GatesError(f"{task.folder / 'task.yaml'} names no gates.performance.shape to time", hint="add it, or use --profile cpu")
    told = tuple(one.told for one in options.proposers)
    terms: dict[str, Any] = {
        "task": task.name,
        "task_digest": task.digest(),
        "proposers": told,
        "strategy": options.strategy,
        "population": options.population,
        "elite": options.elite,
        "seed": options.seed,
        "stage": "speed" if devices else options.stage,
        "against": options.against,
    }
    identity = sweep_id({**terms, "device": devices[0].name if devices else None, "gates": __version__})
    return Evolution(
        schema_version=SCHEMA_VERSION,
        tool_version=__version__,
        id=identity,
        **terms,
        timed_shape=next(iter(task.timed_shapes), ""),
        cache=limits.get("cache", "cold"),
        devices=tuple(record for device in devices if (record := device_record(device))),
        platform=platform.platform(),
        members=(),
        generations=(),
        stopped="",
        champion=None,
        run=None,
        decision=None,
        started=now(),
        ended="",
    )


def _begun(folder: Path, new: Evolution) -> Evolution:
    """The search that ``folder`` has, else ``new``, written; raises GatesError for one that was edited."""
    if not (folder / FILE).is_file():
        write_evolution(folder, new)
        return new
    old = read_evolution(folder)
    if (old.id, old.task_digest) != (new.id, new.task_digest):
        raise GatesError(f"{folder / FILE} is not of this search", hint="remove the folder to start again")
    return old


class _Search:
    """The generations, each of which leaves out what was done before."""

    def __init__(self, task: Task, options: Options, cluster: Cluster, folder: Path, found: Evolution, progress: Progress) -> None:
        self.task, self.options, self.cluster, self.folder, self.found, self.progress = task, options, cluster, folder, found, progress
        self.sources = {name: path.read_text(encoding="utf-8", errors="replace") for name, path in editable(task).items()}
        self._began, self._before = time.monotonic(), found.generations[-1].spent_s if found.generations else 0.0
        home = folder.resolve()
        self.terms = Terms(
            found.stage,
            found.against,
            "full" if cluster.devices else "cpu",
            budget_s=options.timing_s,
            results=home,
            build_dir=options.build_dir.resolve(),
            toggles=options.toggles,
        )

    @property
    def spent_s(self) -> float:
        """Seconds of the search so far, those before an interruption included."""
        return self._before + time.monotonic() - self._began

    def do(self) -> None:
        """Everything that is left."""
        if self.found.ended:
            return
        while True:
            under_way = bool(self.found.generations) and self.found.generations[-1].best is None
            if not under_way:
                if self.found.generations and (why := self._stop()):
                    break
                self._propose()
            self._judge_generation()
            self._draw()
        self._change(stopped=why, champion=strategies.champion_of(self.found))
        self._judge_champion()
        self._change(ended=now())
        self._draw()

    def _stop(self) -> str:
        """Why there is no further generation; empty if there is one."""
        options, ended = self.options, self.found.generations
        count = len(self.found.members)
        if not self.found.members[0].valid:
            return f"the task as it is does not pass: {self.found.members[0].code}"
        if count >= options.evaluations:
            return f"{count} evaluations"
        if len(ended) > options.generations:
            return f"{options.generations} generations"
        if self.spent_s >= options.budget_s:
            return f"the budget of {options.budget_s:g} s is spent"
        watched = [one for one in options.proposers if isinstance(one, FromFolder) and one.exhausted((*self.found.members, *self._refused))]
        if len(watched) == len(options.proposers):
            return f"all of {', '.join(str(one.folder) for one in watched)} was tried, and its file `{DONE}` says that no more comes"
        if len(ended) > MOST_IDLE and not any(one.members for one in ended[-MOST_IDLE:]):
            return f"nothing new was proposed {MOST_IDLE} times"
        if strategies.stalled(self.found):
            return f"{strategies.STALLED_GENERATIONS} generations brought less than {strategies.STALLED_PCT} %"
        best = self.found.member(ended[-1].best) if ended[-1].best else None
        share = (best.metrics or {}).get("limit_share_pct") if best else None
        if options.enough_pct is not None and share is not None and share >= options.enough_pct:
            return f"{share:.0f} % of the hardware's limit is reached"
        return ""

    def _propose(self) -> None:
        """Begin a generation: the first has the task as it is, each other one what the proposers give."""
        number = len(self.found.generations)
        if not number:
            self._begin(0, (), [("task", Candidate(name=self.task.name, note="the task as it is"))], ())
            return
        parents = strategies.parents_of(self.found, number)
        wanted = min(self.options.population, self.options.evaluations - len(self.found.members))
        asked = self._asked(number, parents, wanted)
        taken: dict[str, tuple[str, Candidate]] = {}
        refused: list[Refused] = []
        for proposer, proposal in self._proposals(asked):
            if isinstance(proposal, Refused):
                refused.append(replace(proposal, why=proposal.why[:_CHARACTERS]))
                continue
            try:
                identity = self._id(proposal)
            except GatesError as error:
                refused.append(Refused(proposer, proposal.name, error.what[:_CHARACTERS]))
                continue
            taken.setdefault(identity, (proposer, proposal))
            if len(taken) == wanted:
                break
        for one in refused[:_MOST_TOLD]:
            self.progress.done(f"{one.name or one.proposer}: refused: {one.why}")
        if (more := len(refused) - _MOST_TOLD) > 0:
            self.progress.done(f"{more} more were refused: {self.folder / 'tree.html'} says why")
        self._begin(number, tuple(one.id for one in parents), list(taken.values()), tuple(refused))

    def _proposals(self, asked: Asked) -> Iterator[tuple[str, Proposal]]:
        """What the proposers give, in turns so that none of several goes without; if none gives any, what comes while one waits."""
        for proposer in self.options.proposers:
            self.progress.step(f"generation {asked.generation}: asking {proposer.told[:80]}")
        left, count = [(one.name, one.propose(asked)) for one in self.options.proposers], 0
        while left and count < MOST_PROPOSALS:
            name, given = left.pop(0)
            if (proposal := next(given, None)) is not None:
                yield name, proposal
                left.append((name, given))
                count += 1
        for watcher in (one for one in self.options.proposers if isinstance(one, FromFolder) and not count):
            self.progress.step(
                f"generation {asked.generation}: waiting for a folder in {watcher.folder}; a file `{DONE}` there ends it, Ctrl-C keeps all"
            )
            yield from ((watcher.name, proposal) for proposal in watcher.propose(replace(asked, wait=True)))

    def _begin(self, number: int, parents: tuple[str, ...], given: Sequence[tuple[str, Candidate]], refused: tuple[Refused, ...]) -> None:
        members = []
        for proposer, one in given:
            files, toggles = self._resolved(one)
            identity = id_of(self.task.name, self.found.task_digest, digests(files), toggles)
            for name, text in files.items():
                path = self.folder / "candidates" / identity / name
                make_folder(path.parent)
                jsonio.write_text(path, text)
            members.append(Member(identity, number, proposer, one.name, one.note, one.parent, digests(files), toggles))
        generation = Generation(number, parents, tuple(one.id for one in members), refused)
        self._change(members=(*self.found.members, *members), generations=(*self.found.generations, generation))

    def _judge_generation(self) -> None:
        """Evaluate the new members, and on a device time the elites again while they are compiled."""
        number, again = len(self.found.generations) - 1, list[Member]()
        new = [self.found.member(name) for name in self.found.generations[-1].members]
        if self.cluster.devices and number:
            had = {timing.variant for timing in self.found.generations[-1].timings}
            again = [one for one in strategies.ranked(self.found, number)[: self.found.elite] if one.id not in had]
        jobs = [(work.time_there, again), (work.evaluate_there, [one for one in new if not one.status])]
        for done in self._each(f"evaluated or timed again in generation {number}", *jobs):
            if isinstance(done, work.Evaluated):
                self._take(done)
                continue
            place = self.folder / "timings" / f"{number}" / f"{done.id}.json"
            make_folder(place.parent)
            jsonio.write_text(place, done.evidence)
            self._change_last(timings=(*self.found.generations[-1].timings, done.timing))
        best, score = strategies.best_of(self.found)
        self._change_last(best=best or self.found.members[0].id, best_score=score, spent_s=round(self.spent_s, 1))
        shown = f", score {score:.4f}" if score is not None else ""
        self.progress.done(f"generation {number}: {len(new)} new, best {self._shown(self.found.member(best)) if best else 'none'}{shown}")

    def _take(self, done: work.Evaluated) -> None:
        said = done.evaluation
        if not (self.folder / said.evidence).is_dir():
            raise GatesError(
                f"a worker's evaluation is not in {self.folder / said.evidence}",
                hint="workers must share the results folder, by the same path",
            )
        fields = {name: getattr(said, name) for name in ("status", "code", "stage", "valid", "score", "score_high", "metrics")}
        members = tuple(replace(one, **fields) if one.id == done.id else one for one in self.found.members)
        self._change(members=members)
        one = self.found.member(done.id)
        score = f", score {said.score:.4f}" if said.score is not None else ""
        first = said.feedback.partition("\n")[0]
        self.progress.done(f"{self._shown(one)}: {said.status}{score}" + ("" if said.valid else f": {first[:160]}"))

    def _judge_champion(self) -> None:
        if self.found.champion is None or self.found.run is not None:
            return
        one, results = self.found.member(self.found.champion), self.options.results.resolve()
        for done in self._each("judged by all gates", (work.run_there, [one]), results=results):
            self._change(run=done.run, decision=done.decision)

    def _each(self, what: str, *work_on: tuple[Work, Sequence[Member]], results: Path | None = None) -> Iterator[Any]:
        """What comes of each function's members, in the order of their ends."""
        pairs = [(function, one) for function, members in work_on for one in members]
        if not pairs:
            return
        self.progress.step(f"0 of {len(pairs)} {what}")
        share = self._share(len(pairs))
        with self.cluster.jobs() as jobs:
            for function, one in pairs:
                terms = replace(self.terms, results=results or self.terms.results, jobs=share)
                ask = work.Ask(one.id, str(self.task.folder), self._candidate(one), terms)
                jobs.add(function, ask, device=bool(self.cluster.devices))
            for count, (_, done) in enumerate(jobs, 1):
                yield done
                self.progress.step(f"{count} of {len(pairs)} {what}")

    def _share(self, asked: int) -> int:
        """How many processes each of so many candidates may start, of which the workers take some at a time."""
        devices, cores = self.cluster.devices, core_count()
        least = 2 if devices else 1
        if self.options.scheduler is not None:  # the workers' machines may have any number of cores
            return least
        at_a_time = self.options.workers or (candidates_at_a_time(devices, cores) if devices else cores)
        return max(least, cores // min(asked, at_a_time))

    def _asked(self, number: int, parents: Sequence[Member], wanted: int) -> Asked:
        known = {one.id for one in self.found.members}
        return Asked(
            wanted,
            number,
            self.sources,
            dict(self.task.toggles),
            self._parent(self.found.members[0]),
            tuple(map(self._parent, parents)),
            self.found.members,
            self._refused,
            lambda candidate: self._known(candidate, known),
            random.Random(f"{self.found.seed} {number}"),
            max(0.0, self.options.budget_s - self.spent_s),
            self._context,
            lambda name: self._parent(self.found.member(name)) if name in known else None,
        )

    def _known(self, candidate: Candidate, known: set[str]) -> bool:
        """Whether it was tried; what is not a candidate was not, and is refused with its reason afterwards."""
        try:
            return self._id(candidate) in known
        except GatesError:
            return False

    def _context(self) -> Mapping[str, Any]:
        """For a program: the task, what failed last and why, and what is to be beaten."""
        failed = [one for one in self.found.judged() if not one.valid][-_FAILURES:]
        refused = self._refused[-_FAILURES:]
        return {
            "task": self._described,
            "incumbent": {"id": self.found.members[0].id, "score": self.found.members[0].score},
            "failures": [{"id": one.id, "name": one.name, "code": one.code, "feedback": self._said(one).feedback} for one in failed]
            + [{"name": one.name, "refused": one.why} for one in refused],
        }

    @property
    def _refused(self) -> tuple[Refused, ...]:
        return tuple(one for generation in self.found.generations for one in generation.refused)

    @cached_property
    def _described(self) -> dict[str, Any]:
        return describe(self.task, self.options.results)

    def _parent(self, member: Member) -> Parent:
        return Parent(
            member.id,
            self._candidate(member),
            strategies.score_of(member, self.found.generations),
            self._said(member).feedback if member.status else "",
        )

    def _said(self, member: Member) -> Evaluation:
        return read_evaluation(self.folder / "evaluations" / self.found.task / member.id)

    def _candidate(self, member: Member) -> Candidate:
        """The member as a candidate, with its texts from disk."""
        root = self.folder / "candidates" / member.id
        files = {name: (root / name).read_text(encoding="utf-8") for name in member.files}
        if digests(files) != dict(member.files):
            raise GatesError(f"the texts in {root} were changed", hint="remove the search's folder to start again")
        changed = {name: value for name, value in member.toggles.items() if self.task.toggles[name] != value}
        return Candidate(files, changed, member.name, member.parent, member.note)

    def _resolved(self, candidate: Candidate) -> tuple[dict[str, str], dict[str, int]]:
        """(texts by their places, toggles in force); GatesError for what is not a candidate of the task."""
        toggles = dict(self.task.toggles)
        for name, value in candidate.toggles.items():
            if name not in toggles:
                raise GatesError(f"{self.task.name} has no toggle {name!r:.80}", hint=nearest(name, toggles))
            toggles[name] = parse_toggle(name, str(value), "a candidate")
        return resolved(self.task, candidate), toggles

    def _id(self, candidate: Candidate) -> str:
        files, toggles = self._resolved(candidate)
        return id_of(self.task.name, self.found.task_digest, digests(files), toggles)

    def _shown(self, member: Member) -> str:
        return member.name or member.id

    def _change_last(self, **values: object) -> None:
        last = replace(self.found.generations[-1], **values)  # type: ignore[arg-type]
        self._change(generations=(*self.found.generations[:-1], last))

    def _change(self, **values: object) -> None:
        """Replace fields of the record, on disk before this returns."""
        self.found = replace(self.found, **values)  # type: ignore[arg-type]
        write_evolution(self.folder, self.found)

    def _draw(self) -> None:
        jsonio.write_text(
            self.folder / "tree.html", tree_html(self.found, partial(strategies.score_of, generations=self.found.generations))
        )
