"""Compile unmodified CUDA source with g++ and run it on the CPU: see docs/internals/emulator.md.

``translate`` preprocesses and rewrites one ``.cu``; ``include/`` holds the CUDA headers that g++ then sees, ``runtime/`` what runs
the kernels, compiled once for all of them (``runtime_object``). ``compile_library`` does all of it and links the shared library.
"""

from __future__ import annotations

import platform
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from gates.errors import GatesError

INCLUDE_DIR = Path(__file__).resolve().parent / "include"

# Contraction is off: nvcc fuses a*b+c, either is a legitimate rounding, and without it the plain and
# the sanitized build agree bit for bit, on every machine. Device code puns types through pointers, and
# nvcc doesn't exploit that, hence no strict aliasing. Two libraries in one process must not share the
# emulator's state, hence no unique symbols. Uninitialised local arrays hold a pattern (0xFE bytes:
# -1.7e38 as float), the same in every run.
_COMMON = [
    "-std=gnu++17", "-O2", "-g1", "-fPIC", "-shared", "-ffp-contract=off", "-fno-strict-aliasing",
    "-ftrivial-auto-var-init=pattern", "-fno-gnu-unique", "-fno-semantic-interposition", "-fno-math-errno", "-fno-trapping-math", "-w", "-Wno-psabi",
]


@lru_cache(maxsize=1)
def _machine_flags() -> tuple[str, ...]:
    """AVX2, FMA and F16C where this CPU has them: half conversions are then single instructions."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return ()
    try:
        words = set(Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return ()
    return ("-march=x86-64-v3",) if {"avx2", "fma", "f16c", "bmi2", "movbe"} <= words else ()


CXX_FLAGS = [*_COMMON, *_machine_flags()]
# Of conversions to whole numbers only that of NaN counts (gates/parse/sanitizer_log.py), so the others must not end the process.
SANITIZE_FLAGS = [
    "-O1", "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=undefined", "-fsanitize-recover=float-cast-overflow",
    "-fno-omit-frame-pointer",
]


def compile_library(
    sources: Sequence[Path | str],
    output: Path,
    *,
    defines: Mapping[str, object] | None = None,
    include_dirs: Sequence[Path | str] = (),
    sanitize: bool = False,
    cxx: str = "g++",
    work_dir: Path,
) -> Path:
    """Translate ``sources`` and link them into the shared library ``output``.

    ``defines`` become ``-DNAME=VALUE``. Intermediate files and ``compile.log`` go to ``work_dir``.
    Raises GatesError with the compiler's first error lines and the path of the log.
    """
    from gates.emulator.runtime_object import write_runtime_object
    from gates.emulator.translate import translate

    work_dir.mkdir(parents=True, exist_ok=True)
    translated = []
    for source in sources:
        out = work_dir / (Path(source).stem + ".emulator.cpp")
        translate(Path(source), out, defines=defines or {}, include_dirs=include_dirs, cxx=cxx)
        translated.append(out)
    flags, runtime = [*CXX_FLAGS, *(SANITIZE_FLAGS if sanitize else [])], work_dir / "emulator.runtime.o"
    printed = write_runtime_object(runtime, flags, cxx=cxx)
    argv = [cxx, *flags, "-fpreprocessed", "-o", str(output), *map(str, translated), str(runtime)]
    finished = subprocess.run(argv, capture_output=True, text=True, check=False, errors="replace")
    log = work_dir / "compile.log"
    log.write_text(f"{printed}{shlex.join(argv)}\n{finished.stdout}{finished.stderr}", encoding="utf-8")
    if finished.returncode != 0:
        raise GatesError(
            f"{cxx} failed for the emulator on {', '.join(map(str, sources))}:\n{first_errors(finished.stderr)}",
            hint=f"the whole output is in {log}",
        )
    return output


def first_errors(text: str, count: int = 5) -> str:
    """The first ``count`` error lines of a compiler's output, or its last lines where none says error."""
    lines = text.splitlines()
    errors = [line for line in lines if "error:" in line or "undefined reference" in line]
    return "\n".join((errors or lines[-count:])[:count])
