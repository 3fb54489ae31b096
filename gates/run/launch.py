"""One checked launch of a kernel: guarded buffers in, poisoned outputs, and what was found afterwards.

On a CUDA device the launch runs on a stream of its own that does not synchronise with the default
stream. A delay and the copies of the inputs and of the poison stand before it on that stream, so a
kernel on any other stream reads garbage and has its output overwritten by poison. On the emulator
the thread order of the call is chosen and the emulator's launches and findings are collected.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from gates import problem as problems
from gates.run import buffers
from gates.run.accuracy import ProblemError
from gates.run.emulator import Emulator
from gates.run.kernel import Kernel, KernelError

_DELAY_CYCLES = 20_000_000  # about 10 ms: longer than enqueuing all that follows


class DeviceLost(Exception):
    """The CUDA context is broken: nothing more can run in this process."""


@dataclass
class Launched:
    """What one call left: CPU copies of the outputs, and every trace of misbehaviour."""

    outputs: dict[str, Any]
    poisons: dict[str, Any]
    error: str = ""
    guards: list[str] = field(default_factory=list)
    mutated: list[str] = field(default_factory=list)
    launches: list[dict[str, Any]] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)


class Side:
    """A task's library with its problem, ready to be called on ``device`` ("cpu" for the emulator)."""

    def __init__(self, side: Mapping[str, Any], device: str) -> None:
        self.emulated = bool(side["emulated"])
        self.device = "cpu" if self.emulated else device
        self.problem = problems.load(side["problem"], Path(side["folder"]))
        self.kernel = Kernel(Path(side["library"]), side["entry"])
        self.emulator = Emulator(self.kernel.library) if self.emulated else None

    def call(
        self, inputs: Mapping[str, Any], shape: Mapping[str, int], *, variant: int, order: str, seed: int, memory: str | None = None
    ) -> Launched:
        """Launch once on copies of the CPU ``inputs``; ``variant`` picks the poison, ``seed`` all random bytes.

        ``memory`` names the order whose pattern the emulator's unwritten memory shall hold, where it is not ``order``.

        Raises ProblemError for inputs that a C launcher can't take, DeviceLost after a CUDA error.
        """
        wanted = {name: value for name, value in inputs.items() if name in self.problem.ARGUMENTS}
        tensors = {name: value for name, value in wanted.items() if isinstance(value, torch.Tensor)}
        for name, value in tensors.items():
            if not value.is_contiguous():
                raise ProblemError(f"input {name!r} is not contiguous; a launcher receives no strides")
        outputs = self.problem.make_outputs(shape, "cpu")
        poisons = {name: buffers.poison(value, seed + i, variant) for i, (name, value) in enumerate(outputs.items())}
        content = {**tensors, **poisons}
        rooms = {
            name: buffers.guarded(value, self.device, 1000 * seed + 10 * i + variant)
            for i, (name, value) in enumerate(content.items())
        }
        numbers = {name: value for name, value in wanted.items() if name not in tensors}
        arguments = problems.call_arguments(
            self.problem, {**numbers, **{name: rooms[name].tensor for name in tensors}},
            {name: rooms[name].tensor for name in poisons}, shape,
        )
        result = Launched({}, poisons)
        if self.emulator is not None:
            self.emulator.prepare(order, seed, memory)
            self._launch_here(arguments, rooms, content, result)
            result.launches, result.findings = self.emulator.collect()
        else:
            self._launch_on_device(arguments, rooms, content, result)
        for name, room in rooms.items():
            if violation := room.violation():
                result.guards.append(f"{name}: {violation}")
        for name, value in tensors.items():
            changed = buffers.differing(rooms[name].tensor, value)
            if changed.numel():
                result.mutated.append(f"{name}: {changed.numel()} elements, first at {int(changed[0])}")
        result.outputs = {name: rooms[name].tensor.cpu().clone() for name in poisons}
        return result

    def _launch_here(self, arguments: Any, rooms: Any, content: Any, result: Launched) -> None:
        for name, room in rooms.items():
            room.tensor.copy_(content[name])
        try:
            self.kernel(*arguments)
        except KernelError as error:
            result.error = str(error)

    def _launch_on_device(self, arguments: Any, rooms: Any, content: Any, result: Launched) -> None:
        try:
            with torch.cuda.device(self.device):
                stream = torch.cuda.Stream(self.device)
                staged = {name: value.to(self.device) for name, value in content.items()}
                torch.cuda.synchronize(self.device)
                with torch.cuda.stream(stream):
                    with contextlib.suppress(AttributeError):  # private to torch, only makes the test sharper
                        torch.cuda._sleep(_DELAY_CYCLES)
                    for name, room in rooms.items():
                        room.tensor.copy_(staged[name], non_blocking=True)
                    try:
                        self.kernel(*arguments, stream=stream.cuda_stream)
                    except KernelError as error:
                        result.error = str(error)
                torch.cuda.synchronize(self.device)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise DeviceLost(str(error).splitlines()[0]) from None
