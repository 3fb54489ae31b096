"""Build what the CPU device needs: its runtime once for each machine, and a kernel's library by nvcc, linked against it.

The runtime's objects are kept in ``kernel-gates/cpu`` below ``XDG_CACHE_HOME`` (``~/.cache``), each by a digest of its source, the
headers, the flags and the compiler, so that an edit of one file compiles one file.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from gates.core.errors import GatesError

RUNTIME_DIR = Path(__file__).resolve().parent / "runtime"
COMPILING = "compiling the emulator's runtime, once for this machine and g++ (one to two minutes)"
LIBRARY_NAME, OBJECT_NAME = "libgates_cuda_cpu.so", "runtime.o"
# Numbers must not depend on the compiler's mood: no contraction, no reordering, wrapping integers, types read through other types.
_FLAGS = (
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-pthread",
    "-fwrapv",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-strict-aliasing",
    "-fvisibility=hidden",
    # Nor their speed on where a function happens to lie: an unlucky place of a loop costs a third of it.
    "-falign-functions=64",
    "-falign-loops=32",
)
_VECTOR_FLAGS = ("-mavx2", "-mfma", "-mf16c", "-mbmi2")
_NEEDED_OF_PROCESSOR = {"avx2", "fma", "f16c", "bmi2"}

# What a library of kernels must not reach: the device's records, which are evidence, and functions that find others by name. The
# runtime has a dlopen and a dlsym of its own; the linker reports the others.
_OUT_OF_REACH = (
    "dlsym", "dlvsym", "dlopen", "dlmopen", "dl_iterate_phdr", "gates_cpu_configure", "gates_cpu_findings", "gates_cpu_launches",
    "gates_cpu_reset", "gates_cpu_allocations", "gates_cpu_protect", "gates_cpu_forget", "gates_cpu_load", "gates_cpu_launch",
    "gates_cpu_unload", "gates_cpu_executed", "gates_cpu_executed_s", "gates_cpu_printed_lines", "gates_cpu_launches_left_out",
    "gates_cpu_begin_call", "gates_cpu_end_call",
)  # fmt: skip
# The library uses its own runtime, not one that the process already has. The linker reports names that no source defines, and takes
# __real_NAME of a wrapped name for NAME, if it is not wrapped itself.
_WRAPPED = (f"--wrap={prefix}{name}" for name in _OUT_OF_REACH for prefix in ("", "__real_"))
LINK_FLAGS = ("-shared", "-cudart=none", "-Xlinker", ",".join(("-Bsymbolic,-z,defs", *_WRAPPED)))
# Nor may it call the runtime's own C++ functions by their names. A libstdc++ that is linked in has to find what they share with it.
_LOCAL = (("--localize-hidden",), ("--wildcard", "--globalize-symbol=DW.ref.*"))  # of objcopy, one after the other


@lru_cache(maxsize=4)  # kernels' libraries and the device of one process share one, also if its sources are edited meanwhile
def runtime_library(cxx: str = "g++", jobs: int | None = None) -> Path:
    """The CPU device's runtime as a shared library, compiled if it is not in the cache. Raises GatesError if ``cxx`` can't compile it."""
    return _runtime(cxx, LIBRARY_NAME, ("-shared", "-pthread"), jobs)


def runtime_object(cxx: str = "g++", jobs: int | None = None, otherwise: Path | None = None) -> Path:
    """The same as one object file, which a library of kernels is linked with.

    ``otherwise``: the folder to keep it in where the user's cache can't be written.
    """
    return _runtime(cxx, OBJECT_NAME, ("-r", "-nostdlib"), jobs, otherwise)


def runtime_is_kept(cxx: str = "g++", name: str = OBJECT_NAME) -> bool:
    """Whether ``runtime_object`` has nothing to compile; with LIBRARY_NAME, whether ``runtime_library`` has nothing to."""
    return (_plan(cxx, _cache_folder())[1] / name).is_file()


def _plan(cxx: str, folder: Path, sources: Path = RUNTIME_DIR) -> tuple[dict[Path, Path], Path]:
    """The object of each of the ``sources``, and the folder of what is linked from all, in ``folder``."""
    flags = (*_FLAGS, *_vector_flags())
    headers = b"".join(path.read_bytes() for path in sorted(sources.glob("*.h")))
    common = hashlib.sha256("\0".join((*flags, _identity(cxx), "")).encode() + headers)
    objects, whole = {}, common.copy()
    whole.update(repr(_LOCAL).encode())
    for source in sorted(sources.glob("*.cpp")):
        digest = common.copy()
        digest.update(source.name.encode() + source.read_bytes())
        whole.update(digest.digest())
        objects[source] = folder / f"{source.stem}-{digest.hexdigest()[:20]}.o"
    return objects, folder / whole.hexdigest()[:20]


def _runtime(cxx: str, name: str, link: Sequence[str], jobs: int | None, otherwise: Path | None = None) -> Path:
    folder = _cache_folder()
    if (made := _plan(cxx, folder)[1] / name).is_file():
        return made
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "lock").touch()
    except OSError:  # no home folder, or one that can't be written
        if otherwise is None:
            raise
        folder = otherwise
        folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock, tempfile.TemporaryDirectory() as temporary:
        fcntl.flock(lock, fcntl.LOCK_EX)  # processes that need it at once wait for the one that compiles
        copies = Path(
            shutil.copytree(RUNTIME_DIR, Path(temporary, "runtime"))
        )  # what is digested is compiled, whatever is edited meanwhile
        objects, place = _plan(cxx, folder, copies)
        place.mkdir(exist_ok=True)
        missing = [(source, made) for source, made in objects.items() if not made.is_file()]
        with ThreadPoolExecutor(jobs or len(os.sched_getaffinity(0))) as pool:
            list(pool.map(lambda pair: _make([cxx, *_FLAGS, *_vector_flags(), "-c", str(pair[0]), "-o"], pair[1]), missing))
        if not (made := place / name).is_file():
            linked = Path(temporary, name) if name == OBJECT_NAME else made
            _make([cxx, *link, *map(str, objects.values()), "-o"], linked)
            if name == OBJECT_NAME:
                for options, result in zip(_LOCAL, (linked, made), strict=True):
                    _make([_tool(cxx, "objcopy"), *options, str(linked)], result)
    return made


def _tool(cxx: str, name: str) -> str:
    """The path of a program of the compiler's own linker and its kin."""
    done = subprocess.run([cxx, f"-print-prog-name={name}"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or name


def task_library(
    sources: Sequence[Path],
    output: Path,
    *,
    defines: Mapping[str, object] | None = None,
    nvcc: str = "nvcc",
    capability: str = "90a",
    flags: Sequence[str] = (),
) -> Path:
    """Compile ``sources`` to a library with the device's runtime, as a task's build makes it. Raises GatesError with nvcc's errors."""
    code = f"-gencode=arch=compute_{capability},code=compute_{capability}"
    words = [f"-D{name}={value}" for name, value in (defines or {}).items()]
    argv = [nvcc, "-std=c++17", "-O3", "-lineinfo", "-w", "--no-compress", "-Xcompiler", "-fPIC", code, *words, *flags, *LINK_FLAGS]
    _make([*argv, *map(str, sources), str(runtime_object()), "-o"], output)
    return output


def _make(argv: list[str], output: Path) -> None:
    """Run a tool that writes the file named last, ``output``; the file appears whole or not at all."""
    handle, temporary = tempfile.mkstemp(prefix="partial-", suffix=output.suffix, dir=output.parent)
    os.close(handle)
    try:
        done = subprocess.run([*argv, temporary], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode != 0:
            errors = [line for line in (done.stdout + done.stderr).splitlines() if re.search(r"\b(error|undefined|fatal)\b", line)]
            raise GatesError(f"{Path(argv[0]).name} failed (exit {done.returncode}):\n" + "\n".join(errors[:12] or [done.stderr[-2000:]]))
        os.replace(temporary, output)
    except OSError as error:
        raise GatesError(f"can't start {argv[0]}: {error.strerror}", hint="install it, or put it on PATH") from None
    finally:
        Path(temporary).unlink(missing_ok=True)


@lru_cache(maxsize=4)
def _identity(cxx: str) -> str:
    try:
        told = subprocess.run([cxx, "-v"], capture_output=True, text=True, check=True).stderr
        return "".join(line for line in told.splitlines(keepends=True) if not line.startswith("COLLECT_GCC="))  # however it was named
    except (OSError, subprocess.CalledProcessError):
        raise GatesError(f"can't run {cxx}", hint="install g++ 12 or newer") from None


def _vector_flags() -> tuple[str, ...]:
    """Vector instructions, where this processor has all that are asked for."""
    try:
        match = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return ()
    return _VECTOR_FLAGS if match and set(match[1].split()) >= _NEEDED_OF_PROCESSOR else ()


def _cache_folder() -> Path:
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (given if given.is_absolute() else Path(os.path.expanduser("~"), ".cache")) / "kernel-gates" / "cpu"
