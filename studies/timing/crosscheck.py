"""Times of one kernel by other tools: CUPTI (through torch's profiler) and NVBench (cuda-bench). In us a launch."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

COUNT = 128 * 128
_TAGS = {
    "nv/cold/time/gpu/mean": "NVBench, cold",
    "nv/batch/time/gpu/mean": "NVBench, batch",
    "nv/cold/sm_clock_rate/mean": "NVBench, SM clock",
}


def kernel(library: Path, entry: str) -> Any:
    from gates.launch.c_launcher import Kernel

    return Kernel(library, entry)


def call(library: Path, problem: Any, torch: Any) -> Callable[[], None]:
    """A launch of the chain in ``library`` on torch's current stream."""
    inputs, launch = problem.make_inputs({"count": COUNT}, 1, "cuda"), kernel(library, "launch_chain")
    y = torch.empty_like(inputs["x"])

    def fn() -> None:
        launch(inputs["x"], y, COUNT, 1.0, 0.0, stream=torch.cuda.current_stream().cuda_stream)

    return fn


def cupti(libraries: Mapping[int, Path], work: Path) -> dict[int, dict[str, Any]]:
    """Mean kernel times from CUPTI's activity records by steps, and of an empty kernel (0), from a process of its own."""
    return _child("cupti_process", libraries, work, lambda data: {int(steps): means for steps, means in data.items()})


def nvbench(libraries: Mapping[int, Path], work: Path) -> dict[int, dict[str, Any]]:
    """NVBench's means by steps, from a process of its own: cold (L2 flushed, one launch behind a blocking kernel) and batch."""
    return _child("nvbench_process", libraries, work, nvbench_means)


def _child(
    function: str, libraries: Mapping[int, Path], work: Path, read: Callable[[Any], dict[int, dict[str, Any]]]
) -> dict[int, dict[str, Any]]:
    """What ``function`` of this module, run in a new process, finds; its last words where it fails."""
    result, job = work / f"{function}.json", work / f"{function}_job.json"
    job.write_text(json.dumps({str(steps): str(path) for steps, path in libraries.items()}))
    code = f"import sys; from timing.crosscheck import {function} as run; run(sys.argv[1], sys.argv[2])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).resolve().parent.parent), *sys.path[1:]])}
    try:
        subprocess.run(
            [sys.executable, "-c", code, str(job), str(result)], env=environment, timeout=45, check=True, capture_output=True, text=True
        )
        return read(json.loads(result.read_text()))
    except subprocess.CalledProcessError as error:
        message = (error.stderr.strip().splitlines() or ["no message"])[-1]
    except (subprocess.TimeoutExpired, OSError, ValueError, KeyError, IndexError) as error:
        message = f"{type(error).__name__}: {error}"
    return {steps: {function.replace("_process", ""): message} for steps in libraries}


def nvbench_means(data: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The means in NVBench's JSON by steps; times in us, the clock in MHz."""
    found: dict[int, dict[str, Any]] = {}
    for state in data["benchmarks"][0]["states"]:
        steps = next(int(axis["value"]) for axis in state["axis_values"] if axis["name"] == "Steps")
        means = found.setdefault(steps, {})
        for summary in state["summaries"] or []:
            if summary["tag"] in _TAGS:
                value = next(float(entry["value"]) for entry in summary["data"] if entry["name"] == "value")
                means[_TAGS[summary["tag"]]] = value / 1e6 if "clock" in summary["tag"] else value * 1e6
    return found


def cupti_process(job: str, result: str) -> None:
    """The child: 50 launches back to back, and 50 each behind a 256 MB flush, under torch's profiler."""
    import torch

    from gates.task import problem as problems

    problem = problems.load("chaining", Path(__file__).resolve().parent)
    libraries = json.loads(Path(job).read_text())
    room = torch.empty(256 * 10**6, dtype=torch.int8, device="cuda")
    found = {}
    for steps, library in {**libraries, "0": None}.items():
        fn = call(Path(library), problem, torch) if library else lambda: torch.cuda._sleep(0)
        name = "chain" if library else "spin_kernel"
        means = {f"CUPTI, {mode}": _profiled(fn, room if mode == "cold" else None, name, torch) for mode in ("warm", "cold")}
        found[steps] = means
    Path(result).write_text(json.dumps(found))


def _profiled(fn: Callable[[], None], room: Any, name: str, torch: Any) -> float:
    """Mean us of the kernels called ``name``; ``room`` is overwritten before each launch, if there is one."""
    for _ in range(200):  # the clock rises
        fn()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(50):
            if room is not None:
                room.zero_()
            fn()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(trace))
        events = json.loads(trace.read_text())["traceEvents"]
    return statistics.fmean(event["dur"] for event in events if event.get("cat") == "kernel" and name in event["name"])


def nvbench_process(job: str, result: str) -> None:
    """The child: run every chain under NVBench, with its defaults but for a time limit of 2 s each."""
    import cuda.bench as bench
    import torch

    from gates.task import problem as problems

    libraries = json.loads(Path(job).read_text())
    problem = problems.load("chaining", Path(__file__).resolve().parent)
    inputs = problem.make_inputs({"count": COUNT}, 1, "cuda")
    y = torch.empty_like(inputs["x"])
    launches = {steps: kernel(Path(path), "launch_chain") for steps, path in libraries.items()}
    torch.cuda.synchronize()

    def chain(state: Any) -> None:
        launch = launches[str(state.get_int64("Steps"))]
        state.exec(lambda one: launch(inputs["x"], y, COUNT, 1.0, 0.0, stream=one.get_stream().addressof()))

    bench.register(chain).add_int64_axis("Steps", [int(steps) for steps in libraries])
    bench.run_all_benchmarks(["chain", "--json", result, "--timeout", "2", "--devices", "0"])
