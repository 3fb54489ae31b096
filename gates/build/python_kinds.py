"""Products of kinds that Python compiles itself: the source file is what runs; kernels of a language are compiled for the static gates."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from gates.build.failure import Failure, missing_tool
from gates.build.jit import build as jit_build
from gates.build.result import BuildResult, Target
from gates.build.toolchain import Toolchain
from gates.core import jsonio
from gates.emulator.cpu.build import COMPILING, LIBRARY_NAME, runtime_is_kept, runtime_library
from gates.task.load import JIT, NUMBA, TRITON, WARP, Task
from gates.task.sources.identity import identity_of

PACKAGES = {  # of a language: what is imported, the package's name, and what installs it
    TRITON: ("triton", "triton", "triton"),
    NUMBA: ("numba_cuda", "numba-cuda", "kernel-gates[numba]"),
    WARP: ("warp", "warp-lang", "kernel-gates[warp]"),
}


def build(
    task: Task, toolchain: Toolchain, folder: Path, digest: str, archs: tuple[str, ...], want: Collection[str], say: Callable[[str], None]
) -> BuildResult:
    """The build of a task in a language of ``JIT``, or of kind python."""
    missing, (module, package, installed) = None, PACKAGES.get(task.kind, ("", "", ""))
    if module and importlib.util.find_spec(module) is None:
        missing = Failure("", f"{package} is not installed", hint=f"pip install '{installed}'", missing_tool=module)
    source = None if missing else str(task.sources[0])
    stage = task.digest()
    made, text, wall_s, wrong = [], "", 0.0, missing  # what is wrong with the source itself leaves nothing to run
    if "cubin" in want and task.kind in JIT and missing:
        made = [Target("cubin", None, arch, failure=missing) for arch in archs]
    elif "cubin" in want and task.kind in JIT:
        made, wrong, text, wall_s = jit_build.build(task, folder, archs, say)
    lacking: dict[str, Failure | None] = dict.fromkeys(("device", "emulator"), wrong)
    if task.kind in JIT and "emulator" in want and not wrong:
        runtime = _runtime(toolchain, folder, say)
        made, lacking["emulator"] = [*made, runtime], runtime.failure
    targets = [
        Target(kind, None if failure else source, failure=failure, sha256="" if failure or not source else jsonio.sha256(source))
        for kind, failure in lacking.items()
        if kind in want
    ]
    targets += made
    return BuildResult(
        task.name,
        digest,
        str(folder),
        archs,
        archs,
        False,
        dict(task.toggles),
        tuple(targets),
        wall_s,
        stage,
        identity_of(stage, digest),
        log_text=text,
    )


def _runtime(toolchain: Toolchain, folder: Path, say: Callable[[str], None]) -> Target:
    """The emulator's runtime, which executes the PTX of the kernels, as ``runtime.so`` of the build folder."""
    if failure := missing_tool("g++", toolchain):
        return Target("runtime", None, failure=failure)
    cxx, place = toolchain.need("g++").path, folder / "runtime.so"
    if not runtime_is_kept(cxx, LIBRARY_NAME):
        say(COMPILING)
    made = runtime_library(cxx)
    folder.mkdir(parents=True, exist_ok=True)
    if not place.is_file() or jsonio.sha256(place) != jsonio.sha256(made):
        place.unlink(missing_ok=True)  # another process may have it loaded
        shutil.copyfile(made, place)
    return Target("runtime", str(place), sha256=jsonio.sha256(place))
