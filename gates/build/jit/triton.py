"""Compile Triton kernels instead of launching them: Triton's driver is replaced by one that only names the target."""

from __future__ import annotations

import subprocess
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gates.build.jit import triton_error
from gates.build.jit.variants import numbered
from gates.core.errors import DoesNotWork
from gates.emulator import triton_alone
from gates.emulator.control import oldest
from gates.hardware.chips import number_of


class Recorder:
    """Compiles for ``arch`` instead of launching, and keeps what was compiled. Raises NotHere if Triton does not work.

    ``wrong``: what Triton refused last, and where.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from triton.backends.nvidia import compiler
            from triton.runtime import driver
            from triton.runtime.jit import JITFunction
        except Exception as error:
            raise DoesNotWork("triton", error) from error
        self.arch = ""
        self.wrong: dict[str, Any] | None = None
        self._run, self._folder = JITFunction.run, folder
        self._found: dict[tuple[str, str], tuple[Any, list[str]]] = {}  # by architecture and Triton's own digest
        self._command: list[str] = []
        JITFunction.run = lambda function, *arguments, **options: self._compile(function, *arguments, **options)
        compiler.subprocess = types.SimpleNamespace(**{**vars(subprocess), "run": self._watch})
        driver.set_active(_Target(self))
        triton_alone.compile_each()

    def lines(self) -> list[dict[str, Any]]:
        """What the engine needs of each kernel."""
        kernels = [(kernel.metadata.name, arch, kernel.asm["ptx"]) for (arch, _), (kernel, _) in self._found.items()]
        return [
            {
                **line,
                "tool": Path(command[0]).name if command else "",
                "options": [one for one in command[1:] if not one.startswith("--gpu-name=")],
                "launches": [[32 * int(kernel.metadata.num_warps), 1, 1, int(kernel.metadata.shared)]],
            }
            for line, (kernel, command) in zip(numbered(kernels), self._found.values(), strict=True)
        ]

    def _compile(self, function: Any, *arguments: Any, grid: Any, warmup: bool = False, **options: Any) -> Any:
        self.wrong = None
        try:
            compiled = self._run(function, *arguments, grid=grid, warmup=True, **options)
        except Exception as error:
            if (found := triton_error.refused(error, function, self._folder)) is not None:
                self.wrong = {**found, "arch": self.arch}
            raise
        self._found.setdefault((self.arch, compiled.hash), (compiled, self._command))
        return compiled

    def _watch(self, command: Any, *arguments: Any, **options: Any) -> Any:
        """subprocess.run, which keeps the ptxas command up to its input file."""
        if isinstance(command, list) and "-o" in command and "ptxas" in Path(command[0]).name:
            self._command = command[: command.index("-o") - 1]
        return subprocess.run(command, *arguments, **options)


class _Target:
    """Stands for a device of the recorder's architecture in Triton's runtime."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self.utils = recorder, self

    def get_device_properties(self, device: Any = None) -> dict[str, int]:
        return triton_alone.properties(oldest([self._recorder.arch]))

    def load_binary(self, *_: Any) -> tuple[Any, ...]:
        return None, None, *triton_alone.GUESSED

    def launcher_cls(self, *_: Any) -> Callable[..., None]:
        return lambda *_: None

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.get_current_device(), 32)

    def get_current_device(self) -> int:
        # Triton keeps its compiled kernels by device: another number for each architecture, or it would not compile again.
        return number_of(self._recorder.arch)

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cuda", 0)
