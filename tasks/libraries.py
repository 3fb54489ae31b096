"""The compiled library of a shipped task, for those who call its kernel from PyTorch.

    load_operator(library_of("stage4"), "kernel_gates::sdpa_fp8")
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gates.build.build import build
from gates.build.toolchain import find_toolchain
from gates.core.errors import GatesError
from gates.launch.device import probe
from gates.task.load import find_task


def library_of(name: str, device_type: str = "cuda", build_dir: Path = Path("build"), **changes: Any) -> Path:
    """The library of task ``name``, built where it is not yet: for the first CUDA device, or with "cpu" through the emulator.

    ``changes``: ``toggles`` or ``entry`` instead of the task's own. Raises GatesError for an unknown task, without a device, and where it can't be built.
    """
    kind, arch = "emulator", None
    if device_type == "cuda":
        found = probe()
        if not found.devices:
            raise GatesError(found.reason, hint=f'library_of("{name}", "cpu") builds it for the CPU emulator, to try it out')
        kind, arch = "device", found.devices[0].arch
    built = build(replace(find_task(name), **changes), find_toolchain(), build_dir, device_arch=arch, want={kind})
    if failure := built.failure(kind):
        raise GatesError(f"{name}: {failure.sentence}", hint=failure.hint or f"`gates build {name}` shows the compiler's output")
    return built.path(kind)
