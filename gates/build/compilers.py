"""Identify compilers by content, and list the environment variables that change their output.

A compiler is several programs. The driver names those that decide its output, and their bytes are digested: a toolkit that was
replaced in place, with the same path and version, is another one. In a program over 8 MiB one block of 64 KiB in sixteen is read, so a
patch of a few bytes may be missed. Not covered: shared libraries that these programs load, and programs behind a wrapper script that
does not answer as nvcc and g++ do.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from gates.build.toolchain import Toolchain, file_stamp
from gates.core import jsonio
from gates.core.errors import GatesError
from gates.task.load import CUDA, EXTENSION, JIT, NUMBA, TRITON
from gates.task.sources.optimisation import split
from gates.task.sources.preprocessor import named_folders
from gates.worker import process

_LIMIT_S = 20.0
_WHOLE_BYTES, _BLOCK_BYTES, _STEP = 8 * 2**20, 64 * 2**10, 16
_OF_NVCC = ("nvcc", "cudafe++", "fatbinary", "ptxas", "nvlink", "nvcc.profile")
_OF_GXX = ("cc1plus", "as", "collect2", "ld")
# Variables that nvcc, g++, their linker, torch's loader, Triton and Numba read. What only changes messages is not among them.
_VARIABLES = frozenset(
    {
        "CPATH",
        "C_INCLUDE_PATH",
        "CPLUS_INCLUDE_PATH",
        "OBJC_INCLUDE_PATH",
        "OBJCPLUS_INCLUDE_PATH",
        "LIBRARY_PATH",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "LD_RUN_PATH",
        "GCC_EXEC_PREFIX",
        "COMPILER_PATH",
        "GCC_ROOT",
        "SOURCE_DATE_EPOCH",
        "GNUTARGET",
        "LDEMULATION",
        "CC",
        "CXX",
        "CFLAGS",
        "CXXFLAGS",
        "CPPFLAGS",
        "LDFLAGS",
        "CUDA_HOME",
        "CUDA_PATH",
        "CUDA_ROOT",
        "CUDACXX",
        "CUDAFLAGS",
        "CUDAHOSTCXX",
        "CCBIN",
        "PYTORCH_NVCC",
        "CUDNN_HOME",
        "DISABLE_PTXAS_OPT",
    }
)
_PREFIXES = ("NVCC_", "CICC_", "NVVM_", "PTXAS_", "TRITON_", "NUMBA_", "WARP_", "TORCH_CUDA_", "TORCH_EXTENSION", "TORCH_DONT_CHECK_")
# Of these, what changes the flags or the headers of a kernel. Where compilers and libraries lie (CUDA_HOME, LIBRARY_PATH, …) is this
# machine's.
_NVCC_FLAGS = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
_OVERRIDING = {
    CUDA: (*_NVCC_FLAGS, "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH"),
    TRITON: (
        "PTXAS_OPTIONS",
        "DISABLE_PTXAS_OPT",
        "TRITON_KERNEL_OVERRIDE",
        "TRITON_OVERRIDE_DIR",
        "TRITON_PTXAS_PATH",
        "TRITON_DEFAULT_FP_FUSION",
        "TRITON_DEBUG",
    ),
    NUMBA: ("NUMBA_OPT", "NUMBA_DEBUGINFO", "NUMBA_CUDA_DEBUGINFO", "NUMBA_FORCE_CUDA_CC"),
}
_OVERRIDING[EXTENSION] = _OVERRIDING[CUDA]


def environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the set variables that change what compilers do, by name."""
    given = os.environ if environ is None else environ
    return {name: given[name] for name in sorted(given) if given[name] and (name in _VARIABLES or name.startswith(_PREFIXES))}


def overriding(kind: str) -> dict[str, str]:
    """Return the set variables that change how a kernel of ``kind`` is compiled, like a flag in task.yaml."""
    given, names = environment(), _OVERRIDING.get(kind, ())
    compilers = ("CXX", "NVCC_CCBIN") if names and kind not in JIT else ()
    with_flags = [name for name in compilers if any(word.startswith("-") for word in split(given.get(name, "")))]
    return {name: given[name] for name in (*names, *with_flags) if name in given}


def identities(toolchain: Toolchain) -> dict[str, str]:
    """Return the sha256 of each program and file that compiles for a build, by path."""
    given = tuple(environment().items())
    paths = dict.fromkeys(
        (
            *_nvcc_files(toolchain),
            *(path for driver in host_drivers(toolchain) for path in _gxx_programs(driver, file_stamp(driver), given)),
        )
    )
    with ThreadPoolExecutor() as pool:
        return {path: digest for path, digest in zip(paths, pool.map(file_identity, paths), strict=True) if digest}


def file_identity(path: str) -> str:
    """Return the sha256 of a program's bytes, read once per process; empty if it can't be read."""
    stamp = file_stamp(path)
    return _sha256(path, stamp) if stamp else ""


def host_drivers(toolchain: Toolchain) -> list[str]:
    """Return the C++ compilers that a build may start: the one found, and the one that nvcc uses."""
    gxx = toolchain.get("g++")
    nvcc_s = toolchain.host_compiler or "gcc"
    found = (gxx.path if gxx else None, nvcc_s if os.sep in nvcc_s else shutil.which(nvcc_s))
    return [path for path in dict.fromkeys(found) if path and os.path.isfile(path)]


def dryrun(toolchain: Toolchain) -> dict[str, str]:
    """Return the variables that nvcc reports, such as ``INCLUDES`` and ``CICC_PATH``; nvcc may be a wrapper script."""
    nvcc = toolchain.get("nvcc")
    return dict(_dryrun(nvcc.path, file_stamp(nvcc.path), tuple(environment().items()))) if nvcc else {}


def cuda_folders(toolchain: Toolchain) -> list[Path]:
    """Return the header folders that nvcc reports."""
    found = dryrun(toolchain)
    words = [word for name in ("INCLUDES", "SYSTEM_INCLUDES") for word in split(found.get(name, ""))]
    return [Path(folder) for word in words if (folder := word.removeprefix("-I").removeprefix("-isystem"))]


def searched_folders(toolchain: Toolchain, commands: Iterable[Sequence[str]]) -> list[str]:
    """Return every folder that these commands may search for headers, also missing ones, in any order."""
    given = environment()
    found = dict.fromkeys(map(str, cuda_folders(toolchain)))
    for driver in host_drivers(toolchain):
        found.update(dict.fromkeys(_gxx_folders(driver, file_stamp(driver), tuple(given.items()))))
    words = [word for command in commands for word in command] + [
        word for name in given if name.endswith("_FLAGS") for word in split(given[name])
    ]
    found.update(dict.fromkeys(named_folders(words)))
    return [folder for folder in found if folder]


def _nvcc_files(toolchain: Toolchain) -> Iterable[str]:
    for tool in ("nvcc", "ptxas", "nvlink"):
        if found := toolchain.get(tool):
            yield found.path
    said = dryrun(toolchain)
    if here := said.get("_HERE_"):
        yield from (os.path.join(here, name) for name in _OF_NVCC)
        yield os.path.join(said.get("CICC_PATH", os.path.join(here, "..", "nvvm", "bin")), "cicc")
        yield from map(
            str, sorted(Path(said.get("NVVMIR_LIBRARY_DIR", os.path.join(here, "..", "nvvm", "libdevice"))).glob("libdevice*.bc"))
        )


@lru_cache(maxsize=256)
def _sha256(path: str, stamp: tuple[int, ...]) -> str:
    """Of the whole file; of a large one, of its length, its two ends and one block in sixteen: compilers take 200 MB, and another build
    differs throughout.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size <= _WHOLE_BYTES:
                return jsonio.sha256(path)
            total = hashlib.sha256(str(size).encode())
            for start in (*range(0, size - _BLOCK_BYTES, _STEP * _BLOCK_BYTES), size - _BLOCK_BYTES):
                total.update(os.pread(file.fileno(), _BLOCK_BYTES, start))
    except (OSError, GatesError):
        return ""
    return total.hexdigest()


@lru_cache(maxsize=16)
def _dryrun(nvcc: str, stamp: tuple[int, ...], given: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    text = _said([nvcc, "--dryrun", "-c", "x.cpp"])
    return tuple(re.findall(r"^#\$ (\w+)=[ \t]*(.*?)[ \t]*$", text, re.MULTILINE))


@lru_cache(maxsize=16)
def _gxx_programs(driver: str, stamp: tuple[int, ...], given: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """The driver and the programs that it starts."""
    found = [driver]
    for name in _OF_GXX:
        said = _said([driver, f"-print-prog-name={name}"]).strip()
        path = said if os.sep in said else shutil.which(said or name)
        if path and os.path.isfile(path):
            found.append(path)
    return tuple(found)


@lru_cache(maxsize=16)
def _gxx_folders(driver: str, stamp: tuple[int, ...], given: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Where it looks for headers, those of the environment among them, and the folders that it passes over because they don't exist."""
    text = _said([driver, "-v", "-E", "-x", "c++", os.devnull])
    passed_over = re.findall(r'^ignoring nonexistent directory "(.*)"$', text, re.MULTILINE)
    listed = re.search(r"^#include <\.\.\.> search starts here:\n(.*?)^End of search list", text, re.MULTILINE | re.DOTALL)
    quoted = re.search(r'^#include "\.\.\." search starts here:\n(.*?)^#include <', text, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for part in (quoted, listed) if part for line in part[1].splitlines()]
    return (*lines, *passed_over)


def _said(argv: Sequence[str]) -> str:
    try:
        return process.run(argv, limit_s=_LIMIT_S, env={**os.environ, "LC_ALL": "C"}).output
    except GatesError:
        return ""
