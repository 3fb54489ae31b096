"""From CUDA sources to one shared library: ``translate`` rewrites each ``.cu``, ``runtime_object`` compiles what runs the kernels, g++ links."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from gates.core.errors import GatesError
from gates.emulator.flags import CXX_FLAGS, SANITIZE_FLAGS, first_errors
from gates.emulator.runtime_object import write_runtime_object
from gates.emulator.translate import translate


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
