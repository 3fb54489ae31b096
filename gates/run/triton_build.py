"""Compile a Triton task's kernels for each architecture without a device, and report them as ptxas does.

The task's function runs once a shape on CPU tensors with Triton's driver replaced by one that only names the
target, so that each launch compiles its kernel and launches nothing. The ptxas command that Triton ran is then run
again, for its log: that of the compiler, and the options, that make the running code. A kernel that is compiled in several
variants (other shapes, other constants) is ``kernel<0>``, ``kernel<1>``, … in the log.
"""

from __future__ import annotations

import collections
import os
import re
import shlex
import subprocess
import time
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gates import jsonio
from gates.run import process
from gates.run.attempt import ResultWriter, attempt
from gates.run.build_failure import Failure, first_errors, refuse_machine_fault
from gates.run.built import BuildResult, Target
from gates.run.kernel import file_sha256
from gates.task import Task

_LIMIT_S = 120.0
_LAUNCHES = "launches.json"
_OPT_IN_BYTES = 48 * 1024  # beyond it a launch asks for its shared memory; Triton's launcher always does


def build(task: Task, folder: Path, archs: Sequence[str], say: Callable[[str], None]) -> tuple[list[Target], str, float]:
    """A cubin target of each architecture and kernel, the texts of all compilers, and the seconds it took."""
    say(f"{task.name}: Triton compiles for {', '.join(archs)}")
    started, home = time.monotonic(), folder / "triton"
    home.mkdir(parents=True, exist_ok=True)
    job = {
        "kind": "triton_build", "side": task.side(task.sources[0], emulated=False), "archs": list(archs), "shapes": list(task.shapes), "home": str(home),
    }
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    tried = attempt(task.folder, job, home, limit_s=task.time_limit_s, name="triton", env={**environment, "TRITON_CACHE_DIR": str(home / "cache"), "TRITON_ALWAYS_COMPILE": "1"})
    if (refusal := tried.refusal()) is not None:
        raise refusal
    lines = tried.own()
    kernels = [line for line in lines if line.get("type") == "kernel"]
    reason = next((line["message"] for line in lines if line.get("type") == "not_compiled"), None)
    if reason is not None:
        failure: Failure | None = Failure("", reason, hint="see docs/your-kernel.md on what Triton can compile without a device", missing_tool="triton target")
    elif not lines or lines[-1].get("type") != "done" or not kernels:
        refuse_machine_fault(tried.output_tail, tried.cause, folder, "Triton")
        failure = Failure("triton", tried.cause if kernels else "no kernel was launched", first_errors(tried.output_tail), str(home / "triton.log"))
    else:
        failure = None
    if failure is not None:
        return [Target("cubin", None, arch, failure=failure) for arch in archs], tried.output_tail, time.monotonic() - started
    jsonio.write(home / _LAUNCHES, [kernel["launch"] for kernel in kernels])
    made = [_assemble(kernel, folder) for kernel in kernels]
    return [target for target, _ in made], tried.output_tail + "".join(text for _, text in made), round(time.monotonic() - started, 3)


def launches(result: BuildResult) -> list[dict[str, Any]] | None:
    """How the kernels are launched: threads and shared memory, as Triton decided them; None where nothing was compiled."""
    path = Path(result.folder) / "triton" / _LAUNCHES
    return jsonio.read(path) if path.is_file() else None


def _assemble(kernel: Mapping[str, Any], folder: Path) -> tuple[Target, str]:
    """ptxas on one kernel's PTX: its cubin with the log beside it."""
    arch, stem = kernel["arch"], f"{kernel['name']}.{kernel['variant']}"
    target = folder / arch / f"{stem}.cubin"
    log = target.with_suffix(".ptxas.log")
    target.parent.mkdir(exist_ok=True)
    command = [*kernel["command"], kernel["ptx"], "-o", str(target)]
    finished = process.run(command, limit_s=_LIMIT_S)
    # Triton compiles for sm_90a where the task says sm_90; the report goes by the task's name.
    text = finished.output.replace(f"for '{kernel['gpu']}'", f"for '{arch}'")
    log.write_text(text, encoding="utf-8")
    shown = f"$ {shlex.join(command)}\n{text}"
    if finished.returncode != 0:
        refuse_machine_fault(text, finished.cause, folder, "ptxas")
        return Target("cubin", None, arch, failure=Failure(shlex.join(command), finished.cause, first_errors(text), str(log))), shown
    return Target("cubin", str(target), arch, str(log), sha256=file_sha256(target)), shown


def execute(job: Mapping[str, Any], folder: Path) -> None:
    """Runner job "triton_build": a ``kernel`` line a compiled kernel and architecture, or one ``not_compiled`` line."""
    with ResultWriter(job) as writer:
        from triton.backends.nvidia import compiler
        from triton.runtime import driver
        from triton.runtime.jit import JITFunction

        target = _Target()
        recorder = _Recorder(JITFunction.run, target)
        JITFunction.run = lambda function, *arguments, **options: recorder.compile(function, *arguments, **options)
        compiler.subprocess = types.SimpleNamespace(**{**vars(subprocess), "run": recorder.watch})
        driver.set_active(target)
        from gates import problem as problems
        from gates.run.callable import NeedsDevice, load, refuse_autotuning
        from gates.run.kernel import KernelError

        refuse_autotuning()
        kernel, problem = load(job["side"]), problems.load(job["side"]["problem"], Path(job["side"]["folder"]))
        try:
            for arch in job["archs"]:
                target.arch = arch
                for shape in job["shapes"]:
                    kernel(*_arguments(problem, job["side"], problem.SHAPES[shape]))
        except (KernelError, NeedsDevice) as error:
            writer.write("not_compiled", message=f"without a device the entry can't be run as far as its launches: {error}")
        else:
            for line in recorder.lines(Path(job["home"])):
                writer.write("kernel", **line)
        writer.write("done")


def _arguments(problem: Any, side: Mapping[str, Any], shape: Mapping[str, int]) -> tuple[Any, ...]:
    from gates import problem as problems

    return problems.call_arguments(problem, problem.make_inputs(shape, 0, "cpu"), problems.outputs_of(problem, shape), shape, side.get("arguments") or ())


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

    def __init__(self, run: Callable[..., Any], target: _Target) -> None:
        self._run, self._target = run, target
        self._found: dict[tuple[str, str], tuple[Any, list[str]]] = {}  # by architecture and Triton's own digest
        self._command: list[str] = []

    def compile(self, function: Any, *arguments: Any, grid: Any, warmup: bool = False, **options: Any) -> Any:
        compiled = self._run(function, *arguments, grid=grid, warmup=True, **options)
        self._found.setdefault((self._target.arch, compiled.hash), (compiled, self._command))
        return compiled

    def watch(self, command: Any, *arguments: Any, **options: Any) -> Any:
        """subprocess.run, which keeps the ptxas command up to its input file."""
        if isinstance(command, list) and "-o" in command and "ptxas" in Path(command[0]).name:
            self._command = command[: command.index("-o") - 1]
        return subprocess.run(command, *arguments, **options)

    def lines(self, home: Path) -> list[dict[str, Any]]:
        """What the engine needs of each kernel; its PTX is written below ``home``."""
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
            path = home / f"{name}.{variant}.{arch}.ptx"
            path.write_text(text, encoding="utf-8")
            shared = int(meta.shared)
            result.append({
                "name": name, "arch": arch, "variant": variant, "ptx": str(path), "command": command,
                "gpu": re.search(r"^\s*\.target\s+(\w+)", text, re.MULTILINE)[1],
                "launch": {
                    "kernel": name, "grid": [1, 1, 1], "block": [32 * int(meta.num_warps), 1, 1], "dynamic_smem_bytes": shared,
                    "static_smem_bytes": 0, "opt_in_smem_bytes": shared if shared > _OPT_IN_BYTES else 0, "error": "",
                },
            })
        return result

