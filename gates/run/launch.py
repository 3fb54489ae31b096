"""One checked launch of a kernel: guarded buffers in, poisoned outputs, and what was found afterwards.

A function that returns its outputs makes them itself: there are no guards around those, but whatever memory
torch hands out while it runs is filled with NaN first, so that an element which it leaves out shows.

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
from torch.utils._python_dispatch import TorchDispatchMode

from gates import problem as problems
from gates.run import buffers
from gates.run.accuracy import OutputError, ProblemError
from gates.run.callable import is_c, load
from gates.run.emulator import Emulator
from gates.run.kernel import Kernel, KernelError
from gates.task import PYTHON

_TENSORS = (torch.Tensor, torch.nn.Parameter)
_DELAY_CYCLES = 20_000_000  # about 10 ms: longer than enqueuing all that follows


class DeviceLost(Exception):
    """The CUDA context is broken: nothing more can run in this process."""


@dataclass
class Launched:
    """What one call left: CPU copies of the outputs, and every trace of misbehaviour. ``poisons``: of the outputs that were given."""

    outputs: dict[str, Any]
    poisons: dict[str, Any]
    error: str = ""
    guards: list[str] = field(default_factory=list)
    mutated: list[str] = field(default_factory=list)
    launches: list[dict[str, Any]] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)


class Side:
    """A task's library with its problem, ready to be called on ``device`` ("cpu" where no device is meant)."""

    def __init__(self, side: Mapping[str, Any], device: str) -> None:
        self.emulated = bool(side["emulated"])
        self.device = "cpu" if self.emulated else device
        self.kernel = load(side)
        self.problem = problems.load(side["problem"], Path(side["folder"]))
        self.arguments = tuple(side.get("arguments") or self.problem.ARGUMENTS)
        self.function = not isinstance(self.kernel, Kernel)  # may return its outputs
        self.emulator = Emulator(self.kernel.library) if self.emulated and isinstance(self.kernel, Kernel) else None
        self._filled = not is_c(side) and side["kind"] != PYTHON  # a compiler of Python code can't look through such a mode

    def call(
        self, inputs: Mapping[str, Any], shape: Mapping[str, int], *, variant: int, order: str, seed: int, memory: str | None = None
    ) -> Launched:
        """Launch once on copies of the CPU ``inputs``; ``variant`` picks the poison, ``seed`` all random bytes.

        ``memory`` names the order whose pattern the emulator's unwritten memory shall hold, where it is not ``order``.

        Raises ProblemError for inputs that a C launcher can't take, OutputError for a function that returns no outputs to judge,
        DeviceLost after a CUDA error.
        """
        wanted = {name: value for name, value in inputs.items() if name in self.arguments}
        tensors = {name: value for name, value in wanted.items() if isinstance(value, torch.Tensor)}
        for name, value in tensors.items():
            if not value.is_contiguous():
                raise ProblemError(f"input {name!r} is not contiguous; a launcher receives no strides")
        poisons = {name: buffers.poison(value, seed + i, variant) for i, (name, value) in enumerate(self._given(shape).items())}
        content = {**tensors, **poisons}
        rooms = {
            name: buffers.guarded(value, self.device, 1000 * seed + 10 * i + variant)
            for i, (name, value) in enumerate(content.items())
        }
        numbers = {name: value for name, value in wanted.items() if name not in tensors}
        arguments = problems.call_arguments(
            self.problem, {**numbers, **{name: rooms[name].tensor for name in tensors}},
            {name: rooms[name].tensor for name in poisons}, shape, self.arguments,
        )
        result = Launched({}, poisons)
        if self.emulator is not None:
            self.emulator.prepare(order, seed, memory)
        if self.emulated:
            returned = self._launch_here(arguments, rooms, content, result)
        else:
            returned = self._launch_on_device(arguments, rooms, content, result)
        if self.emulator is not None:
            result.launches, result.findings = self.emulator.collect()
        in_place = [name for name in getattr(self.problem, "IN_PLACE", ()) if name in tensors]
        for name, room in rooms.items():
            if violation := room.violation():
                result.guards.append(f"{name}: {violation}")
        for name, value in tensors.items():
            changed = buffers.differing(rooms[name].tensor, value)
            if changed.numel() and name not in in_place:
                result.mutated.append(f"{name}: {changed.numel()} elements, first at {int(changed[0])}")
        result.outputs = {name: rooms[name].tensor.cpu().clone() for name in (*poisons, *in_place)}
        if returned is not None:
            result.outputs.update(self._returned(returned, shape, poisons))
        return result

    def _given(self, shape: Mapping[str, int]) -> dict[str, Any]:
        """The outputs that the kernel is given to write into. Raises ProblemError for a C launcher without any."""
        if not hasattr(self.problem, "make_outputs"):
            if isinstance(self.kernel, Kernel) and not getattr(self.problem, "IN_PLACE", ()):
                raise ProblemError(f"problem {self.problem.__name__} lacks make_outputs, which a C launcher needs")
            return {}
        made = problems.outputs_of(self.problem, shape)
        return made if isinstance(self.kernel, Kernel) else {name: value for name, value in made.items() if name in self.arguments}

    def _returned(self, value: Any, shape: Mapping[str, int], given: Mapping[str, Any]) -> dict[str, Any]:
        made = problems.outputs_of(self.problem, shape)
        outputs = problems.returned_by_name(value, made, given)
        for name, output in outputs.items():
            if not isinstance(name, str) or type(output) not in _TENSORS:  # a subclass may put its work off until it is read
                raise OutputError(f"the kernel returned {type(output).__name__} for output {name!r}, not a plain tensor")
            if name in made and output.dtype != made[name].dtype:
                raise OutputError(f"the kernel returned {output.dtype} for output {name!r}, make_outputs has {made[name].dtype}")
        try:
            return {name: torch.Tensor.detach(output).cpu().contiguous().clone() for name, output in outputs.items()}  # not an attribute of its own
        except RuntimeError as error:  # a sparse tensor, or one without values
            raise OutputError(f"what the kernel returned can't be read: {str(error).splitlines()[0]}") from None

    def _launch_here(self, arguments: Any, rooms: Any, content: Any, result: Launched) -> Any:
        for name, room in rooms.items():
            room.tensor.copy_(content[name])
        return self._run(arguments, 0, result)

    def _run(self, arguments: Any, stream: int, result: Launched) -> Any:
        try:
            with _FilledMemory() if self._filled else contextlib.nullcontext():
                return self.kernel(*arguments, stream=stream)
        except KernelError as error:
            result.error = str(error)
            return None

    def _launch_on_device(self, arguments: Any, rooms: Any, content: Any, result: Launched) -> Any:
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
                    returned = self._run(arguments, stream.cuda_stream, result)
                torch.cuda.synchronize(self.device)
                return returned
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise DeviceLost(str(error).splitlines()[0]) from None


class _FilledMemory(TorchDispatchMode):
    """Fills whatever memory torch hands out uninitialised: NaN, or 0xFF bytes."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        if function.overloadpacket in _UNINITIALISED and isinstance(made, torch.Tensor) and made.numel():
            made.view(torch.uint8).fill_(0xFF) if made.is_contiguous() and made.dim() else made.fill_(float("nan") if made.dtype.is_floating_point else -1)
        return made


_UNINITIALISED = {
    getattr(torch.ops.aten, name) for name in ("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided")
}
