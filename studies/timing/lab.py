"""The card: kernels built, gates run in this process by the gate's own session, so that torch starts once."""

from __future__ import annotations

import concurrent.futures
import gc
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gates.build.build import build
from gates.build.toolchain import find_toolchain
from gates.core import jsonio
from gates.core.errors import GatesError
from gates.gate.performance import collect as timing
from gates.gate.performance.collect import run_timing
from gates.gate.performance.runner import nvml, protocol
from gates.gate.performance.thresholds import thresholds
from gates.launch.device import probe
from gates.stats.stopping_rule import CONFIDENCE
from gates.task import problem as problems
from gates.task.load import Task, find_task
from timing import crosscheck, plan, verdict

HERE = Path(__file__).resolve().parent
CANDIDATE, BASELINE = "stage3_cp_async", "stage2_wmma_pv"


class Lab:
    """One card. CUDA starts in this process with the first measurement, not before ``stage_process``."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.devices = probe()
        self.before: Mapping[str, frozenset[int]] = {}
        self._problem: Any = None
        self._started = False

    def build_chains(self, steps: Iterable[int]) -> None:
        """A library for each number of steps, and a second file of it for the control, all compilers side by side."""
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(self._build_chain, sorted(number for number in set(steps) if not self.library(number).exists())))

    def build_stages(self) -> None:
        """The stage pair's device libraries."""
        tools, arch = find_toolchain(), self.devices.devices[0].arch
        tasks = [find_task(name) for name in (CANDIDATE, BASELINE)]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            built = list(pool.map(lambda task: build(task, tools, self.work / "build", device_arch=arch, want={"device"}), tasks))
        self.task = tasks[0]
        self.sides = {task.name: _side(task, result.path("device")) for task, result in zip(tasks, built, strict=True)}
        self.stage_control = self.work / "stage-control.so"  # made once: a loaded file must not be written to
        shutil.copyfile(self.sides[BASELINE]["library"], self.stage_control)

    def device(self) -> dict[str, Any]:
        self._start()
        card = nvml.open_device(str(self._properties.uuid), self.before)
        return {
            "name": self._properties.name,
            "uuid": str(self._properties.uuid),
            "driver": card.driver(),
            "torch": self._torch.__version__,
            "cuda": self._torch.version.cuda,
        }

    def rounds(self, steps: Mapping[str, int], count: int) -> list[dict[str, float]]:
        """``count`` rounds of one block a kernel, forwards and backwards in turn; block medians in us, cold, by name."""
        timers = {name: self._timer(number) for name, number in steps.items()}
        found = []
        for number in range(count + 2):
            names = list(timers) if number % 2 == 0 else list(reversed(timers))
            found.append({name: plan.statistics.median(timers[name](20)) for name in names})
        return found[2:]  # the first two warm the card up

    def cycles(self, steps: int) -> int:
        """Clock cycles of the chain of ``steps``, counted inside the kernel; the least of 20 launches."""
        torch, inputs = self._torch, self._problem.make_inputs({"count": 128 * 128}, 1, "cuda")
        y, cycles = torch.empty_like(inputs["x"]), torch.zeros(1, dtype=torch.int64, device="cuda")
        kernel = crosscheck.kernel(self.library(steps), "count_chain")
        seen = []
        for _ in range(20):
            kernel(inputs["x"], y, 128 * 128, 1.0, 0.0, cycles, stream=torch.cuda.current_stream().cuda_stream)
            seen.append(int(cycles.item()))
        return min(seen)

    def gate(self, candidate: int, baseline: int, bar_pct: float, seed: int) -> dict[str, Any]:
        """One verdict on a pair of chains. Left out: the cache mode that is not gated, and single launches."""
        started = time.monotonic()
        raw = self._chain_raw(candidate, baseline, bar_pct, seed)
        return verdict.record(raw, {**plan.LIMITS, "min_speedup_pct": bar_pct}, time.monotonic() - started)

    def family(self, chains: Mapping[str, int], seed: int) -> dict[str, Any]:
        """One verdict on several chains, each against its copy: they are the timed shapes of one task, and no gain is asked for."""
        started, confidence = time.monotonic(), thresholds(plan.family_limits(chains)).confidence
        raws = {name: self._chain_raw(steps, steps, 0.0, seed + place, confidence) for place, (name, steps) in enumerate(chains.items())}
        return verdict.record_family(raws, time.monotonic() - started)

    def _chain_raw(self, candidate: int, baseline: int, bar_pct: float, seed: int, confidence: float = CONFIDENCE) -> dict[str, Any]:
        twin = self.library(baseline, "twin") if candidate == baseline else self.library(baseline)
        sides = {"candidate": _chain(self.library(candidate)), "baseline": _chain(twin)}
        job = timing.job_of(
            sides["candidate"],
            sides["baseline"],
            control=self.library(baseline, "control"),
            device="cuda:0",
            shapes={"wide": bar_pct},
            output_limits=plan.OUTPUT_LIMITS,
            seed=seed,
            confidence=confidence,
        )
        return self._session(job, self._problem, short=True)

    def stage_gate(self, seed: int) -> dict[str, Any]:
        """One whole verdict on the stage pair, mission shape, in this process."""
        self._start()
        limits, one, two = self._first_shape(), self.sides[CANDIDATE], self.sides[BASELINE]
        job = timing.job_of(
            one,
            two,
            control=self.stage_control,
            device="cuda:0",
            shapes={limits["shape"]: limits["min_speedup_pct"]},
            output_limits=self.task.gates["correctness"],
            seed=seed,
        )
        started = time.monotonic()
        raw = self._session(job, problems.load(one["problem"], Path(one["folder"])), short=False)
        return verdict.record(raw, limits, time.monotonic() - started)

    def _first_shape(self) -> dict[str, Any]:
        """The stage pair's limits on its first timed shape alone."""
        limits = self.task.gates["performance"]
        asked = thresholds(limits)
        rest = {key: value for key, value in limits.items() if key not in ("shapes", "no_regression_pct")}
        return {**rest, "shape": asked.first, "min_speedup_pct": asked.shapes[asked.first] or 0.0}

    def stage_process(self, seed: int) -> dict[str, Any]:
        """The same as ``gates run`` does it, in a process of its own. Only before CUDA starts here."""
        assert not self._started
        limits, started = self._first_shape(), time.monotonic()
        raw = run_timing(
            self.sides[CANDIDATE],
            baseline=self.sides[BASELINE],
            shape=limits["shape"],
            work=self.work / "process",
            limit_s=120,
            bar_pct=limits["min_speedup_pct"],
            output_limits=self.task.gates["correctness"],
            seed=seed,
        )
        return verdict.record(raw, limits, time.monotonic() - started)

    def usual(self, candidate: int, baseline: int) -> dict[str, float]:
        """baseline / candidate by each of the usual ways."""
        from timing import usual

        one = self._call(self.library(candidate))
        return usual.ratios(one, self._call(self.library(baseline, "twin") if candidate == baseline else self.library(baseline)))

    def times(self, steps: int) -> dict[str, Any]:
        """Times of one chain by the gate's own clockwork."""
        clockwork = self._clockwork()
        side, sets = self._timed(steps, clockwork)
        found = {f"gate, {mode}": plan.statistics.median(side.prepare(sets, mode, sets.count)(20)) for mode in ("cold", "warm")}
        found["gate, single launches"] = plan.statistics.median(side.single(sets)(20))
        return found

    def other_tools(self, steps: Iterable[int]) -> list[dict[int, dict[str, Any]]]:
        """Times by steps from CUPTI and from NVBench, each in a process of its own, or their messages."""
        libraries = {number: self.library(number) for number in steps}
        return [crosscheck.cupti(libraries, self.work), crosscheck.nvbench(libraries, self.work)]

    def empty(self) -> dict[str, Any]:
        """The clockwork's own costs in us: timer step, empty event pair, empty kernel in a graph."""
        return dict(vars(self._clockwork().calibration()))

    def torch_start(self) -> float:
        """Seconds that a process takes to import torch, start CUDA and end."""
        started = time.monotonic()
        subprocess.run([sys.executable, "-c", "import torch; torch.ones(1, device='cuda')"], check=True)
        return time.monotonic() - started

    def library(self, steps: int, name: str = "") -> Path:
        return self.work / f"chain{steps}{name}.so"

    def _build_chain(self, steps: int) -> None:
        path = self.library(steps)
        subprocess.run(
            ["nvcc", "-shared", "-Xcompiler", "-fPIC", "-O3", "-arch=native", f"-DSTEPS={steps}", str(HERE / "chain.cu"), "-o", str(path)],
            check=True,
        )
        for name in ("twin", "control"):
            shutil.copyfile(path, self.library(steps, name))

    def _start(self) -> None:
        if self._started:
            return
        self.before = nvml.processes_by_uuid()
        import torch

        self._torch, self._started = torch, True
        torch.cuda.init()
        self._properties = torch.cuda.get_device_properties(0)
        self._problem = problems.load("chaining", HERE)

    def _session(self, job: dict[str, Any], problem: Any, *, short: bool) -> dict[str, Any]:
        """The raw evidence of one session."""
        from gates.gate.performance.runner.ask import here
        from gates.gate.performance.runner.hands import Hands
        from gates.gate.performance.runner.session import Session
        from timing.session import ShortSession

        (shape,) = job["shapes"]
        head = {"task": job["candidate"]["name"], "baseline": job["baseline"]["name"], "shape": shape, "process_s": None}
        try:
            kind, own = ShortSession if short else Session, timing.of_shape(job, shape, job["budget_s"])
            session = kind(own, problem, here(Hands().answer), self.before)
            measured = jsonio.loads(jsonio.dumps(session.measure()), "session")  # as if from the runner
            raw = {**head, "measured": measured, "backends": {}, "code": "", "message": ""}
        except protocol.Stopped as stop:
            raw = {**head, "measured": None, "backends": {}, "code": stop.code, "message": str(stop)}
        session = None
        gc.collect()  # graphs and buffers go before the next session asks for room
        return raw

    def _clockwork(self) -> Any:
        from gates.gate.performance.runner.cuda_graphs import Clockwork

        self._start()
        return Clockwork(self._torch.device("cuda:0"))

    def _timed(self, steps: int, clockwork: Any) -> tuple[Any, Any]:
        """(side, sets) with as many sets as fill 0.5 ms."""
        from gates.gate.performance.runner import cuda_graphs as timing_cuda

        arguments = tuple(self._problem.ARGUMENTS)
        side = timing_cuda.TimedSide("candidate", _chain(self.library(steps)), arguments, clockwork)
        probe_set = self._sets(1, arguments, clockwork)
        count = max(1, min(1000, int(500.0 / side.estimate(probe_set, side.try_launch(probe_set)))))
        return side, self._sets(count, arguments, clockwork)

    def _sets(self, count: int, arguments: tuple[str, ...], clockwork: Any) -> Any:
        from gates.gate.performance.runner import cuda_graphs as timing_cuda
        from gates.gate.performance.runner.values import Values

        values = Values(self._problem, self._problem.SHAPES["wide"], count, 1)
        sets = timing_cuda.Sets(**values.question(count), device=clockwork.device, sides={"candidate": arguments})
        clockwork.synchronize()
        return sets

    def _timer(self, steps: int) -> Any:
        side, sets = self._timed(steps, self._clockwork())
        return side.prepare(sets, "cold", sets.count)

    def _call(self, library: Path) -> Any:
        """A launch on torch's current stream, as a script would time it."""
        self._start()
        return crosscheck.call(library, self._problem, self._torch)


def _chain(library: Path) -> dict[str, Any]:
    return {
        "name": library.stem,
        "library": str(library),
        "entry": "launch_chain",
        "folder": str(HERE),
        "problem": "chaining",
        "emulated": False,
    }


def _side(task: Task, library: Path | None) -> dict[str, Any]:
    if library is None:
        raise GatesError(f"{task.name} was not built")
    return task.side(library, emulated=False)
