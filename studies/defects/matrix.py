"""Run the gates of every planted defect and of the honest stages, and keep what each gate said.

The gates are the steps of ``gates run`` themselves (``gates.gate.session``), one after the other on one
task; only the order among the tasks is this module's: many at a time where a gate needs no quiet
machine, one at a time where it measures. What there is no time for is "not tried", never a verdict.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from defects.catalogue import DEFECTS, HONEST
from defects.folders import Workshop
from defects.record import Defect
from gates import __version__
from gates.build.build import build
from gates.build.dumps import StaticTexts, collect
from gates.build.result import BuildResult
from gates.build.toolchain import find_toolchain
from gates.core import jsonio
from gates.core.errors import GatesError
from gates.core.records import Status
from gates.evidence.run_directory import SCHEMA_VERSION, Git, RunDirectory, RunInfo, TaskInfo, utc_now
from gates.gate.registry import FIRST_GATES
from gates.gate.session import Session, judge_step
from gates.launch.device import DeviceInfo
from gates.launch.replay import write_memory_cases
from gates.render.console import Progress
from gates.task.load import Task, load_baseline, load_task

TOGETHER = ("ptxas", "sass", "correctness", "sanitizer")
ALONE = ("performance", "ncu")


class Quiet(Progress):
    """No steps on the terminal: many tasks run at a time."""

    def _line(self, text: str) -> None:
        del text


class Trial:
    """One task with its session, and the row of the matrix that it fills."""

    def __init__(self, name: str, bench: Bench) -> None:
        self.name, self.defect, self.bench = name, DEFECTS.get(name), bench
        self.row: dict[str, Any] = {"name": name, "gates": {}, "wall_s": {}}
        self.session: Session | None = None

    @property
    def toolbox(self) -> bool:
        """Whether toolbox/mix.cu is its source."""
        return bool(self.defect.entry) and self.defect.source == "mix.cu" if self.defect else self.name in ("mix", "direct")

    @property
    def alone(self) -> bool:
        return self.defect is not None and self.defect.alone

    def wants(self, gate: str) -> bool:
        """Whether the catalogue says that this gate is red, on the device."""
        return self.defect is not None and gate in self.defect.device

    def status(self, gate: str) -> str:
        return self.row["gates"].get(gate, {}).get("status", "")

    def killed(self) -> bool:
        return any(entry["status"] == Status.FAIL.value for entry in self.row["gates"].values())

    def prepare(self) -> None:
        """Build what the gates need, or take the toolbox's build, which all of its launchers share."""
        bench, defect = self.bench, self.defect
        folder = bench.plant(defect) if defect else bench.workshop.folder(self.name)
        task = load_task(folder, environ={})
        baseline = load_baseline(task)
        shapes, seeds = (defect.shapes, (0,)) if defect else (task.shapes, task.seeds)
        directory = bench.rooms.enter_context(RunDirectory(bench.root / "results", self.name))
        scratch = bench.root / "scratch" / self.name
        scratch.mkdir(parents=True)
        self.session = Session(
            task=task,
            baseline=baseline,
            shapes=shapes,
            seeds=seeds,
            toolchain=bench.toolchain,
            device=bench.device,
            directory=directory,
            scratch=scratch,
            build_dir=bench.root / "build",
            jobs=2,
            progress=Quiet(),
        )
        if self.toolbox:
            built, texts = bench.toolbox_build()
            for one, _ in self.session.tasks():
                self.session.builds[one.name] = dataclasses.replace(built, task=one.name)
                self.session._texts[one.name] = texts
        else:
            self.session.build()
        self.info = RunInfo(
            SCHEMA_VERSION,
            __version__,
            _task_info(task),
            _task_info(baseline) if baseline else None,
            "full" if bench.device else "cpu",
            "",
            FIRST_GATES,
            Git(None, False, "none"),
            (),
            {},
            None,
            {},
            "",
            "",
            "",
        )

    def judge(self, gate: str) -> None:
        """One gate; whatever it raises is kept as an error, not as a verdict."""
        assert self.session is not None
        started = time.monotonic()
        try:
            self.session._cases[self.session.task.arguments] = self.bench.cases(self)
            result = judge_step(self.session, self.info, gate)
            codes = sorted({check.code for check in result.checks if check.status is Status.FAIL and check.code} | {result.code})
            entry = {"status": result.status.value, "code": result.code, "codes": codes, "sentence": result.sentence[:300]}
        except (GatesError, OSError, RuntimeError, AssertionError, KeyError) as error:
            entry = {"status": "error", "code": "", "codes": [], "sentence": f"{type(error).__name__}: {str(error)[:300]}"}
        self.row["gates"][gate] = entry
        self.row["wall_s"][gate] = round(time.monotonic() - started, 1)


class Bench:
    """A workshop folder, the machine, and all trials of one run."""

    def __init__(self, root: Path, device: DeviceInfo | None) -> None:
        self.root, self.device = root, device
        self.workshop, self.toolchain = Workshop(root / "workshop"), find_toolchain()
        self.rooms = contextlib.ExitStack()
        self._lock = threading.Lock()
        self._toolbox: tuple[BuildResult, StaticTexts] | None = None
        self._cases: dict[tuple[str, tuple[str, ...]], list[dict[str, Any]]] = {}

    def plant(self, defect: Defect) -> Path:
        with self._lock:
            return self.workshop.plant(defect)

    def toolbox_build(self) -> tuple[BuildResult, StaticTexts]:
        """The one build of toolbox/mix.cu, and what its compilers said."""
        with self._lock:
            if self._toolbox is None:
                kinds = {"cubin", "emulator", *(("device",) if self.device else ())}
                arch = self.device.arch if self.device else None
                task = load_task(self.workshop.folder("mix"), environ={})
                built = build(task, self.toolchain, self.root / "build", device_arch=arch, want=kinds)
                self._toolbox = built, collect(built, self.toolchain)
            return self._toolbox

    def cases(self, trial: Trial) -> list[dict[str, Any]]:
        """The case files for ptxas and sanitizer: the same for every kernel of one problem, so written once."""
        session = trial.session
        assert session is not None
        key = (session.task.problem, session.shapes)
        with self._lock:
            if key not in self._cases:
                self._cases[key] = write_memory_cases(
                    session.side(session.task, "emulator"),
                    session.shapes,
                    on_device=self.device is not None,
                    work=self.root / f"cases{len(self._cases)}",
                    limit_s=120,
                )
            return self._cases[key]


def run(
    names: Iterable[str],
    root: Path,
    out: Path,
    *,
    device: DeviceInfo | None,
    jobs: int,
    budget_s: float,
    say: Callable[[str], None],
    kept: Mapping[str, dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """All gates of the tasks called ``names``, in order of what they tell; writes ``out`` as it goes and returns it.

    ``kept``: rows of an earlier run, which are taken as they are.
    """
    started, bench, kept = time.monotonic(), Bench(root, device), kept or {}
    every = [Trial(name, bench) for name in names]
    for trial in every:
        trial.row = kept.get(trial.name, trial.row)
    others = [row for name, row in kept.items() if name not in {trial.name for trial in every}]
    trials = [trial for trial in every if trial.name not in kept]
    data: dict[str, Any] = {
        "schema_version": 1,
        "profile": "full" if device else "cpu",
        "device": device.name if device else "emulator",
        "driver": device.driver_version if device else None,
        "started": utc_now().isoformat(timespec="seconds"),
        "budget_s": budget_s,
        "wall_s": 0.0,
        "rows_of_an_earlier_run": len(kept),
        "rows": [*others, *(trial.row for trial in every)],
    }
    writing = threading.Lock()

    def attempt(trial: Trial, what: str, do: Callable[[], None]) -> None:
        if time.monotonic() - started > budget_s:
            return
        try:
            do()
        except Exception as error:  # one task that can't be tried must not lose the others
            trial.row["error"] = f"{what}: {type(error).__name__}: {str(error)[:300]}"
        with writing:
            data["wall_s"] = round(time.monotonic() - started, 1)
            jsonio.write(out, data)
        say(f"[{data['wall_s']:6.1f} s] {trial.name}: {what} {trial.status(what)} {trial.row.get('error', '')}".rstrip())

    def all_gates(trial: Trial, gates: tuple[str, ...]) -> None:
        for gate in gates:
            if trial.session is not None and gate not in trial.row["gates"]:
                attempt(trial, gate, functools.partial(trial.judge, gate))

    def phase(chosen: Iterable[Trial], gates: tuple[str, ...], workers: int) -> None:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(lambda trial: all_gates(trial, gates), chosen))

    def whole(trial: Trial) -> None:
        attempt(trial, "build", trial.prepare)
        all_gates(trial, FIRST_GATES)

    with bench.rooms, ThreadPoolExecutor(jobs) as pool:
        if device is None:  # nothing is measured, so each task can be finished before the next one
            list(pool.map(whole, trials))
            return data
        list(pool.map(lambda trial: attempt(trial, "build", trial.prepare), trials))
        together, alone = [trial for trial in trials if not trial.alone], [trial for trial in trials if trial.alone]
        phase(together, ("ptxas", "sass", "correctness"), jobs)
        phase([trial for trial in together if trial.status("correctness") == Status.FAIL.value], ALONE, jobs)  # not run, at no cost
        honest = [trial for trial in trials if trial.defect is None]
        unclear = [trial for trial in together if trial.defect and not trial.killed()]
        phase(dict.fromkeys([*(trial for trial in together if trial.wants("sanitizer")), *unclear, *honest]), ("sanitizer",), jobs)
        phase([trial for trial in unclear if not trial.killed()], ALONE, 1)
        phase(alone, TOGETHER, 1)
        phase(honest, ALONE, 1)
        phase(together, ("sanitizer",), jobs)
        phase(trials, ALONE, 1)
    return data


def settled_rows(data: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows of an earlier run that need no other one: a gate was red, or each said something; and none has an error."""

    def settled(row: Mapping[str, Any]) -> bool:
        said = [row["gates"].get(gate, {"status": "missing"})["status"] for gate in FIRST_GATES]
        return "error" not in row and "error" not in said and (Status.FAIL.value in said or "missing" not in said)

    return {row["name"]: row for row in data["rows"] if settled(row)}


def all_names() -> list[str]:
    """Defects in the catalogue's order, then the honest stages."""
    return [*DEFECTS, *HONEST]


def _task_info(task: Task) -> TaskInfo:
    limits = {gate: dict(values) for gate, values in task.gates.items()}
    return TaskInfo(
        task.name,
        task.title,
        task.digest(),
        task.problem,
        task.kernels,
        dict(task.toggles),
        {},
        task.arch,
        {},
        task.seeds,
        limits,
        dict(task.not_applicable),
    )
