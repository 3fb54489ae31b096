"""A clockwork without CUDA: launches run on the host, times come from a simulated device."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import tempfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from places import TESTS

from gates.core.errors import GatesError
from gates.stats.calibration import Calibration

DATA = TESTS / "data" / "timing"
LIMITS = {"max_abs_err": 0.01, "mean_abs_err": 0.005, "bad_pct": 0.0, "bad_atol": 0.01}


def build_library(folder: Path, name: str, fault: int = 0) -> Path:
    library = folder / f"{name}.so"
    library.write_bytes(_compiled(fault))
    return library


@functools.cache
def _compiled(fault: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "scale.so")
        subprocess.run(["g++", "-shared", "-fPIC", f"-DFAULT={fault}", str(DATA / "scale.cpp"), "-o", str(library)], check=True)
        return library.read_bytes()


class FakeGraph:
    def __init__(self, calls: list[Any]) -> None:
        self.calls = calls

    def replay(self) -> None:
        for call in self.calls:
            call(0)


class FakeClockwork:
    """Times every launch of a library at what ``LAUNCH_US`` says, with a deterministic ripple of 0.2 %."""

    l2_bytes = 2**20
    stream = None

    def __init__(self, device: Any, *, on_default: bool = False, per_thread: bool = False) -> None:
        self.device, self.stream, self.on_default = device, SimpleNamespace(cuda_stream=0), on_default
        self.count = 0

    def launch(self, kernel: Any, arguments: Any) -> None:
        kernel(*arguments, stream=0)

    def capture(self, calls: Any) -> FakeGraph:
        return FakeGraph(list(calls))

    def synchronize(self) -> None:
        pass

    def replay(self, graph: FakeGraph) -> None:
        graph.replay()

    def timer(self, run: Any, launches: int, *, flush: bool, host_bound: bool = False) -> Any:
        return lambda samples: [us / launches for us in self.elapsed_us(run, samples, flush=flush)]

    def elapsed_us(self, run: Any, samples: int, *, flush: bool, host_bound: bool = False) -> list[float]:
        times = []
        for number in range(samples):
            if number < RUN_SAMPLES:  # the rest of a long block is like its first ones
                LAUNCHED.clear()
                run(number)
            self.count += 1
            times.append(sum(LAUNCHED) * (1 + 0.002 * (self.count * 7919 % 100) / 100) or 1.0)
        CLOCK.now_s += 1e-6 * (OVERHEAD_US + sum(times) + flush * FLUSH_US * samples)
        return times

    def calibration(self) -> Calibration:
        return Calibration(0.032, 1.5, 0.5)


LAUNCHED: list[float] = []
RUN_SAMPLES = 4
OVERHEAD_US, FLUSH_US = 600.0, 40.0  # of a block, and in front of each cold sample
CLOCK = SimpleNamespace(now_s=0.0)  # the time that has passed outside


def install(monkeypatch: Any, launch_us: dict[str, float]) -> None:
    """Make gates.gate.performance.collect run on the host; ``launch_us``: library stem -> us a launch."""
    import torch

    from gates.gate.performance.runner import cuda_graphs
    from gates.launch import entry_point as callable_
    from gates.launch.c_launcher import Kernel

    class CountedKernel(Kernel):
        def __init__(self, path: Path, entry: str, sha256: str | None = None) -> None:
            super().__init__(path, entry, sha256)
            self.us = launch_us[Path(path).stem]

        def __call__(self, *arguments: Any, stream: int = 0) -> None:
            LAUNCHED.append(self.us)
            super().__call__(*arguments, stream=stream)

    monkeypatch.setattr(callable_, "Kernel", CountedKernel)
    monkeypatch.setattr(cuda_graphs, "Clockwork", FakeClockwork)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**30, 2**30))
    monkeypatch.setattr(
        torch.cuda,
        "get_device_properties",
        lambda device: SimpleNamespace(name="fake", uuid="0", major=9, minor=0, multi_processor_count=132),
    )


def run_job(folder: Path, candidate: Path, baseline: Path | None, hands: Any = None, alone: Any = None, **changes: Any) -> dict[str, Any]:
    """Run both ends of a timing job in this process and read the lines as the engine does; ``hands``: the end that holds the kernels,
    ``alone``: the baseline.
    """
    import shutil

    from gates.gate.performance import collect as timing
    from gates.gate.performance.runner import alone as timing_alone
    from gates.gate.performance.runner.ask import here
    from gates.gate.performance.runner.hands import Hands
    from gates.worker.job import ResultWriter

    control = folder / "control.so"
    shutil.copyfile(baseline or candidate, control)
    side = {"entry": "scale", "folder": str(DATA), "problem": "scaling", "emulated": False}
    result = folder / "result.jsonl"
    result.unlink(missing_ok=True)
    job = timing.job_of(
        {**side, "name": "new", "library": str(candidate)},
        {**side, "name": "old", "library": str(baseline)} if baseline else None,
        control=control,
        device="cpu",
        shapes={changes.pop("shape", "tiny"): 15.0},
        output_limits=LIMITS,
        seed=11,
        iters=120,
    )
    job |= {"nonce": "n", "result": str(result), **changes}
    with ResultWriter(job) as writer:
        timing.measure(job, writer, lambda: here((hands or Hands()).answer), {}, None, lambda: CLOCK.now_s)
    head = {"task": "new", "baseline": "old" if baseline else None, "shape": "tiny", "output_tail": "", "alone": None}
    read = timing._read(_tried(result), "tiny")
    if read["measured"] and baseline and (own := timing_alone.job_of(job, {"tiny": read["measured"]})):
        result.unlink()
        with contextlib.suppress(GatesError), ResultWriter(job) as writer:  # which is in the result by then
            timing_alone.measure(own, writer, lambda: here((alone or Hands()).answer), {}, None, lambda: CLOCK.now_s)
        head["alone"] = timing_alone.read(_tried(result), "tiny")
    return head | read | {"process_s": 60.0}


def _tried(result: Path) -> Any:
    from gates.worker.job import FinishedJob

    return FinishedJob("n", 0, "exit 0", False, 1.0, tuple(result.read_text().splitlines()), "")
