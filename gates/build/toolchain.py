"""Find the compilers and tools: where each lies, which version, and what to do about one that is missing.

nvcc is looked for in CUDA_HOME, then on PATH, then in the nvidia-cuda-nvcc wheel of the running
interpreter; what belongs to it (ptxas, cuobjdump, …) in CUDA_HOME, on PATH, beside nvcc, then in the
wheels. A variable that names something missing is not passed over in silence: the tool counts as
missing, and the remedy says so.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gates.core.errors import GatesError
from gates.worker import process

OLDEST_GXX = 12
_VERSION_LIMIT_S = 20.0

REMEDIES = {
    "nvcc": "install the CUDA toolkit and put nvcc on PATH or set CUDA_HOME, or `pip install 'kernel-gates[cuda]'`",
    "ptxas": "it comes with nvcc",
    "nvlink": "it comes with nvcc",
    "cuobjdump": "`pip install nvidia-cuda-cuobjdump`, or install the CUDA toolkit",
    "nvdisasm": "`pip install nvidia-cuda-nvdisasm`, or install the CUDA toolkit",
    "g++": f"install g++ {OLDEST_GXX} or newer, or set CXX to one",
    "ninja": "`pip install ninja`",
    "ncu": "install Nsight Compute and put ncu on PATH",
    "compute-sanitizer": "`pip install nvidia-cuda-sanitizer-api`, or install the CUDA toolkit",
    "c++filt": "install binutils; without it kernels are shown under their mangled names",
}
NAMES = tuple(REMEDIES)
_OF_PROGRAMS = ("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "COMPILER_PATH", "GCC_EXEC_PREFIX")  # variables that decide what a program starts
_answers: dict[tuple[Any, ...], str] = {}
_OWN_PLACES = {
    "ncu": ("/opt/nvidia/nsight-compute/*/ncu", "/usr/local/cuda/bin/ncu"),
    "compute-sanitizer": ("/usr/local/cuda/bin/compute-sanitizer",),
}


@dataclass(frozen=True)
class Tool:
    """A program that was found. ``source``: CUDA_HOME, CXX, PATH, beside nvcc, wheel or default place."""

    name: str
    path: str
    version: str  # empty where it does not say
    source: str


@dataclass(frozen=True)
class Toolchain:
    """Every tool by name, None where it is missing; ``remedies`` says for those what to do."""

    tools: Mapping[str, Tool | None]
    remedies: Mapping[str, str] = field(default_factory=dict)
    host_compiler: str | None = None  # what nvcc is told to use; None: its own choice, the g++ or gcc of PATH

    def get(self, name: str) -> Tool | None:
        """The tool, or None where it is missing."""
        return self.tools[name]

    def need(self, name: str) -> Tool:
        """The tool; raises GatesError with the remedy where it is missing."""
        tool = self.tools[name]
        if tool is None:
            raise GatesError(f"{name} was not found", hint=self.remedies[name])
        return tool

    @property
    def nvcc(self) -> Tool | None:
        """The CUDA compiler."""
        return self.tools["nvcc"]

    @property
    def gxx(self) -> Tool | None:
        """The host C++ compiler."""
        return self.tools["g++"]


def find_toolchain(environ: Mapping[str, str] | None = None, wheels: list[Path] | None = None) -> Toolchain:
    """Look for every tool. ``environ`` defaults to os.environ, ``wheels`` to the interpreter's own nvidia folders."""
    search = _Search(os.environ if environ is None else environ, wheel_folders() if wheels is None else wheels)
    nvcc = search.find("nvcc")  # the others may lie beside it
    with process.ToolThreads(len(NAMES)) as pool:  # some take half a second to say their version
        tools = dict(zip(NAMES, pool.map(lambda name: nvcc if name == "nvcc" else search.find(name), NAMES), strict=True))
    return Toolchain(tools, search.remedies, search.host_compiler(tools["g++"]))


def newest_ptxas() -> str:
    """The path of the newest ptxas on this machine; "ptxas" if there is none."""
    search = _Search(os.environ, wheel_folders())
    search.find("nvcc")
    found = {str(path): search.version("ptxas", path) for _, path in search.candidates("ptxas") if path is not None and _is_program(path)}
    return max(found, key=lambda path: [int(number) for number in re.findall(r"\d+", found[path])], default="ptxas")


def wheel_folders() -> list[Path]:
    """The ``nvidia/cu13`` folders that NVIDIA's wheels install into, newest toolkit first."""
    return sorted(_in_wheels("cu[0-9]*"), key=lambda path: int(re.sub(r"\D", "", path.name) or 0), reverse=True)


def header_folders() -> list[Path]:
    """The folders of headers that NVIDIA's wheels install, of all their libraries."""
    return sorted(_in_wheels("*/include"), reverse=True)


def _in_wheels(pattern: str) -> list[Path]:
    import importlib.util

    spec = importlib.util.find_spec("nvidia")
    places = list(spec.submodule_search_locations or ()) if spec else []
    return [path for place in places for path in Path(place).glob(pattern) if path.is_dir()]


class _Search:
    """One look at the machine: the environment, the wheels, and what has been found so far."""

    def __init__(self, environ: Mapping[str, str], wheels: list[Path]) -> None:
        self.environ, self.wheels = environ, wheels
        self.remedies: dict[str, str] = {}
        self.beside_nvcc: Path | None = None

    def find(self, name: str) -> Tool | None:
        for source, path in self.candidates(name):
            if path is None or not _is_program(path):
                continue
            version = self.version(name, path)
            if name in ("g++", "nvcc") and (wrong := _unfit(name, path, version)):
                self.remedies[name] = f"{wrong}; {REMEDIES[name]}"
                return None
            if name == "nvcc":
                self.beside_nvcc = path.parent
            return Tool(name, str(path), version, source)
        self.remedies.setdefault(name, REMEDIES[name])
        return None

    def candidates(self, name: str) -> Iterator[tuple[str, Path | None]]:
        home, on_path = self.environ.get("CUDA_HOME"), self._on_path(name)
        if name == "g++":
            yield from self._gxx(on_path)
        elif name == "ninja":
            yield "wheel", _ninja_of_wheel()
            yield "PATH", on_path
        elif name == "c++filt":
            yield "PATH", on_path
            yield "beside nvcc", self.beside_nvcc and self.beside_nvcc / "cu++filt"
        elif name == "nvcc" and home:
            path = Path(home) / "bin" / name
            if not _is_program(path):
                self.remedies[name] = f"CUDA_HOME={home} holds no bin/nvcc: correct it or unset it"
            yield "CUDA_HOME", path
        else:
            if home:
                yield "CUDA_HOME", Path(home) / "bin" / name
            yield "PATH", on_path
            if name != "nvcc":
                yield "beside nvcc", self.beside_nvcc and self.beside_nvcc / name
            for folder in self.wheels:
                yield "wheel", folder / "bin" / name
            for pattern in _OWN_PLACES.get(name, ()):
                for path in sorted(Path("/").glob(pattern[1:]), reverse=True):
                    yield "default place", path

    def _gxx(self, on_path: Path | None) -> Iterator[tuple[str, Path | None]]:
        wanted = self.environ.get("CXX")
        if not wanted:
            yield "PATH", on_path
            return
        words = _words(wanted)
        options, paths = [word for word in words if word.startswith("-")], [self._on_path(word) for word in words]
        if options:
            self.remedies["g++"] = (
                f"CXX={wanted} gives the compiler options, which are not used: name the program alone, options in nvcc_flags of task.yaml"
            )
        elif not paths or None in paths:
            self.remedies["g++"] = f"CXX={wanted} is not a program: correct it or unset it"
        else:
            yield "CXX", paths[-1]  # after a launcher such as ccache, which is not needed: builds are kept here

    def _on_path(self, name: str) -> Path | None:
        found = shutil.which(name, path=self.environ.get("PATH", ""))
        return Path(found) if found else None

    def version(self, name: str, path: Path) -> str:
        output = self._said(path, "--version")
        if name == "g++" and "clang" in output:
            return ""
        if name == "g++" and (version := self._full_version(path)):
            return version
        patterns = {"g++": r"(?m)^.*?\s(\d+\.\d+\.\d+)", "c++filt": r"(\d+\.\d+[\d.]*)"}
        match = re.search(patterns.get(name, r"(?:V|[Vv]ersion |^)(\d+\.\d+[\d.]*)"), output)
        return match.group(1).rstrip(".") if match else ""

    def _full_version(self, path: Path) -> str:
        """What g++ itself calls its version; a banner may have its builder's version first. Empty before g++ 7."""
        told = self._said(path, "-dumpfullversion").strip()
        return told if re.fullmatch(r"\d+\.\d+\.\d+", told) else ""

    def _said(self, path: Path, option: str) -> str:
        """What the program prints, asked once in this process for each state of its file; empty where it can't be started."""
        key = str(path), option, file_stamp(path), *map(self.environ.get, _OF_PROGRAMS)
        if key not in _answers:
            try:
                finished = process.run([path, option], limit_s=_VERSION_LIMIT_S, env=self.environ)
            except GatesError:
                return ""
            if finished.returncode:
                return finished.output
            _answers[key] = finished.output
        return _answers[key]

    def host_compiler(self, gxx: Tool | None) -> str | None:
        """NVCC_CCBIN, as nvcc itself reads it; else the program that CXX names."""
        if ccbin := self.environ.get("NVCC_CCBIN"):
            return ccbin
        return gxx.path if gxx is not None and gxx.source == "CXX" else None


def file_stamp(path: str | Path) -> tuple[int, ...]:
    """What tells within one process that a file was replaced; () where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _words(command: str) -> list[str]:
    """The words of a command as a shell has them; a program whose own path has blanks is one word."""
    if shutil.which(command):
        return [command]
    try:
        return shlex.split(command)
    except ValueError:  # a quote without its end
        return [command]


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _unfit(name: str, path: Path, version: str) -> str | None:
    major = version.split(".")[0]
    if not major.isdigit():  # it does not run here, or is another program
        return f"{path} does not say its {name} version"
    if name == "g++" and int(major) < OLDEST_GXX:
        return f"{path} is version {version}"
    return None


def _ninja_of_wheel() -> Path | None:
    try:
        import ninja
    except ImportError:
        return None
    return Path(ninja.BIN_DIR) / "ninja"
