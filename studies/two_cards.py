"""What does a second card bring? A sweep and a search's candidates, each on one card with half of the cores, then on two with all of them.

Both cards are busy all the time: one has the sweep while the other has the candidates, then both have the sweep, then the candidates.
The sweep's task times its first shape alone, as the recorded one did. Candidates are those of a recorded sweep, each with other text, so
that each is compiled: of seven, three do not compile, two spill, one is refused by the launch, one is right and timed. At last a worker of
one card is killed while it judges. One command, of nine minutes on H200s, written to DIR/figures.json after each part; the packed
sweeps are written next to it:

    python studies/two_cards.py --out DIR

Without a device nothing is timed; `--profile cpu --candidates 7 --param BLOCK=64,128 --task FOLDER` tries it on one core and on two.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import click
import yaml

from gates.core import jsonio
from gates.core.errors import GatesError
from gates.evaluation.evaluator import Evaluator
from gates.evaluation.overlay import Candidate, editable, laid_out
from gates.evaluation.record import FILE, Evaluation
from gates.evaluation.terms import Terms
from gates.evaluation.verify import verify_evaluation
from gates.evidence.packed_runs import replace
from gates.gate.correctness import codes as correctness
from gates.gate.ptxas import codes as ptxas
from gates.gate.reasons import BUILD_FAILED
from gates.launch.device import DeviceInfo, candidates_at_a_time, probe
from gates.sweep.cluster import Cluster, local_cluster, one_kind
from gates.sweep.record import read_sweep
from gates.task.load import Task, find_task

ROOT = Path(__file__).resolve().parent.parent
RECORDED = ROOT / "results" / "recorded" / "h200-sweep" / "sweeps" / "fp16_v8_tiles" / "94df14572477.zip"
SPACE = ("TILE_M=16,32,48,64,80,96", "TILE_N=32,64", "NUM_WARPS=1,2,3,4,5,6", "STAGES=2,3")  # a part of the recorded one
FAILED, SPILLS, REFUSED, RIGHT = BUILD_FAILED.of("ptxas"), str(ptxas.SPILLS), str(correctness.LAUNCH_ERROR), str(correctness.PASS)
KINDS = (FAILED, RIGHT, FAILED, SPILLS, FAILED, REFUSED, SPILLS)  # in turn; the recorded search's 45 were 22, 7, 11 and 5 of these
GATES = (sys.executable, "-m", "gates")
GOAL = 1.7
KILL_AFTER = 3  # answers
FAULTS = ("lost", "judged_twice", "unasked", "misjudged", "unsound", "overlaps")  # of a part's figures: all are to be empty or 0


@dataclass(frozen=True)
class Arm:
    """What one side of the comparison has."""

    cards: Sequence[DeviceInfo]
    cores: frozenset[int]


@dataclass(frozen=True)
class Asked:
    """A candidate, and the code that the recorded sweep gave its toggles."""

    candidate: Candidate
    code: str


def arms_of(cards: Sequence[DeviceInfo], cores: Sequence[int]) -> tuple[Arm, Arm, Arm]:
    """Each of the two cards with half of the cores, then both with all; without a card, the cores alone."""
    half = max(1, len(cores) // 2)
    return Arm(cards[:1], frozenset(cores[:half])), Arm(cards[1:2], frozenset(cores[half:] or cores)), Arm(cards[:2], frozenset(cores))


@cache
def recorded() -> dict[str, list[Mapping[str, int]]]:
    """Return the toggles of the recorded variants with USE_WMMA=2, grouped by the code of the last gate they reached.

    Today's stage equals USE_WMMA=2.
    """
    found: dict[str, list[Mapping[str, int]]] = {kind: [] for kind in KINDS}
    for one in read_sweep(RECORDED).variants:
        last = one.correctness or one.ptxas
        if last is not None and last.code in found and one.toggles["USE_WMMA"] == 2:
            found[last.code].append(one.toggles)
    return found


def candidates(task: str, count: int, mark: str) -> list[Asked]:
    """``count`` candidates in turns of KINDS, toggles from the recorded sweep, no two of the same text."""
    of_kind = {kind: itertools.cycle(toggles) for kind, toggles in recorded().items()}
    found = find_task(task, environ={})
    source = next(path for path in editable(found).values() if path in found.sources)
    text = source.read_text(encoding="utf-8")
    asked = []
    for number, kind in zip(range(count), itertools.cycle(KINDS), strict=False):
        toggles = {name: value for name, value in next(of_kind[kind]).items() if name in found.toggles}
        asked.append(Asked(Candidate({source.name: f"{text}\n// {mark} {number}\n"}, toggles, f"{mark} {number}"), kind))
    return asked


def of_one_shape(task: Task, root: Path) -> Path:
    """The folder of a copy of ``task`` and its baselines below ``root``, which time the first of their shapes alone."""
    folder = laid_out(task, {}, {}, root, baseline=True).folder
    for path in folder.parent.rglob("task.yaml"):
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        asked = data["gates"]["performance"]
        shapes = asked.pop("shapes", None)
        if isinstance(shapes, dict):
            shape, least = next(iter(shapes.items()))
            data["gates"]["performance"] = {"shape": shape, "min_speedup_pct": least, **asked}
        path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return folder


def overlaps(folders: Sequence[Path]) -> list[str]:
    """Timings in ``folders`` that began on a card before another one there had ended; each names its card and its times."""
    spans: dict[str, list[tuple[str, str, str]]] = {}
    for path in (path for folder in folders for path in sorted(folder.rglob("performance*.json"))):
        data = jsonio.read(path)
        if data["status"] == "measured":
            name = path.relative_to(path.parents[2]).as_posix()
            spans.setdefault(data["device"]["uuid"], []).append((data["span"]["began"], data["span"]["ended"], name))
    return [
        f"{card}: {later[2]} began {later[0]}, {earlier[2]} ended {earlier[1]}"
        for card, found in spans.items()
        for earlier, later in itertools.pairwise(sorted(found))
        if later[0] < earlier[1]
    ]


def busy_s(folders: Sequence[Path]) -> dict[str, float]:
    """Seconds that timings held each card."""
    found: dict[str, float] = {}
    for path in (path for folder in folders for path in folder.rglob("performance*.json")):
        data = jsonio.read(path)
        if data["status"] == "measured":
            began, ended = (datetime.datetime.fromisoformat(data["span"][end]) for end in ("began", "ended"))
            found[data["device"]["uuid"]] = round(found.get(data["device"]["uuid"], 0.0) + (ended - began).total_seconds(), 1)
    return found


def tally(asked: Sequence[Asked], answers: Sequence[Evaluation | None], kept: Path, *, timed: bool, killed: bool = False) -> dict[str, Any]:
    """What came of the candidates: an answer each, one evaluation each, of the recorded code; unsound evidence; overlapping timings.

    An answer is cached if another process has judged the candidate: once, if that was ``killed`` before it could answer.
    """
    folders = sorted(path.parent for path in kept.glob(f"*/{FILE}")) if kept.is_dir() else []
    given = [answer for answer in answers if answer is not None]
    mine = {answer.id for answer in given}
    expected = [(one.candidate.name, one.code.endswith(".pass"), one.code) for one in asked]
    misjudged = [
        f"{name}: {answer.status} ({answer.code}), recorded {code}"
        for (name, right, code), answer in zip(expected, answers, strict=True)
        if answer is not None and (not answer.valid if right else answer.code != code)
    ]
    of_mine = [folder for folder in folders if folder.name in mine]
    return {
        "candidates": len(asked),
        "codes": {code: sum(one.code == code for one in given) for code in sorted({one.code for one in given})},
        "lost": len(asked) - len(given),
        "judged_twice": len(given) - len(mine) + max(0, sum(one.cached for one in given) - killed),
        "unasked": [folder.name for folder in folders if folder.name not in mine],
        "misjudged": misjudged,
        "unsound": [folder.name for folder in of_mine if verify_evaluation(folder)],
        "timings": sum((folder / "performance.json").is_file() for folder in of_mine),
        "timings_s": busy_s(of_mine),
        "overlaps": overlaps(of_mine) if timed else [],
        "mean_s": _mean(given),
    }


def _mean(answers: Sequence[Evaluation]) -> dict[str, float]:
    """Mean seconds of each gate and each kind of wait, over the candidates that had it."""
    spent: dict[str, list[float]] = {}
    for one in answers:
        for name, value in (*one.seconds.items(), *((gate.gate, gate.seconds) for gate in one.gates)):
            spent.setdefault(name, []).append(value)
    return {name: round(sum(values) / len(values), 2) for name, values in spent.items()}


@contextlib.contextmanager
def on_cores(cores: frozenset[int]) -> Iterator[None]:
    """Have this thread, and all that it starts, use ``cores`` alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Study:
    """One part after the other while the budget lasts; ``data`` is what figures.json holds."""

    def __init__(self, out: Path, task: str, profile: str, count: int, killed: int, params: Sequence[str], budget_s: float) -> None:
        self.out, self.task, self.count, self.killed, self.params, self.budget_s = out, task, count, killed, params, budget_s
        cards = () if profile == "cpu" else one_kind(probe().devices[:2])
        if profile != "cpu" and len(cards) < 2:
            raise click.ClickException(f"two cards are needed, there are {len(cards)}; --profile cpu tries it without")
        self.first, self.second, self.both = arms_of(cards, sorted(os.sched_getaffinity(0)))
        self.began, self.work, self._lock = time.monotonic(), Path(tempfile.mkdtemp(prefix="gates-two-cards-")), threading.Lock()
        self.data: dict[str, Any] = {
            "schema_version": 1,
            "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "task": find_task(task, environ={}).name,
            "cards": [[card.name, card.uuid] for card in cards],
            "cores": {"one": len(self.first.cores), "two": len(self.both.cores)},
            "sweep": {},
            "evaluations": {},
            "killed_worker": {},
            "left_out": [],
        }

    @property
    def left_s(self) -> float:
        """Seconds until the budget is spent."""
        return self.budget_s - (time.monotonic() - self.began)

    def run(self) -> None:
        """Every part that the budget has time for; one that fails is named, and the next one begins."""
        try:
            with ThreadPoolExecutor(1) as beside:
                swept = beside.submit(self._part, self.sweep, "one", self.first)
                self._part(self.evaluations, "one", self.second)
                swept.result()
            self._part(self.sweep, "two", self.both)
            self._part(self.evaluations, "two", self.both)
        finally:
            shutil.rmtree(self.work, ignore_errors=True)

    def _part(self, part: Callable[[str, Arm], dict[str, Any]], name: str, arm: Arm) -> None:
        """Put what ``part`` gives into the figures, and them on disk."""
        key, why = (part.func if isinstance(part, partial) else part).__name__, ""
        try:
            if self.left_s <= 0.0:
                raise TimeoutError("no time left")
            row = part(name, arm)
        except Exception as error:
            row, why = {}, f"{key} {name}: {error or type(error).__name__}"
        with self._lock:
            self.data[key][name] = row
            self.data["left_out"] += [why] if why else []
            self.data["elapsed_s"] = round(time.monotonic() - self.began, 1)
            rows = [self.data[key].get(one) for one in ("one", "two")]
            if key in ("sweep", "evaluations") and all(rows):
                self.data[key]["ratio"] = round(rows[0]["wall_s"] / max(rows[1]["wall_s"], 0.001), 3)
            jsonio.write_text(self.out / "figures.json", json.dumps(self.data, indent=1) + "\n")
            print(f"{key} {name}: {json.dumps(row) if row else why}", flush=True)

    def sweep(self, name: str, arm: Arm) -> dict[str, Any]:
        """`gates sweep` of the space with nothing built, from its start to its winner's verdict."""
        place = self.work / f"sweep-{name}"
        task = of_one_shape(find_task(self.task, environ={}), place / "project")
        profile = ("--profile", "full" if arm.cards else "cpu", "--results", str(place), "--build-dir", str(place / "build"))
        params = [part for one in self.params for part in ("--param", one)]
        env = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(card.uuid for card in arm.cards), "NO_COLOR": "1"}
        began = time.monotonic()
        with on_cores(arm.cores):
            done = subprocess.run(
                [*GATES, "sweep", str(task), *params, *profile],
                capture_output=True,
                text=True,
                check=False,
                env=env,
                timeout=max(self.left_s, 1.0),
            )
        wall_s = time.monotonic() - began
        if done.returncode not in (0, 1, 3):
            raise RuntimeError(f"gates sweep ended with {done.returncode}: {(done.stderr or done.stdout)[-600:]}")
        (folder,) = (place / "sweeps" / self.data["task"]).iterdir()
        found = read_sweep(folder)
        row = {
            "wall_s": round(wall_s, 3),
            "variants": len(found.variants),
            "left": len(found.left()),
            "timings": sum(len(part.timings) for part in found.rounds),
            "timings_s": busy_s([folder]),
            "overlaps": overlaps([folder]),
            "winner": found.winner,
            "decision": found.decision,
        }
        for path in [folder, *([place / found.run] if found.run else [])]:
            packed = replace(path)
            shutil.copyfile(packed, self.out / f"{name}-{packed.name}")
        return row

    def evaluations(self, name: str, arm: Arm) -> dict[str, Any]:
        """Candidates through the evaluator with nothing built, as many at a time as the machine takes; on two cards then those beside a
        killed worker.
        """
        asked = candidates(self.task, self.count, f"{self.data['started']} {name}")
        with self._evaluator(arm) as (evaluator, cluster, kept):
            began = time.monotonic()
            answers = self._answers([evaluator.submit(one.candidate) for one in asked])
            wall_s = time.monotonic() - began
            row = tally(asked, answers, kept, timed=bool(arm.cards))
            if arm is self.both:
                shutil.rmtree(kept)
                self._part(partial(self.killed_worker, evaluator, cluster, kept), name, arm)
        return {"wall_s": round(wall_s, 3), "per_minute": round(60 * (len(asked) - row["lost"]) / wall_s, 1), **row}

    def killed_worker(self, evaluator: Evaluator, cluster: Cluster, kept: Path, _: str, arm: Arm) -> dict[str, Any]:
        """Kill a worker of the last card while it judges; its candidate goes to another."""
        asked = candidates(self.task, self.killed, f"{self.data['started']} killed")
        futures = [evaluator.submit(one.candidate) for one in asked]
        while sum(one.done() for one in futures) < min(KILL_AFTER, len(futures)) and self.left_s > 0.0:
            time.sleep(0.05)
        killed = self._kill(cluster, arm.cards[-1].uuid if arm.cards else "")
        answers = self._answers(futures)
        return {"killed": killed, **tally(asked, answers, kept, timed=bool(arm.cards), killed=True)}

    @contextlib.contextmanager
    def _evaluator(self, arm: Arm) -> Iterator[tuple[Evaluator, Cluster, Path]]:
        """An evaluator over workers of ``arm``, these workers, and the folder of their evaluations."""
        place = Path(tempfile.mkdtemp(prefix="evaluations-", dir=self.work))
        terms = Terms("speed" if arm.cards else "numbers", profile="full" if arm.cards else "cpu", results=place, build_dir=place / "build")
        with on_cores(arm.cores):
            at_a_time = candidates_at_a_time(arm.cards, len(arm.cores))
            cluster = local_cluster(arm.cards, 0, -(-at_a_time // len(arm.cards))) if arm.cards else local_cluster((), at_a_time)
            with cluster as workers, Evaluator(self.task, terms, at_a_time, workers.client.scheduler.address) as evaluator:
                yield evaluator, workers, place / "evaluations" / self.data["task"]

    def _answers(self, futures: Sequence[Future[Evaluation]]) -> list[Evaluation | None]:
        """The answers within the budget; None for one that is lost."""
        found: list[Evaluation | None] = []
        for future in futures:
            try:
                found.append(future.result(max(self.left_s, 0.0)))
            except (GatesError, Late) as error:
                self.data["left_out"].append(f"a candidate is lost: {error or 'no time left'}")
                found.append(None)
                if isinstance(error, Late):
                    for one in futures:
                        one.cancel()
        return found

    def _kill(self, cluster: Cluster, card: str) -> str:
        """Kill a worker of ``card`` that is at a job; return the card's name for it."""
        while self.left_s > 0.0:
            at_work = {address for address, keys in cluster.client.processing().items() if keys}
            workers = cluster.client.run(_place)
            for address, (pid, place) in workers.items():
                if address in at_work and place == card:
                    os.kill(pid, signal.SIGKILL)
                    return f"{place or 'no card'}, process {pid}"
            time.sleep(0.1)
        raise TimeoutError("no worker of the card was at work")


def _place() -> tuple[int, str]:
    """(process, the card that it sees) of a worker."""
    return os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES", "")


def faults(data: dict[str, Any]) -> list[str]:
    """What in the figures is not as it should be, one phrase each; a part that was left out is one."""
    found = list(data["left_out"])
    for part in ("sweep", "evaluations"):
        rows = data[part]
        if data["cards"] and rows.get("ratio", 0.0) < GOAL:
            found.append(f"{part}: {rows.get('ratio')} times as fast with two cards")
    winners = {row["winner"] for row in data["sweep"].values() if isinstance(row, dict) and row}
    if len(winners) != 1:
        found.append(f"the sweeps' winners: {', '.join(map(str, winners))}")
    for part in ("sweep", "evaluations", "killed_worker"):
        for name, row in data[part].items():
            if isinstance(row, dict):
                found += [f"{part} {name}: {key} {row[key]}" for key in FAULTS if row.get(key)]
    return found


@click.command()
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder for figures.json and the packed sweeps."
)
@click.option("--task", default="fp16_v8_tiles", show_default=True)
@click.option("--profile", type=click.Choice(["full", "cpu"]), default="full", show_default=True)
@click.option("--candidates", "count", type=click.IntRange(min=1), default=200, show_default=True)
@click.option("--killed", type=click.IntRange(min=KILL_AFTER), default=14, show_default=True, help="Candidates beside a killed worker.")
@click.option("--param", "params", multiple=True, default=SPACE, help="Of the sweep.  [default: a part of the recorded one]")
@click.option("--budget-s", type=click.FloatRange(min=1.0), default=570.0, show_default=True, help="Stop after this many seconds.")
def main(out: Path, task: str, profile: str, count: int, killed: int, params: tuple[str, ...], budget_s: float) -> None:
    """Measure, write DIR/figures.json, and end with 1 if something is not as it should be."""
    out.mkdir(parents=True, exist_ok=True)
    study = Study(out, task, profile, count, killed, params, budget_s)
    study.run()
    for fault in (found := faults(study.data)):
        print(f"not as it should be: {fault}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
