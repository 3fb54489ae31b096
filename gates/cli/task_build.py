"""The text of ``gates build`` and of a task's build.py: what was built, and each kernel's resources in a line."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from gates.build.build import build
from gates.build.dumps import demangle_all, read_logs
from gates.build.result import BuildResult
from gates.build.toolchain import Toolchain, find_toolchain
from gates.cli.guard import guard
from gates.core.errors import EXIT_FAIL, EXIT_OK
from gates.core.kernel_names import without_parameters
from gates.core.text import plain_lines
from gates.gate.ptxas.evidence import PtxasKernel, gather
from gates.launch.device import probe
from gates.task.load import Task, load_task


def report(task: Task, build_root: Path, *, jobs: int | None = None) -> tuple[str, bool]:
    """Build what can be built of the task here; the report, and whether all of it was built."""
    toolchain, found = find_toolchain(), probe()
    device_arch = found.devices[0].arch if found.devices else None
    result = build(task, toolchain, build_root, device_arch=device_arch, jobs=jobs, progress=_say)
    return describe(task, result, toolchain), not result.failures


def describe(task: Task, result: BuildResult, toolchain: Toolchain) -> str:
    """Paths of the products, kernels' figures under each architecture, failures with their hints."""
    logs = read_logs(result)
    evidence = gather(logs, None, task.kernels, {}, demangled=demangle_all(logs.values(), toolchain), relocatable=result.relocatable)
    debug = ", DEBUG BUILD (nvcc -G)" if task.debug_build else ""
    lines = [f"{result.task} in {_short(result.folder)} ({result.wall_s:.1f} s){debug}"]
    for target in result.targets:
        if target.path:
            lines.append(f"  {_short(target.path)}")
    lines += [f"  {_kernel(kernel)}" for kernel in evidence.kernels]
    for failure in result.failures:
        lines.append(f"not built: {failure.sentence}")
        lines += [f"  {line}" for line in failure.errors[1:]]
        lines += [
            f"  {label}: {text}" for label, text in (("command", failure.command), ("log", failure.log), ("hint", failure.hint)) if text
        ]
    return "\n".join(lines)


def main(file: str) -> NoReturn:
    """Build the task whose build.py is ``file`` and exit: 0 all built, 1 something failed, 2 wrong input."""
    sys.exit(guard(lambda: _main(Path(file).resolve().parent)))


def _main(folder: Path) -> int:
    text, built = report(load_task(folder), Path("build"))
    print(plain_lines(text))
    return EXIT_OK if built else EXIT_FAIL


def _kernel(kernel: PtxasKernel) -> str:
    name = f"{without_parameters(kernel.demangled)} {kernel.arch}"
    return (
        f"{name}: {kernel.final.registers} registers, {kernel.final.static_smem_bytes} bytes static shared memory, "
        f"spills {kernel.spill_store_bytes}/{kernel.spill_load_bytes} bytes stored/loaded"
    )


def _say(line: str) -> None:
    print(plain_lines(line), file=sys.stderr)


def _short(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
