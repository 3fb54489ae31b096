"""Build what the CPU device needs: its runtime once for each machine, and a kernel's library by nvcc, linked against it.

The runtime's objects are kept in ``kernel-gates/cpu`` below ``XDG_CACHE_HOME`` (``~/.cache``), each by a digest of its source, the
headers, the flags and the compiler, so that an edit of one file compiles one file.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from gates.core.errors import GatesError

RUNTIME_DIR = Path(__file__).resolve().parent / "runtime"
LIBRARY_NAME = "libgates_cuda_cpu.so"
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
)
_VECTOR_FLAGS = ("-mavx2", "-mfma", "-mf16c", "-mbmi2")
_NEEDED_OF_PROCESSOR = {"avx2", "fma", "f16c", "bmi2"}


@lru_cache(maxsize=4)  # kernels' libraries and the device of one process share one, also if its sources are edited meanwhile
def runtime_library(cxx: str = "g++", jobs: int | None = None) -> Path:
    """The CPU device's runtime, compiled if it is not in the cache. Raises GatesError if ``cxx`` can't compile it."""
    flags = (*_FLAGS, *_vector_flags())
    headers = b"".join(path.read_bytes() for path in sorted(RUNTIME_DIR.glob("*.h")))
    common = hashlib.sha256("\0".join((*flags, _identity(cxx), "")).encode() + headers)
    folder = _cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    objects, missing = [], []
    whole = common.copy()
    for source in sorted(RUNTIME_DIR.glob("*.cpp")):
        digest = common.copy()
        digest.update(source.name.encode() + source.read_bytes())
        whole.update(digest.digest())
        objects.append(folder / f"{source.stem}-{digest.hexdigest()[:20]}.o")
        if not objects[-1].is_file():
            missing.append((source, objects[-1]))
    library = folder / whole.hexdigest()[:20] / LIBRARY_NAME
    if library.is_file():
        return library
    with (folder / "lock").open("w") as lock:  # processes that need it at once wait for the one that compiles
        fcntl.flock(lock, fcntl.LOCK_EX)
        with ThreadPoolExecutor(jobs or len(os.sched_getaffinity(0))) as pool:
            list(
                pool.map(
                    lambda pair: _make([cxx, *flags, "-c", str(pair[0])], pair[1]), [pair for pair in missing if not pair[1].is_file()]
                )
            )
        library.parent.mkdir(exist_ok=True)
        if not library.is_file():
            _make([cxx, "-shared", "-pthread", *map(str, objects)], library)
    return library


def kernel_library(
    sources: Sequence[Path],
    output: Path,
    *,
    nvcc: str = "nvcc",
    capability: str = "90",
    flags: Sequence[str] = (),
    runtime: Path | None = None,
) -> Path:
    """Compile ``sources`` with nvcc, host and device half, to a library whose CUDA runtime is the CPU device's.

    ``capability`` is the architecture's number, such as 90 or 90a. Raises GatesError with nvcc's first errors, or with the names
    of the CUDA functions that the CPU device does not have.
    """
    runtime = runtime or runtime_library()
    argv = [
        nvcc,
        "-shared",
        "-cudart=none",
        "-Xcompiler",
        "-fPIC",
        "-lineinfo",
        "--no-compress",
        "-gencode",
        f"arch=compute_{capability},code=compute_{capability}",
        *flags,
        *map(str, sources),
        str(runtime),
        "-Xlinker",
        f"-rpath={runtime.parent}",
    ]
    _make(argv, output)
    if lacking := sorted(_undefined(output) - _defined(runtime)):
        output.unlink()
        raise GatesError(f"not supported by the CPU device: {', '.join(lacking)}", hint="judge this kernel on a CUDA device")
    return output


def _make(argv: list[str], output: Path) -> None:
    """Run a compiler that writes ``output``; the file appears whole or not at all."""
    handle, temporary = tempfile.mkstemp(prefix="partial-", suffix=output.suffix, dir=output.parent)
    os.close(handle)
    try:
        done = subprocess.run(
            [*argv, "-o", temporary], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode != 0:
            errors = [line for line in (done.stdout + done.stderr).splitlines() if re.search(r"\b(error|undefined|fatal)\b", line)]
            raise GatesError(f"{Path(argv[0]).name} failed (exit {done.returncode}):\n" + "\n".join(errors[:12] or [done.stderr[-2000:]]))
        os.replace(temporary, output)
    except OSError as error:
        raise GatesError(f"can't start {argv[0]}: {error.strerror}", hint="install it, or put it on PATH") from None
    finally:
        Path(temporary).unlink(missing_ok=True)


def _symbols(library: Path, *options: str) -> set[str]:
    done = subprocess.run(["nm", "-D", *options, str(library)], capture_output=True, text=True, check=False)
    return {line.split()[-1].split("@")[0] for line in done.stdout.splitlines() if line.strip()}


def _undefined(library: Path) -> set[str]:
    return {name for name in _symbols(library, "--undefined-only") if re.match(r"(__)?cuda[A-Z]|cu[A-Z]", name)}


@lru_cache(maxsize=4)
def _defined(library: Path) -> frozenset[str]:
    return frozenset(_symbols(library, "--defined-only"))


@lru_cache(maxsize=4)
def _identity(cxx: str) -> str:
    try:
        return subprocess.run([cxx, "-v"], capture_output=True, text=True, check=True).stderr
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
