"""How fast is a search? One run measures answers of `gates evaluate`, a served task, `gates evolve` with its champion, and `gates run`.

It writes DIR/figures.json afresh after every figure, and the search and its champion's run packed beside it:

    python studies/search_speed.py --out DIR --budget-s 280

To keep them: DIR/<id>.zip belongs in results/recorded/<device>-evolve/evolve/<task>/, the files of the run in
results/recorded/<device>-evolve/<task>/.
Without a device nothing is timed; `--profile cpu --evaluations 4` tries everything in some minutes.
"""

from __future__ import annotations

import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from gates.evaluation.evaluator import Evaluator
from gates.evaluation.evolution.record import Evolution, read_evolution
from gates.evaluation.overlay import editable, laid_out
from gates.evaluation.record import Evaluation
from gates.evaluation.terms import Terms
from gates.evidence.packed_runs import copies, replace
from gates.launch.device import probe
from gates.sweep.cluster import core_count
from gates.task.load import find_task

SPACE = {"TILE_M": "16,32,48,64,80,96,128", "TILE_N": "32,64,96", "NUM_WARPS": "1,2,3,4,5,6", "STAGES": "2,3,4"}
BEGIN = {"TILE_M": 16, "NUM_WARPS": 1, "STAGES": 4}  # the slowest of the space that is right: 0.80 of the best
PER_GENERATION = 11  # four generations of the published 45 evaluations
PARTS = ("search", "one_answer", "served", "compile_error", "whole_run")
BROKEN = "\nint broken = not_a_name;\n"
GATES = (sys.executable, "-m", "gates")


class Study:
    """Asks one thing after the other while the budget lasts; ``data`` is what figures.json holds."""

    def __init__(self, out: Path, task: str, profile: str, evaluations: int, budget_s: float, parts: Sequence[str]) -> None:
        self.parts = [getattr(self, part) for part in PARTS if part in parts]
        self.out, self.profile, self.evaluations, self.budget_s, self.began = out, profile, evaluations, budget_s, time.monotonic()
        self.name, self.task = task, find_task(task, environ={})
        self.source = next(path for path in editable(self.task).values() if path in self.task.sources)
        self.work = Path(tempfile.mkdtemp(prefix="gates-search-speed-"))
        devices = () if profile == "cpu" else probe().devices
        self.stage, self.steps = "speed" if devices else "memory", list[str]()
        self.places = ("--results", str(self.work / "results"), "--build-dir", str(self.work / "build"))
        self.data: dict[str, Any] = {
            "schema_version": 1,
            "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "task": self.task.name,
            "device": devices[0].name if devices else None,
            "cores": core_count(),
            "evaluations": evaluations,
            "rows": [],
            "left_out": [],
        }

    def run(self) -> None:
        """Every part that the budget has time for; a part that fails is named and does not stop the next."""
        try:
            for part in self.parts:
                try:
                    if time.monotonic() - self.began > self.budget_s:
                        raise TimeoutError("no time left")
                    part()
                except Exception as error:
                    self.data["left_out"].append(f"{part.__name__}: {error}")
                self._write()
        finally:
            shutil.rmtree(self.work)

    def search(self) -> None:
        """`gates evolve` over the space of the recorded sweep; then it and the champion's run are packed and verified."""
        toggles = [part for name, value in BEGIN.items() for part in ("--toggle", f"{name}={value}")]
        params = [part for name, values in SPACE.items() for part in ("--param", f"{name}={values}")]
        count = ("--evaluations", str(self.evaluations), "--population", str(min(PER_GENERATION, self.evaluations)), "--generations", "20")
        budget = f"{0.7 * self.budget_s:g}s"
        command = ("evolve", self.name, *toggles, *params, *count, "--budget", budget, "--profile", self.profile)
        wall_s, text = self._gates(*command, codes=(0,))
        (self.out / "evolve.log").write_text(text, encoding="utf-8")
        (folder,) = (self.work / "results" / "evolve" / self.task.name).iterdir()
        found = read_evolution(folder)
        searching_s = max(found.generations[-1].spent_s, 0.1)
        self._row("candidates per minute of a search", 60 * len(found.members) / searching_s, "1/min", "at least 20", _outcome(found))
        self._row("a search and its champion's run", wall_s, "s", "", found.stopped)
        kept = [folder, *(place for place in [self.work / "results" / (found.run or "none")] if place.is_dir())]
        self.data["champion"] = {"toggles": found.champion and found.member(found.champion).toggles, "decision": found.decision}
        packed = [replace(path) for path in kept]
        _, verified = self._gates("verify", *map(str, packed), codes=(0, 2))
        self.data["verified"] = [line.replace(f"{self.work}/", "") for line in verified.splitlines() if line.strip()]
        for path in [place for one in packed for place in (one, *copies(one).values()) if place.is_file()]:
            shutil.copyfile(path, self.out / path.name)
        self.data["packed_bytes"] = {path.name: path.stat().st_size for path in packed}

    def one_answer(self) -> None:
        """`gates evaluate` as a process of its own, of a candidate with other text; the incumbent was built by the one before it."""
        for number in range(2):
            path = self.work / "candidate.cu"
            path.write_text(self._text(number), encoding="utf-8")
            wall_s, text = self._gates(*self._evaluate(path), codes=(0, 3))
            if number:
                found = json.loads(text)
                self._row("a candidate judged whole, one process", wall_s, "s", "at most 12", _spent(found))
                self._row("the same without the wait for memory checks", wall_s - _memory_s(found), "s", "at most 6", {})

    def served(self) -> None:
        """Candidates one after the other, then as many at a time as the machine takes."""
        terms = Terms(self.stage, profile=self.profile, results=self.work / "results", build_dir=self.work / "build")
        with Evaluator(self.name, terms) as evaluator:
            for number in (2, 3):
                began = time.monotonic()
                (found,) = evaluator.map([self._candidate(number)])
            wall_s, told = time.monotonic() - began, {"gates": [vars(one) for one in found.gates], "seconds": found.seconds}
            self._row("a candidate judged whole, served", wall_s, "s", "at most 12", _spent(told))
            self._row("the same without the wait for memory checks, served", wall_s - _memory_s(told), "s", "at most 6", {})
            count, began = 12 if self.data["device"] else 2, time.monotonic()
            answers = list(evaluator.map(self._candidate(number) for number in range(10, 10 + count)))
            spent = time.monotonic() - began
        outcome = {status: sum(one.status == status for one in answers) for status in {one.status for one in answers}}
        self._row("candidates per minute, all of them timed", 60 * count / spent, "1/min", "at least 20", {**outcome, **_mean(answers)})

    def compile_error(self) -> None:
        """`gates evaluate` of a text that does not compile, and the same served."""
        path = self.work / "broken.cu"
        for number in range(2):
            path.write_text(self._text(20 + number) + BROKEN, encoding="utf-8")
            wall_s, text = self._gates(*self._evaluate(path), codes=(1,))
        found = json.loads(text)
        named = {"names": sum("not_a_name" in line for line in found["feedback"].splitlines()), **found["seconds"]}
        self._row("compile error to answer, one process", wall_s, "s", "at most 3", named)

    def whole_run(self) -> None:
        """`gates run`, with nothing built and then built: of the first of the timed shapes, and of all."""
        stages = [(self._timed_once(), "of one timed shape"), (self.name, "of all its timed shapes")]
        goals = ["at most 15, without a device 12", ""]
        for (name, what), goal in zip(stages[: 2 if self.data["device"] else 1], goals, strict=False):
            for built in ("first", "built"):
                if time.monotonic() - self.began > self.budget_s:
                    raise TimeoutError(f"no time left for the {built} run {what}")
                wall_s, _ = self._gates("run", name, "--profile", self.profile, codes=(0, 1, 3))
            self._row(f"gates run of a built stage {what}", wall_s, "s", goal, {"steps": self.steps})

    def _timed_once(self) -> str:
        """The folder of a copy of the task that times its first timed shape alone."""
        copy = laid_out(self.task, {}, {}, self.work / "once", baseline=True).folder
        text = yaml.safe_load((copy / "task.yaml").read_text(encoding="utf-8"))
        if "shapes" in text["gates"]["performance"]:
            first, *_ = text["gates"]["performance"]["shapes"].items()
            text["gates"]["performance"]["shapes"] = dict([first])
        (copy / "task.yaml").write_text(yaml.safe_dump(text, sort_keys=False), encoding="utf-8")
        return str(copy)

    def _text(self, number: int) -> str:
        return f"{self.source.read_text(encoding='utf-8')}\n// candidate {number} of {self.began}\n"

    def _candidate(self, number: int) -> dict[str, Any]:
        return {"files": {self.source.name: self._text(number)}}

    def _evaluate(self, path: Path) -> tuple[str, ...]:
        return (
            "evaluate",
            self.name,
            "--source",
            f"{self.source.name}={path}",
            "--stage",
            self.stage,
            "--profile",
            self.profile,
            "--json",
        )

    def _gates(self, *command: str, codes: Sequence[int]) -> tuple[float, str]:
        """(seconds, what it printed) of a gates command; RuntimeError for another exit code."""
        began, places = time.monotonic(), self.places if command[0] != "verify" else self.places[:2]
        done = subprocess.run([*GATES, *command, *places], capture_output=True, text=True, check=False, env={**os.environ, "NO_COLOR": "1"})
        if done.returncode not in codes:
            raise RuntimeError(f"gates {command[0]} ended with {done.returncode}: {(done.stderr or done.stdout)[-600:]}")
        self.steps = done.stderr.splitlines()
        return time.monotonic() - began, done.stdout

    def _write(self) -> None:
        self.data["elapsed_s"] = round(time.monotonic() - self.began, 1)
        (self.out / "figures.json").write_text(json.dumps(self.data, indent=1) + "\n", encoding="utf-8")

    def _row(self, measure: str, value: float, unit: str, goal: str, more: Any) -> None:
        self.data["rows"].append({"measure": measure, "value": round(value, 2), "unit": unit, "goal": goal, "more": more})
        self._write()
        print(f"{measure}: {value:.2f} {unit}{f' ({goal})' if goal else ''} {json.dumps(more)}", flush=True)


def _outcome(found: Evolution) -> dict[str, int]:
    """How many candidates ended with each reason code."""
    codes = [one.code for one in found.members]
    return {
        "candidates": len(codes),
        "timings": sum(len(one.timings) for one in found.generations),
        **{code: codes.count(code) for code in codes},
    }


def _spent(found: dict[str, Any]) -> dict[str, float]:
    return {**found["seconds"], **{one["gate"]: one["seconds"] for one in found["gates"]}}


def _memory_s(found: dict[str, Any]) -> float:
    return float(sum(one["seconds"] for one in found["gates"] if one["gate"] == "sanitizer"))


def _mean(answers: Sequence[Evaluation]) -> dict[str, float]:
    """Mean seconds of each gate and of each kind of wait."""
    pairs = [(name, value) for one in answers for name, value in (*one.seconds.items(), *((gate.gate, gate.seconds) for gate in one.gates))]
    return {name: round(sum(value for other, value in pairs if other == name) / len(answers), 2) for name in dict(pairs)}


@click.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder for figures.json and what is packed.")
@click.option("--task", default="fp16_v8_tiles", show_default=True)
@click.option("--profile", type=click.Choice(["auto", "cpu", "full"]), default="auto", show_default=True)
@click.option("--evaluations", type=click.IntRange(min=2), default=45, show_default=True)
@click.option("--budget-s", type=click.FloatRange(min=1.0), default=280.0, show_default=True, help="No part begins after so long.")
@click.option("--part", "parts", type=click.Choice(PARTS), multiple=True, default=PARTS, help="Measure this alone; may be repeated.")
def main(out: Path, task: str, profile: str, evaluations: int, budget_s: float, parts: tuple[str, ...]) -> None:
    """Measure, and write DIR/figures.json."""
    out.mkdir(parents=True, exist_ok=True)
    Study(out, task, profile, evaluations, budget_s, parts).run()


if __name__ == "__main__":
    main()
