"""Build a torch extension with torch's own loader, in a runner process and a folder of its own.

torch's loader hides what the compiler prints, takes its architectures from the environment, shares one cache
folder between all projects and waits for ever on a lock that a killed build left. Here it gets a folder
beside the task's other products (whose lock the engine holds, so a lock file in it is a leftover), the
task's architectures, and its whole output is kept.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gates.build import compilers, graph, inputs, torch_headers
from gates.build.failure import Failure, first_errors, hint_for, missing_tool, refuse_machine_fault
from gates.build.result import Target
from gates.build.toolchain import Toolchain
from gates.core import jsonio
from gates.task.load import Task
from gates.worker import process
from gates.worker.job import ResultWriter, run_job

_LIMIT_S = 60.0
_HINT = "the compiler's gates judge its .cu here; behind a C launcher the same .cu runs on the emulator (docs/start/your-kernel.md)"
_CPU_ONLY = Failure("", "", hint=_HINT, unsupported="a torch extension runs on a CUDA device alone")


def build(
    task: Task,
    toolchain: Toolchain,
    folder: Path,
    device_archs: Sequence[str],
    want: Collection[str],
    jobs: int,
    say: Callable[[str], None],
) -> tuple[list[Target], str, float]:
    """The device target of an extension, what its build printed, and the seconds it took. The folder's lock is held by the caller.

    One that Python code does not call has a target for the emulator that says why there is none.
    """
    made = [Target("emulator", None, failure=_CPU_ONLY)] if "emulator" in want and task.script is None else []
    if "device" not in want:
        return made, "", 0.0
    if missing := missing_tool("nvcc", toolchain):
        return [*made, Target("device", None, failure=missing)], "", 0.0
    home, log = folder / "extension", folder / "extension.log"
    edge = _edge(task, device_archs)
    look = inputs.Look(folder, compilers.searched_folders(toolchain, [torch_headers.binding_flags(task.name, toolchain), task.nvcc_flags]))
    if not inputs.stale([edge], look):
        text = log.read_text(encoding="utf-8", errors="replace")
        return [*made, Target("device", str(folder / edge.output), sha256=inputs.made_sha256(edge, folder))], text, 0.0
    say(f"{task.name}: torch's loader compiles the extension")
    inputs.discard([edge], folder)
    shutil.rmtree(home, ignore_errors=True)  # torch's loader goes by file times
    home.mkdir(parents=True, exist_ok=True)
    nvcc = Path(toolchain.need("nvcc").path)
    job = {
        "kind": "extension",
        "name": task.name,
        "sources": [str(source) for source in task.compiled],
        "home": str(home),
        "flags": [*(f"-D{name}={value}" for name, value in task.toggles.items()), *task.nvcc_flags, "-lineinfo"],
    }
    environment = {
        **os.environ,
        "TORCH_CUDA_ARCH_LIST": ";".join(map(_dotted, device_archs)),
        "CUDA_HOME": str(nvcc.parent.parent),
        "MAX_JOBS": str(jobs),
        "PATH": os.pathsep.join([str(Path(toolchain.need("ninja").path).parent), os.environ.get("PATH", "")]),
    }
    if toolchain.host_compiler:
        environment["CC"] = environment["CXX"] = toolchain.host_compiler
    tried = run_job(task.folder, job, folder, limit_s=max(task.time_limit_s, 600.0), name="extension", env=environment)
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else tried.output_tail
    path = next((line["path"] for line in tried.own() if line.get("type") == "extension"), None)
    if path is not None:
        if Path(path) == folder / edge.output:
            _record(edge, toolchain, inputs.Look(folder, look.folders))
        return [*made, Target("device", path, sha256=jsonio.sha256(path))], text, tried.wall_s
    for leftover in home.glob("*.so"):  # of an earlier build: it must not be loaded for this one
        leftover.unlink(missing_ok=True)
    refuse_machine_fault(text, tried.cause, folder, "torch's loader")
    failure = Failure("torch.utils.cpp_extension.load", tried.cause, first_errors(text), str(log), hint_for(text, tried.cause, toolchain))
    return [*made, Target("device", None, failure=failure)], text, tried.wall_s


def on_cpu(target: Target) -> Target:
    """The target; of an extension that can't be built for the CPU device, which says nothing about the extension itself."""
    if target.kind != "emulator" or not target.failure or target.failure.missing_tool:
        return target
    reason = f"this torch extension can't be built for the CPU: {next(iter(target.failure.errors), target.failure.cause)}"
    return replace(target, failure=Failure(target.failure.command, target.failure.cause, hint=_HINT, unsupported=reason))


def _edge(task: Task, device_archs: Sequence[str]) -> graph.Edge:
    """The extension as one step of a build: what its record is held against."""
    command = (
        "torch.utils.cpp_extension.load",
        torch_headers.version(),
        *device_archs,
        *(f"-D{name}={value}" for name, value in task.toggles.items()),
        *task.nvcc_flags,
    )
    return graph.Edge(f"extension/{task.name}.so", "extension.log", command, tuple(map(str, task.compiled)), "extension.d")


def _record(edge: graph.Edge, toolchain: Toolchain, look: inputs.Look) -> None:
    """Record the files that the compilers opened, as ninja, which torch's loader starts, knows them."""
    known = process.run([toolchain.need("ninja").path, "-C", look.folder / "extension", "-t", "deps"], limit_s=_LIMIT_S, whole=True)
    if known.returncode == 0:  # without a record it is compiled anew the next time
        opened = sorted(
            {os.path.join(look.folder / "extension", line.strip()) for line in known.output.splitlines() if line.startswith("    ")}
        )
        escaped = " ".join(re.sub(r"([ #\\\\])", r"\\\1", path).replace("$", "$$") for path in opened)
        (look.folder / "extension.d").write_text(f"{edge.output}: {escaped}\n", encoding="utf-8")
        inputs.record(edge, look)


def execute(job: Mapping[str, Any], folder: Path) -> None:
    """Runner job "extension": compile and link; one ``extension`` line with the library's path."""
    with ResultWriter(job) as writer:
        from torch.utils import cpp_extension

        module = cpp_extension.load(
            job["name"],
            job["sources"],
            extra_cuda_cflags=job["flags"],
            extra_cflags=[flag for flag in job["flags"] if flag.startswith("-D")],
            build_directory=job["home"],
            verbose=True,
            with_cuda=True,
        )
        writer.write("extension", path=module.__file__)
        writer.write("done")


def _dotted(arch: str) -> str:
    """``sm_90a`` as torch writes it: ``9.0a``."""
    number = re.fullmatch(r"sm_(\d+)(\d)([af]?)", arch)
    return f"{number[1]}.{number[2]}{number[3]}" if number else arch
