"""Try variants of the SDPA kernel on a CUDA device: build, check against the reference, time side by side.

    python scripts/bench_kernels.py stage2_wmma_pv stage3_cp_async stage3_cp_async:BLOCK_M=16 --shape mission

A variant is a task's name and, after a colon, macros that differ from its task.yaml. Times are medians of CUDA-graph
replays with a cold L2 (the launches of a graph rotate over input sets of three times its size), variants interleaved.
For choosing tile sizes; the verdict on a stage is the performance gate's.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import torch
import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gates.problem import call_arguments  # noqa: E402
from gates.run.kernel import Kernel  # noqa: E402
from tasks.problems import sdpa_fp8 as problem  # noqa: E402


def build(variant: str, folder: Path) -> Kernel:
    """The launcher of ``variant``, compiled for the current device."""
    name, _, macros = variant.partition(":")
    task = yaml.safe_load((ROOT / "tasks" / name / "task.yaml").read_text(encoding="utf-8"))
    toggles = {**task["toggles"], **dict(pair.split("=") for pair in macros.split(",") if pair)}
    major, minor = torch.cuda.get_device_capability()
    library = folder / f"{variant.replace(':', '-').replace(',', '-').replace('=', '_')}.so"
    command = ["nvcc", "-std=c++17", "-O3", "-shared", "-Xcompiler", "-fPIC", f"-arch=sm_{major}{minor}", "-lineinfo"]
    command += task.get("nvcc_flags", [])
    command += [f"-D{key}={value}" for key, value in toggles.items()] + [str(ROOT / task["sources"][0]), "-o", str(library)]
    subprocess.run(command, check=True)
    return Kernel(library, task["entry"])


def check(kernel: Kernel, shape_name: str, seed: int) -> tuple[float, float]:
    """Largest and mean error against the reference; NaN where an element was not written or not finite."""
    shape = problem.SHAPES[shape_name]
    inputs = problem.make_inputs(shape, seed, "cuda")
    outputs = {"out": torch.full_like(problem.make_outputs(shape, "cuda")["out"], torch.nan)}
    kernel(*call_arguments(problem, inputs, outputs, shape), stream=torch.cuda.current_stream().cuda_stream)
    error = (outputs["out"].cpu().double() - _reference(shape_name, seed)).abs()
    return error.max().item(), error.mean().item()


_references: dict[tuple[str, int], torch.Tensor] = {}


def _reference(shape_name: str, seed: int) -> torch.Tensor:
    if (shape_name, seed) not in _references:
        shape = problem.SHAPES[shape_name]
        _references[shape_name, seed] = problem.reference(problem.make_inputs(shape, seed, "cpu"), shape)["out"]
    return _references[shape_name, seed]


def time_all(kernels: dict[str, Kernel], shape_name: str, replays: int) -> dict[str, float]:
    """Median time of one launch of each kernel in microseconds."""
    shape = problem.SHAPES[shape_name]
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    count = max(20, int(3.2 * l2_bytes / problem.work(shape)["bytes"]) + 1)
    count = min(count, 400)
    base = problem.make_inputs(shape, 0, "cuda")
    sets = []
    for _ in range(count):
        inputs = {name: value.clone() if torch.is_tensor(value) else value for name, value in base.items()}
        sets.append(call_arguments(problem, inputs, problem.make_outputs(shape, "cuda"), shape))
    graphs = {}
    for name, kernel in kernels.items():
        kernel(*sets[0])
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for arguments in sets:
                kernel(*arguments, stream=torch.cuda.current_stream().cuda_stream)
        graphs[name] = graph
    samples: dict[str, list[float]] = {name: [] for name in kernels}
    for replay in range(replays + 3):
        names = list(graphs) if replay % 2 == 0 else list(reversed(graphs))
        for name in names:
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            graphs[name].replay()  # fills the queue, so that the events enclose no gap
            start.record()
            graphs[name].replay()
            stop.record()
            stop.synchronize()
            if replay >= 3:
                samples[name].append(start.elapsed_time(stop) * 1000 / count)
    return {name: median(values) for name, values in samples.items()}


def launch_once(kernels: dict[str, Kernel], shape_name: str) -> None:
    """One launch of each kernel inside the profiler's window, for ncu --profile-from-start off."""
    shape = problem.SHAPES[shape_name]
    arguments = call_arguments(
        problem, problem.make_inputs(shape, 0, "cuda"), problem.make_outputs(shape, "cuda"), shape)
    runtime = ctypes.CDLL("libcudart.so.13")
    runtime.cudaProfilerStart()
    for kernel in kernels.values():
        kernel(*arguments)
        torch.cuda.synchronize()
    runtime.cudaProfilerStop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("variants", nargs="+")
    parser.add_argument("--shapes", default="mission", help="shapes to time, separated by commas")
    parser.add_argument("--check", default="small,mission,single,tail,odd", help="shapes to check first")
    parser.add_argument("--replays", type=int, default=30)
    parser.add_argument("--profile", action="store_true", help="launch each variant once and stop")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        built = pool.map(lambda variant: build(variant, Path(folder)), options.variants)
        kernels = dict(zip(options.variants, built, strict=True))
    if options.profile:
        launch_once(kernels, options.shapes.split(",")[0])
        return
    print(torch.cuda.get_device_name())
    for name, kernel in kernels.items():
        errors = {shape: check(kernel, shape, 0) for shape in options.check.split(",")}
        print(f"{name:44}", "  ".join(f"{shape} {worst:.2e}/{mean:.2e}" for shape, (worst, mean) in errors.items()))
    for shape in options.shapes.split(","):
        previous = None
        for name, time_us in time_all(kernels, shape, options.replays).items():
            ratio = "" if previous is None else f"  {previous / time_us:.3f} x the line above"
            print(f"{shape:8} {name:44} {time_us:8.3f} us{ratio}")
            previous = time_us


if __name__ == "__main__":
    main()
