"""How g++ is called for the emulator, and what it says where it fails."""

from __future__ import annotations

import platform
from functools import lru_cache
from pathlib import Path

INCLUDE_DIR = Path(__file__).resolve().parent / "include"

# Contraction is off: nvcc fuses a*b+c, either is a legitimate rounding, and without it the plain and
# the sanitized build agree bit for bit, on every machine. Device code puns types through pointers, and
# nvcc doesn't exploit that, hence no strict aliasing. Two libraries in one process must not share the
# emulator's state, hence no unique symbols. Uninitialised local arrays hold a pattern (0xFE bytes:
# -1.7e38 as float), the same in every run.
_COMMON = [
    "-std=gnu++17",
    "-O2",
    "-g1",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-ftrivial-auto-var-init=pattern",
    "-fno-gnu-unique",
    "-fno-semantic-interposition",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-w",
    "-Wno-psabi",
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
# Of conversions to whole numbers only that of NaN counts (gates/gate/sanitizer/log.py), so the others must not end the process.
SANITIZE_FLAGS = [
    "-O1",
    "-fsanitize=address,undefined,float-cast-overflow",
    "-fno-sanitize-recover=undefined",
    "-fsanitize-recover=float-cast-overflow",
    "-fno-omit-frame-pointer",
]


def first_errors(text: str, count: int = 5) -> str:
    """The first ``count`` error lines of a compiler's output, or its last lines where none says error."""
    lines = text.splitlines()
    errors = [line for line in lines if "error:" in line or "undefined reference" in line]
    return "\n".join((errors or lines[-count:])[:count])
