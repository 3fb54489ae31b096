"""Compile a Triton task's kernels in a process that does not keep the record; its answer is data (``gates.build.triton.record``).

Triton's driver is replaced by one that only names the target, so that each launch compiles its kernel and launches nothing.
"""

from __future__ import annotations

import collections
import re
import subprocess
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gates.build.triton import error as triton_error
from gates.core.errors import GatesError, NotHere
from gates.emulator import triton_alone
from gates.launch.c_launcher import KernelError
from gates.launch.entry_point import load
from gates.task import problem as problems
from gates.worker import isolated, wire


def serve() -> None:
    """Run in the process: confine it, compile the requested kernels, and answer once."""
    asks, answers = isolated.settle()
    first = wire.receive(asks)
    isolated.confine(Path(first["scratch"]), memory_bytes=None, on_device=True)
    try:
        wire.send(answers, _compiled(first["side"], first["archs"], first["shapes"]))
    except GatesError as error:
        wire.send(answers, {"refused": error.what, "hint": error.hint})


def _compiled(side: Mapping[str, Any], archs: Sequence[str], shapes: Sequence[str]) -> dict[str, Any]:
    """Return {"kernels": as ``triton_record`` reads them}, {"wrong": why Triton refuses one}, or {"not_compiled": why}."""
    try:
        from triton.backends.nvidia import compiler
        from triton.runtime import driver
        from triton.runtime.jit import JITFunction
    except Exception as error:  # an installation that is broken, by whatever it raises
        return {"not_compiled": f"triton does not work in this environment: {type(error).__name__}: {error}"}

    target = _Target()
    recorder = _Recorder(JITFunction.run, target, Path(side["folder"]).resolve())
    JITFunction.run = lambda function, *arguments, **options: recorder.compile(function, *arguments, **options)
    compiler.subprocess = types.SimpleNamespace(**{**vars(subprocess), "run": recorder.watch})
    driver.set_active(target)
    triton_alone.compile_each()
    from gates.emulator.cpu_as_device import pretended

    problem = problems.load(side["problem"], Path(side["folder"]))
    try:
        with pretended():
            kernel = load(side)
            for arch in archs:
                target.arch = arch
                for shape in shapes:
                    kernel(*_arguments(problem, side, problem.SHAPES[shape]))
    except (KernelError, NotHere) as error:
        if recorder.wrong is not None:
            return {"wrong": recorder.wrong}
        return {"not_compiled": f"without a device the entry can't be run as far as its launches: {error}"}
    return {"kernels": recorder.lines()}


def _arguments(problem: Any, side: Mapping[str, Any], shape: Mapping[str, int]) -> tuple[Any, ...]:
    return problems.call_arguments(
        problem, problem.make_inputs(shape, 0, "cpu"), problems.outputs_of(problem, shape), shape, side.get("arguments") or ()
    )


class _Target:
    """Stands for a device of ``arch`` in Triton's runtime."""

    arch = ""

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", int(re.sub(r"\D", "", self.arch)), 32)

    def get_current_device(self) -> int:
        # Triton keeps its compiled kernels by device: another number for each architecture, or it would not compile again.
        return int(re.sub(r"\D", "", self.arch))

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cuda", 0)


class _Recorder:
    """Compiles instead of launching, and keeps what was compiled."""

    def __init__(self, run: Callable[..., Any], target: _Target, folder: Path) -> None:
        self._run, self._target, self._folder = run, target, folder
        self.wrong: dict[str, Any] | None = None  # what Triton refused last, and where
        self._found: dict[tuple[str, str], tuple[Any, list[str]]] = {}  # by architecture and Triton's own digest
        self._command: list[str] = []

    def compile(self, function: Any, *arguments: Any, grid: Any, warmup: bool = False, **options: Any) -> Any:
        self.wrong = None
        try:
            compiled = self._run(function, *arguments, grid=grid, warmup=True, **options)
        except Exception as error:
            if (found := triton_error.refused(error, function, self._folder)) is not None:
                self.wrong = {**found, "arch": self._target.arch}
            raise
        self._found.setdefault((self._target.arch, compiled.hash), (compiled, self._command))
        return compiled

    def watch(self, command: Any, *arguments: Any, **options: Any) -> Any:
        """subprocess.run, which keeps the ptxas command up to its input file."""
        if isinstance(command, list) and "-o" in command and "ptxas" in Path(command[0]).name:
            self._command = command[: command.index("-o") - 1]
        return subprocess.run(command, *arguments, **options)

    def lines(self) -> list[dict[str, Any]]:
        """What the engine needs of each kernel."""
        counts = collections.Counter((kernel.metadata.name, arch) for (arch, _), (kernel, _) in self._found.items())
        seen: collections.Counter[tuple[str, str]] = collections.Counter()
        result = []
        for (arch, _), (kernel, command) in self._found.items():
            meta, name = kernel.metadata, kernel.metadata.name
            variant = seen[name, arch]
            seen[name, arch] += 1
            text = kernel.asm["ptx"]
            if counts[name, arch] > 1:  # as a template's instance, so that each has a block of its own in the log
                text = re.sub(rf"\b{re.escape(name)}\b", f"_Z{len(name)}{name}ILi{variant}EEvv", text)
            result.append(
                {
                    "name": name,
                    "arch": arch,
                    "variant": variant,
                    "tool": Path(command[0]).name if command else "",
                    "options": [one for one in command[1:] if not one.startswith("--gpu-name=")],
                    "num_warps": int(meta.num_warps),
                    "shared_bytes": int(meta.shared),
                    "ptx": text,
                }
            )
        return result
