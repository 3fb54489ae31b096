"""The ninja graph of a task: which command makes which file, for each architecture and library."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import gates.emulator
from gates.build import objects, torch_headers
from gates.build.toolchain import Toolchain, header_folders
from gates.task.load import CUDA, EXTENSION, Task
from gates.task.sources.architectures import lowest
from gates.task.sources.default_stream import DEFAULT
from gates.task.sources.optimisation import options_files, split
from gates.task.sources.preprocessor import linked_files

STEP = Path(__file__).with_name("compile_step.py")
CXX_STANDARD = "-std=c++17"
_REPORT = ("-lineinfo", "-Xptxas", "-v")  # lines of the source in the code, and what ptxas says of it
RUNTIME = "emulator.runtime.o"
TORCH_ON_CPU = Path(gates.emulator.__file__).parent / "torch_on_cpu"
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


def cubin_edges(task: Task, toolchain: Toolchain, arch: str, device_archs: Sequence[str]) -> list[Edge]:
    """A cubin of each source, with ptxas's report beside it. It is taken out of an object for ``arch`` alone, if there is one."""
    holders = {edge.output: edge for edge in _objects(task, toolchain, arch, device_archs)}
    edges, cubins = list(holders.values()), list[str]()
    command: tuple[str, ...]
    for source, stem in device_sources(task):
        output, log = f"{arch}/{stem}.cubin", f"{arch}/{stem}.ptxas.log"
        cubins.append(output)
        if holders:
            holder = holders[_object(task, stem, arch)]
            command = (sys.executable, "-S", "-m", objects.__name__, holder.output, f"-arch={arch}", "-o", "{out}")
            edges.append(Edge(output, log, command, (holder.output, holder.log), implicit=(objects.__file__,)))
        else:
            command = (*_nvcc(toolchain), "-cubin", f"-arch={arch}", *_REPORT, *_compiled(task, source, output))
            edges.append(Edge(output, log, command, (str(source),), f"{output}.d", _files_of_flags(task)))
    if is_relocatable(task):  # ptxas saw one file's share: the linker's figures and code are the ones to judge
        link = (toolchain.need("nvlink").path, f"-arch={arch}", "-v", *cubins, "-o", "{out}")
        edges.append(Edge(f"{arch}/linked.cubin", f"{arch}/linked.ptxas.log", link, tuple(cubins)))
    return edges


def is_relocatable(task: Task) -> bool:
    """Whether the task's flags leave device code to be linked."""
    flags = " ".join(task.nvcc_flags).replace("--relocatable-device-code", "-rdc").replace(" true", "=true")
    return "-rdc=true" in flags or "-dc" in task.nvcc_flags


def device_edges(task: Task, toolchain: Toolchain, archs: Sequence[str]) -> list[Edge]:
    """Objects of each source, then the shared library that holds the launcher; the CUDA runtime is linked in."""
    code = [*_streams(task), *(f"-gencode=arch={arch.replace('sm_', 'compute_')},code={arch}" for arch in archs)]
    made_anyway = {edge.inputs: edge for edge in _objects(task, toolchain, archs[0], archs)} if len(archs) == 1 else {}
    edges = [
        made_anyway.get((str(source),)) or _object_edge(task, toolchain, source, f"device/{stem}.o", code)
        for source, stem in _compiled_sources(task)
    ]
    made = [edge.output for edge in edges]
    libraries = torch_headers.link_flags(device=True) if task.kind == EXTENSION else ()
    command = (*_nvcc(toolchain), "-shared", "-cudart", "static", *code, *_entry(task), *task.nvcc_flags, *made, *libraries, "-o", "{out}")
    return [*edges, _library_edge(task, device_library(task), command, made)]


def _streams(task: Task) -> tuple[str, ...]:
    """Send launches without a stream to the thread's own default stream: it can be captured, and keeps the order of the legacy one."""
    return ("--default-stream=per-thread",) if task.kind == EXTENSION and task.stream == DEFAULT else ()


def _entry(task: Task) -> tuple[str, ...]:
    """Return the flags with which the linker refuses a library without the launcher."""
    return ("-Xlinker", f"--require-defined={task.entry}") if task.kind == CUDA else ()


def device_library(task: Task) -> str:
    """The file of the device's library; Python imports an extension by its file's name."""
    return f"device/{task.name}.so" if task.kind == EXTENSION else "device.so"


def _objects(task: Task, toolchain: Toolchain, arch: str, device_archs: Sequence[str]) -> list[Edge]:
    """Return one object per source for ``arch`` alone, for its cubin and each library. Empty if no library takes it.

    The object for the lowest architecture also holds PTX for the emulator. An extension has separate objects for the emulator.
    """
    if not (tuple(device_archs) == (arch,) or (task.kind == CUDA and arch == lowest(task.arch))):
        return []
    virtual = arch.replace("sm_", "compute_")
    code = [*_streams(task), *(f"-gencode=arch={virtual},code={one}" for one in (arch, *([virtual] if _is_emulated(task, arch) else [])))]
    return [_object_edge(task, toolchain, source, _object(task, stem, arch), code) for source, stem in device_sources(task)]


def _object(task: Task, stem: str, arch: str) -> str:
    return f"{'emulator' if _is_emulated(task, arch) else 'device'}/{stem}.o"


def _is_emulated(task: Task, arch: str) -> bool:
    """Whether the emulator runs the objects for ``arch``."""
    return task.kind == CUDA and arch == lowest(task.arch)


def _compiled(task: Task, source: Path, output: str) -> tuple[str, ...]:
    """What ends a command that compiles one source: the task's flags, the file of dependencies, the source, the product."""
    return (*_flags(task, source), "-MD", "-MF", f"{output}.d", str(source), "-o", "{out}")


def _object_edge(task: Task, toolchain: Toolchain, source: Path, output: str, code: Sequence[str]) -> Edge:
    command = (
        *_nvcc(toolchain),
        "-c",
        "-O3",
        "-Xcompiler",
        "-fPIC",
        "--no-compress",
        *_REPORT,
        *code,
        *_compiled(task, source, output),
    )
    return Edge(output, f"{output}.log", command, (str(source),), f"{output}.d", _files_of_flags(task))


def _library_edge(task: Task, output: str, command: Sequence[str], objects: Sequence[str]) -> Edge:
    given = (*_files_of_flags(task), *linked_files(task.nvcc_flags))
    return Edge(output, f"{output}.log", tuple(command), tuple(objects), implicit=given)


def emulator_edges(task: Task, toolchain: Toolchain) -> list[Edge]:
    """The same for the emulator: objects with PTX for the lowest architecture, and a library that holds the emulator's runtime too."""
    from gates.emulator.cpu import runtime_object
    from gates.emulator.cpu.build import LINK_FLAGS, RUNTIME_DIR

    virtual = lowest(task.arch).replace("sm_", "compute_")
    code = [f"-gencode=arch={virtual},code={virtual}"]
    torch = task.kind == EXTENSION
    if torch:  # its objects are for the CPU's tensors alone
        before = [*code, "-include", str(TORCH_ON_CPU / "device.h")]
        edges = [_object_edge(task, toolchain, source, f"emulator/{stem}.o", before) for source, stem in _compiled_sources(task)]
        edges.append(_object_edge(task, toolchain, TORCH_ON_CPU / "device.cpp", "emulator/torch_on_cpu.o", code))
    else:
        edges = _objects(task, toolchain, lowest(task.arch), ())
    made = [edge.output for edge in edges]
    make_runtime = (sys.executable, "-m", runtime_object.__name__, "-o", "{out}", "--cxx", toolchain.need("g++").path)
    rules = [*RUNTIME_DIR.iterdir(), *RUNTIME_DIR.parent.glob("*.py")]
    edges.append(Edge(RUNTIME, f"{RUNTIME}.log", make_runtime, (), implicit=tuple(sorted(map(str, rules)))))
    libraries = torch_headers.link_flags() if torch else ()
    flags = [flag.replace("-z,defs,", "") for flag in LINK_FLAGS] if torch else LINK_FLAGS  # a CPU build of torch lacks cuBLAS and its kin
    command = (*_nvcc(toolchain), *flags, *code, *_entry(task), *task.nvcc_flags, *made, RUNTIME, *libraries, "-o", "{out}")
    return [*edges, _library_edge(task, emulator_library(task), command, [*made, RUNTIME])]


def emulator_library(task: Task) -> str:
    """The file of the emulator's library; Python imports an extension by its file's name."""
    return f"emulator/{task.name}.so" if task.kind == EXTENSION else "emulator.so"


def binding_edges(task: Task, toolchain: Toolchain) -> list[Edge]:
    """A check of each C++ file of an extension with the flags of torch's loader; its output is empty."""
    gxx = toolchain.host_compiler or toolchain.need("g++").path
    defined = (*_toggles(task), *(flag for flag in task.nvcc_flags if flag.startswith("-D")))
    edges = []
    for source, stem in _compiled_sources(task):
        if source.suffix != ".cu":
            output = f"binding/{stem}.checked"
            flags = (TORCH_CXX_STANDARD, "-w", *torch_headers.binding_flags(task.name, toolchain, _text(source)), *defined)
            command = (gxx, "-fsyntax-only", *flags, "-MD", "-MF", f"{output}.d", "-MT", output, str(source))
            edges.append(Edge(output, f"{output}.log", command, (str(source),), f"{output}.d"))
    return edges


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
    return [(source, stem) for source, stem in _compiled_sources(task) if task.kind != EXTENSION or source.suffix == ".cu"]


def _compiled_sources(task: Task) -> list[tuple[Path, str]]:
    """The sources that compilers read, each with its stem."""
    return [(source, stem) for source, stem in zip(task.sources, stems(task), strict=True) if source in task.compiled]


def stems(task: Task) -> list[str]:
    """A name for each source that no other has: the file's stem, numbered where two files share it."""
    found: list[str] = []
    for source in task.sources:
        found.append(source.stem if source.stem not in found else f"{source.stem}_{len(found)}")
    return found


def _nvcc(toolchain: Toolchain) -> tuple[str, ...]:
    ccbin = ("-ccbin", toolchain.host_compiler) if toolchain.host_compiler else ()
    return (toolchain.need("nvcc").path, *ccbin)


def _flags(task: Task, source: Path) -> list[str]:
    given = any(flag.startswith(("-std", "--std")) for flag in task.nvcc_flags)
    torch = torch_headers.nvcc_flags(task.name, _text(source)) if task.kind == EXTENSION else []
    standard = () if given else (TORCH_CXX_STANDARD if torch else CXX_STANDARD,)
    wheels = [f"-Xcompiler=-idirafter{folder}" for folder in header_folders()]  # of libraries that the toolkit may be installed without
    return [*standard, *wheels, *torch, *_toggles(task), *task.nvcc_flags]


def _text(source: Path) -> str:
    return source.read_text(encoding="utf-8", errors="replace") if source.is_file() else ""


def _files_of_flags(task: Task) -> tuple[str, ...]:
    """The files of options that nvcc reads, as the task or the environment names them."""
    given = [word for name in ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS") for word in split(os.environ.get(name, ""))]
    return tuple(options_files([*task.nvcc_flags, *given]))


def _toggles(task: Task) -> list[str]:
    return [f"-D{name}={value}" for name, value in task.toggles.items()]


def _path(path: str) -> str:
    return path.replace("$", "$$").replace(":", "$:").replace(" ", "$ ")
