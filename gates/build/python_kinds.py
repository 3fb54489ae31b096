"""Products of kinds that Python compiles itself: the source file is what runs; Triton's kernels are compiled for the static gates."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from gates.build.failure import Failure, missing_tool
from gates.build.result import BuildResult, Target
from gates.build.toolchain import Toolchain
from gates.build.triton import build as triton_build
from gates.core import jsonio
from gates.emulator.cpu.build import COMPILING, LIBRARY_NAME, runtime_is_kept, runtime_library
from gates.task.load import TRITON, Task
from gates.task.sources.identity import identity_of


def build(
    task: Task, toolchain: Toolchain, folder: Path, digest: str, archs: tuple[str, ...], want: Collection[str], say: Callable[[str], None]
) -> BuildResult:
    """The build of a task of kind triton or python."""
    missing = None
    if task.kind == TRITON and importlib.util.find_spec("triton") is None:
        missing = Failure("", "triton is not installed", hint="install it beside torch: pip install triton", missing_tool="triton")
    source = None if missing else str(task.sources[0])
    stage = task.digest()
    made, text, wall_s, wrong = [], "", 0.0, missing  # what is wrong with the source itself leaves nothing to run
    if "cubin" in want and task.kind == TRITON and missing:
        made = [Target("cubin", None, arch, failure=missing) for arch in archs]
    elif "cubin" in want and task.kind == TRITON:
        made, wrong, text, wall_s = triton_build.build(task, folder, archs, say)
    lacking: dict[str, Failure | None] = dict.fromkeys(("device", "emulator"), wrong)
    if task.kind == TRITON and "emulator" in want and not wrong:
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
    """The emulator's runtime, which executes the PTX of Triton's kernels, as ``runtime.so`` of the build folder."""
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
