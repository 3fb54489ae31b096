"""The ninja graph of a task: which command makes which file, for each architecture and library."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gates.build import torch_headers
from gates.build.toolchain import Toolchain, header_folders
from gates.hardware.chips import chip_of
from gates.task.load import CUDA, EXTENSION, Task
from gates.task.sources.optimisation import options_files, split
from gates.task.sources.preprocessor import for_preprocessor, linked_files

STEP = Path(__file__).with_name("compile_step.py")
CXX_STANDARD = "-std=c++17"
TORCH_CXX_STANDARD = "-std=c++20"  # of torch's headers


@dataclass(frozen=True)
class Edge:
    """One command.

    ``command`` writes to ``{out}``, or only checks its input; ``depfile`` is relative to the build folder, like ``output``.
    """

    output: str
    log: str
    command: tuple[str, ...]
    inputs: tuple[str, ...]
    depfile: str | None = None
    implicit: tuple[str, ...] = ()


def cubin_edges(task: Task, toolchain: Toolchain, arch: str) -> list[Edge]:
    """A cubin of each source, with ptxas's report beside it."""
    edges = []
    for source, stem in device_sources(task):
        output = f"{arch}/{stem}.cubin"
        command = (
            *_nvcc(toolchain),
            "-cubin",
            f"-arch={arch}",
            "-Xptxas",
            "-v",
            "-lineinfo",
            *_flags(task),
            "-MD",
            "-MF",
            f"{output}.d",
            str(source),
            "-o",
            "{out}",
        )
        edges.append(Edge(output, f"{arch}/{stem}.ptxas.log", command, (str(source),), f"{output}.d", _files_of_flags(task)))
    if is_relocatable(task):  # ptxas saw one file's share: the linker's figures and code are the ones to judge
        cubins = tuple(edge.output for edge in edges)
        link = (toolchain.need("nvlink").path, f"-arch={arch}", "-v", *cubins, "-o", "{out}")
        edges.append(Edge(f"{arch}/linked.cubin", f"{arch}/linked.ptxas.log", link, cubins))
    return edges


def is_relocatable(task: Task) -> bool:
    """Whether the task's flags leave device code to be linked."""
    flags = " ".join(task.nvcc_flags).replace("--relocatable-device-code", "-rdc").replace(" true", "=true")
    return "-rdc=true" in flags or "-dc" in task.nvcc_flags


def device_edges(task: Task, toolchain: Toolchain, archs: Sequence[str]) -> list[Edge]:
    """Objects of each source, then the shared library that holds the launcher; the CUDA runtime is linked in."""
    code = [f"-gencode=arch={arch.replace('sm_', 'compute_')},code={arch}" for arch in archs]
    edges, objects = [], []
    for source, stem in zip(task.sources, stems(task), strict=True):
        output = f"device/{stem}.o"
        command = (
            *_nvcc(toolchain),
            "-c",
            "-O3",
            "-lineinfo",
            "-Xcompiler",
            "-fPIC",
            *code,
            *_flags(task),
            "-MD",
            "-MF",
            f"{output}.d",
            str(source),
            "-o",
            "{out}",
        )
        edges.append(Edge(output, f"{output}.log", command, (str(source),), f"{output}.d", _files_of_flags(task)))
        objects.append(output)
    command = (*_nvcc(toolchain), "-shared", "-cudart", "static", *code, *task.nvcc_flags, *objects, "-o", "{out}")
    return [
        *edges,
        Edge("device.so", "device.so.log", command, tuple(objects), implicit=(*_files_of_flags(task), *linked_files(task.nvcc_flags))),
    ]


def emulator_edges(task: Task, toolchain: Toolchain, *, sanitize: bool) -> list[Edge]:
    """C++ translated from each source, then the library that runs it on the CPU, with the emulator's runtime in it."""
    from gates.emulator import flags as emulator
    from gates.emulator import runtime_object

    name = "emulator_asan" if sanitize else "emulator"
    gxx = toolchain.need("g++").path
    flags = (*emulator.CXX_FLAGS, *(emulator.SANITIZE_FLAGS if sanitize else ()))
    rules = tuple(sorted(str(path) for path in Path(emulator.__file__).parent.glob("*.py")))
    edges, objects = [], []
    for source, stem in zip(task.sources, stems(task), strict=True):
        translated, output = f"emulator/{stem}.cpp", f"{name}/{stem}.o"
        translate = (
            sys.executable,
            "-m",
            "gates.emulator.translate",
            str(source),
            "-o",
            "{out}",
            "--depfile",
            f"{translated}.d",
            "--cxx",
            gxx,
            "-I",
            str(source.parent),
            *_emulator_flags(task),
        )
        edges.append(Edge(translated, f"{translated}.log", translate, (str(source),), f"{translated}.d", rules))
        # the translated file is preprocessed: its headers are in the first step's depfile
        compile_ = (gxx, *flags, "-fpreprocessed", "-c", translated, "-o", "{out}")
        edges.append(Edge(output, f"{output}.log", compile_, (translated,)))
        objects.append(output)
    runtime = f"{name}.runtime.o"
    make_runtime = (
        sys.executable,
        "-m",
        "gates.emulator.runtime_object",
        "-o",
        "{out}",
        "--depfile",
        f"{runtime}.d",
        "--cxx",
        gxx,
        "--",
        *flags,
    )
    edges.append(Edge(runtime, f"{runtime}.log", make_runtime, (str(runtime_object.SOURCE),), f"{runtime}.d", rules))
    objects.append(runtime)
    # What no source defines is told by the linker, not by whoever loads the library; AddressSanitizer's own names come with its loader.
    whole = ("-Wl,-z,defs",) if task.kind == CUDA and not sanitize else ()
    return [*edges, Edge(f"{name}.so", f"{name}.so.log", (gxx, *flags, *whole, *objects, "-o", "{out}"), tuple(objects))]


def binding_edges(task: Task, toolchain: Toolchain) -> list[Edge]:
    """A check of each C++ file of an extension with the flags of torch's loader; its output is empty."""
    gxx = toolchain.host_compiler or toolchain.need("g++").path
    flags = (
        TORCH_CXX_STANDARD,
        "-w",
        *torch_headers.binding_flags(task.name, toolchain),
        *_toggles(task),
        *(flag for flag in task.nvcc_flags if flag.startswith("-D")),
    )
    edges = []
    for source, stem in zip(task.sources, stems(task), strict=True):
        if source.suffix != ".cu":
            output = f"binding/{stem}.checked"
            command = (gxx, "-fsyntax-only", *flags, "-MD", "-MF", f"{output}.d", "-MT", output, str(source))
            edges.append(Edge(output, f"{output}.log", command, (str(source),), f"{output}.d"))
    return edges


def _emulator_flags(task: Task) -> list[str]:
    """The toggles, those of the task's nvcc flags that the preprocessor needs too, and the shared memory of its smallest chip."""
    flags = [part for name, value in task.toggles.items() for part in ("-D", f"{name}={value}")]
    limits = [chip.smem_per_cta for arch in task.arch if (chip := chip_of(arch)) is not None]
    if limits:
        flags += ["-D", f"GATES_EMULATOR_SHARED_LIMIT={min(limits)}"]
    return flags + [f"--flag={word}" for word in for_preprocessor(task.nvcc_flags)]


def ninja_text(edges: Iterable[Edge]) -> str:
    """The build file of what is to be made: ninja starts each command once, when those that it needs have succeeded."""
    lines = ["ninja_required_version = 1.10", ""]
    for number, edge in enumerate(edges):
        rule = f"r{number}"
        command = shlex.join((sys.executable, "-I", "-S", str(STEP), edge.output, edge.log, "--", *edge.command))
        lines += [f"rule {rule}", f"  command = {command.replace('$', '$$')}", f"  description = {edge.output}"]
        implicit = f" | {' '.join(map(_path, edge.implicit))}" if edge.implicit else ""
        lines += [f"build {_path(edge.output)} {_path(edge.log)}: {rule} {' '.join(map(_path, edge.inputs))}{implicit}", ""]
    return "\n".join(lines)


def device_sources(task: Task) -> list[tuple[Path, str]]:
    """The sources that hold device code, each with its stem: of an extension, all but the C++ files."""
    named = zip(task.sources, stems(task), strict=True)
    return [(source, stem) for source, stem in named if task.kind != EXTENSION or source.suffix == ".cu"]


def stems(task: Task) -> list[str]:
    """A name for each source that no other has: the file's stem, numbered where two files share it."""
    found: list[str] = []
    for source in task.sources:
        found.append(source.stem if source.stem not in found else f"{source.stem}_{len(found)}")
    return found


def _nvcc(toolchain: Toolchain) -> tuple[str, ...]:
    ccbin = ("-ccbin", toolchain.host_compiler) if toolchain.host_compiler else ()
    return (toolchain.need("nvcc").path, *ccbin)


def _flags(task: Task) -> list[str]:
    given = any(flag.startswith(("-std", "--std")) for flag in task.nvcc_flags)
    torch = torch_headers.nvcc_flags(task.name) if task.kind == EXTENSION else []
    standard = () if given else (TORCH_CXX_STANDARD if torch else CXX_STANDARD,)
    wheels = [f"-Xcompiler=-idirafter{folder}" for folder in header_folders()]  # of libraries that the toolkit may be installed without
    return [*standard, *wheels, *torch, *_toggles(task), *task.nvcc_flags]


def _files_of_flags(task: Task) -> tuple[str, ...]:
    """The files of options that nvcc reads, as the task or the environment names them."""
    given = [word for name in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS") for word in split(os.environ.get(name, ""))]
    return tuple(options_files([*task.nvcc_flags, *given]))


def _toggles(task: Task) -> list[str]:
    return [f"-D{name}={value}" for name, value in task.toggles.items()]


def _path(path: str) -> str:
    return path.replace("$", "$$").replace(":", "$:").replace(" ", "$ ")
