"""Build a task with ninja: cubins for each architecture, the device library, the emulator library.

Everything lies in ``<build root>/<task>/<digest>/``; the digest covers toggles, flags, architectures, source paths, the compilers'
bytes and the variables that change what they do. The contents of sources and headers are in a record beside each product
(``inputs``), which decides what is made again; ninja starts what is left to do. One build at a time works in a folder; another waits for
it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gates.build import compilers, graph, inputs, python_kinds, torch_extension, torch_headers
from gates.build import failure as build_failure
from gates.build.failure import Failure
from gates.build.ninja import Ninja, locked
from gates.build.result import BuildResult, Target
from gates.build.toolchain import Toolchain, header_folders
from gates.core import jsonio
from gates.core.errors import GatesError
from gates.core.records import to_json
from gates.emulator.cpu.build import COMPILING, runtime_is_kept
from gates.task.load import CUDA, EXTENSION, JIT, PYTHON, Task
from gates.task.sources.architectures import cubin_archs, device_archs
from gates.task.sources.identity import identity_of
from gates.worker import machine_fault

KINDS = ("cubin", "device", "emulator")
Progress = Callable[[str], None]
_TRIES = 3  # while somebody writes the sources


def build(
    task: Task,
    toolchain: Toolchain,
    build_root: Path,
    *,
    device_arch: str | None = None,
    want: Collection[str] = KINDS,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> BuildResult:
    """Build what ``want`` names and hand back every product or its failure; a failure does not raise.

    Raises GatesError where nothing can be tried: no ninja, a build folder that can't be written, a
    GATES_JOBS that is no positive number, a source path or flag that a ninja file can't hold.
    """
    say = progress or (lambda _: None)
    machine_fault.check_temporary()
    _refuse_unwritable_names(task)
    archs, library_archs = cubin_archs(task.arch, device_arch), device_archs(task.arch, device_arch)
    digest = build_digest(task, toolchain, archs, library_archs)
    folder = Path(build_root).resolve() / task.name / digest[:16]
    if task.kind in (*JIT, PYTHON):
        return python_kinds.build(task, toolchain, folder, digest, archs, want, say)
    if toolchain.nvcc is not None:
        machine_fault.check_names(
            [
                ("the folder for temporary files", machine_fault.temporary_folder()),
                ("the build folder", folder),
                ("nvcc", Path(toolchain.nvcc.path)),
                *((f"the source of task {task.name}", source) for source in task.sources),
                *(("the environment's folder", place) for place in header_folders()),
            ]
        )
    plans = _plans(task, toolchain, archs, library_archs, want)
    ninja = Ninja(Path(toolchain.need("ninja").path), folder, job_count(jobs))
    _make_folders(folder, plans)
    with locked(folder, task.name, say) as lock:
        for leftover in folder.rglob("*.partial"):  # of a build that was killed
            leftover.unlink(missing_ok=True)
        edges = list(
            {edge.output: edge for plan in plans for edge in plan.edges}.values()
        )  # an edge that two libraries share is there once
        printed, wall_s = _make(edges, task, toolchain, ninja, lock, say)
        targets, stage = tuple(_target(plan, folder, printed, toolchain) for plan in plans), task.digest()
        if task.kind == EXTENSION:
            targets = torch_extension.on_cpu(task, targets, want)
        text = _log_text(folder, plans)
    return BuildResult(
        task.name,
        digest,
        str(folder),
        archs,
        library_archs,
        graph.is_relocatable(task),
        dict(task.toggles),
        targets,
        round(wall_s, 3),
        stage,
        identity_of(stage, digest),
        log_text=text,
    )


def build_digest(task: Task, toolchain: Toolchain, archs: tuple[str, ...], device_archs: tuple[str, ...]) -> str:
    """sha256 over what decides the products besides the contents of sources and headers."""
    parts = {
        "kind": task.kind,
        "torch": torch_headers.version() if task.kind == EXTENSION else "",
        "entry": task.entry,
        "toggles": dict(task.toggles),
        "flags": task.nvcc_flags,
        "sources": list(map(str, task.sources)),
        "archs": archs,
        "device": device_archs,
        "nvcc": to_json(toolchain.nvcc),
        "g++": to_json(toolchain.gxx),
        "ccbin": toolchain.host_compiler,
        "python": sys.version,
        "compilers": compilers.identities(toolchain),
        "environment": compilers.environment(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def job_count(jobs: int | None) -> int:
    """Compilers to run at once: the argument, else GATES_JOBS, else one a usable core."""
    if jobs is not None:
        return jobs
    text = os.environ.get("GATES_JOBS", "").strip()
    if not text:
        return len(os.sched_getaffinity(0))
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise GatesError(f"environment variable GATES_JOBS={text!r} is not a number of jobs", hint="give a whole number from 1 on")
    return int(text)


@dataclass(frozen=True)
class _Plan:
    """A product with the edges that lead to it, or the reason why it can't be tried."""

    kind: str
    output: str
    edges: tuple[graph.Edge, ...] = ()
    arch: str | None = None
    log: str | None = None
    failure: Failure | None = None


def _plans(task: Task, toolchain: Toolchain, archs: tuple[str, ...], device_archs: tuple[str, ...], want: Collection[str]) -> list[_Plan]:
    plans = []
    if "cubin" in want:
        shared = device_archs if task.kind == CUDA or "device" in want else ()  # an object with torch's host code takes long to compile
        for arch in archs:
            plans.extend(_cubin_plans(task, toolchain, arch, shared))
    makers: dict[str, tuple[str, tuple[str, ...], Callable[[], Iterable[graph.Edge]]]] = {
        "device": (graph.device_library(task), ("nvcc",), lambda: graph.device_edges(task, toolchain, device_archs)),
        "emulator": (graph.emulator_library(task), ("nvcc", "g++"), lambda: graph.emulator_edges(task, toolchain)),
    }
    for kind, (output, tools, make) in makers.items():
        if kind in want and (task.kind == CUDA or kind == "device" or task.script):
            missing = next(filter(None, (build_failure.missing_tool(tool, toolchain) for tool in tools)), None)
            plans.append(_Plan(kind, output, () if missing else tuple(make()), failure=missing))
    if task.kind == EXTENSION and "binding" in want:
        plans.extend(_binding_plans(task, toolchain))
    return plans


def _binding_plans(task: Task, toolchain: Toolchain) -> list[_Plan]:
    """Return the checks of an extension's C++ files. Without a device, no library of most extensions contains these files."""
    missing = build_failure.missing_tool("g++", toolchain)
    if not missing and torch_headers.include_folder() is None:
        missing = Failure("", "torch was not found", hint="`pip install torch`", missing_tool="torch")
    if missing:
        return [_Plan("binding", "binding", failure=missing)]
    return [_Plan("binding", edge.output, (edge,), log=edge.log) for edge in graph.binding_edges(task, toolchain)]


def _cubin_plans(task: Task, toolchain: Toolchain, arch: str, device_archs: Sequence[str]) -> list[_Plan]:
    tools = ("nvcc", "nvlink") if graph.is_relocatable(task) else ("nvcc",)
    for tool in tools:
        if missing := build_failure.missing_tool(tool, toolchain):
            return [_Plan("cubin", f"{arch}/{stem}.cubin", (), arch, failure=missing) for _, stem in graph.device_sources(task)]
    edges = graph.cubin_edges(task, toolchain, arch, device_archs)
    if graph.is_relocatable(task):
        return [_Plan("cubin", edges[-1].output, tuple(edges), arch, edges[-1].log)]
    made = {edge.output: edge for edge in edges}
    return [
        _Plan("cubin", edge.output, (*(made[name] for name in edge.inputs if name in made), edge), arch, edge.log)
        for edge in edges
        if edge.output.endswith(".cubin")
    ]


def _refuse_unwritable_names(task: Task) -> None:
    """ninja can escape neither a line break nor, in a path, a bar."""
    names = [(path, "|\n\r") for path in map(str, task.sources)]
    names += [(flag, "\n\r") for flag in (*task.nvcc_flags, *map(str, task.toggles.values()))]
    for name, forbidden in names:
        if found := next((letter for letter in forbidden if letter in name), None):
            what = f"a path or flag of task {task.name} holds {'a bar (|)' if found == '|' else 'a line break'}: {name!r}"
            raise GatesError(what, hint="ninja can't build it: rename the folder or file, or change nvcc_flags")


def check_build_root(build_root: Path) -> None:
    """Raise the GatesError of ``build`` where a build folder can't be made below ``build_root``; makes nothing."""
    try:
        jsonio.probe_folder(build_root)
    except OSError as error:
        raise _unwritable(build_root, error.strerror or "") from None


def _make_folders(folder: Path, plans: list[_Plan]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for plan in plans:
            for edge in plan.edges:
                (folder / edge.output).parent.mkdir(exist_ok=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError as error:
        raise _unwritable(Path(error.filename or folder), error.strerror or "") from None
    if not writable:
        raise _unwritable(folder, "permission denied")


def _unwritable(path: Path, reason: str) -> GatesError:
    return GatesError(f"can't write the build folder {path}: {reason.lower()}", hint="name another one with --build-dir")


def _make(edges: Sequence[graph.Edge], task: Task, toolchain: Toolchain, ninja: Ninja, lock: int, say: Progress) -> tuple[str, float]:
    """Make those products whose records do not hold; what ninja printed, and the seconds it took.

    Raises GatesError where the sources change each time that they are compiled.
    """
    folder, printed, wall_s = ninja.folder, "", 0.0
    searched = compilers.searched_folders(toolchain, [task.nvcc_flags]) if edges else []
    for _ in range(_TRIES):
        before = inputs.Look(folder, searched)
        wanted = inputs.stale(edges, before)
        if not wanted:
            return printed, wall_s
        if any(edge.output == graph.RUNTIME for edge in wanted) and not runtime_is_kept(toolchain.need("g++").path):
            say(COMPILING)
        read = {str(path): before.sha256(str(path)) for path in task.files()}
        inputs.discard(wanted, folder)
        try:
            jsonio.write_text(folder / "build.ninja", graph.ninja_text(wanted))
        except GatesError as error:
            raise GatesError(error.what, hint="name another build folder with --build-dir") from None
        finished = ninja.run(lock, say)
        printed, wall_s = printed + finished.output, wall_s + finished.wall_s
        after = inputs.Look(folder, searched)
        changed = [path for path, digest in read.items() if after.sha256(path) != digest]
        if not changed:
            for edge in wanted:
                if after.exists(edge.output):
                    inputs.record(edge, after)
            return printed, wall_s
        say(f"{task.name}: {Path(changed[0]).name} changed meanwhile, compiling again")
    raise GatesError(f"{changed[0]} changes each time that {task.name} is compiled", hint="run again when no other program writes it")


def _target(plan: _Plan, folder: Path, output: str, toolchain: Toolchain) -> Target:
    """The product, which is there if it was made of these inputs; else its failure."""
    target = Target(plan.kind, None, plan.arch, failure=plan.failure)
    if plan.failure:
        return target
    path = folder / plan.output
    if path.is_file():
        made = next(edge for edge in plan.edges if edge.output == plan.output)
        return replace(target, path=str(path), log=str(folder / plan.log) if plan.log else None, sha256=inputs.made_sha256(made, folder))
    return replace(target, failure=build_failure.describe(folder, plan.edges, output, toolchain))


def _log_text(folder: Path, plans: list[_Plan]) -> str:
    """Commands and compiler output of every edge, in the order of the plans."""
    parts = []
    for edge in {edge.output: edge for plan in plans for edge in plan.edges}.values():
        printed = build_failure.printed(folder, edge)
        parts.append(f"$ {' '.join(edge.command).replace('{out}', edge.output)}\n{printed}")
    return "".join(part if part.endswith("\n") else part + "\n" for part in parts)
