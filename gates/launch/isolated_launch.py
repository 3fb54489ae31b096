"""Launch a kernel in the process that runs it and judges nothing.

The buffers come whole, guards and poison included, and go back whole: what became of them the judge sees (``gates.launch.side``).
A function that returns its outputs makes them itself: there are no guards around those, but whatever memory
torch hands out while it runs is filled with NaN first, so that an element which it leaves out shows.

On a CUDA device the launch runs on a stream of its own that does not synchronise with the default
stream. A delay and the copies of the inputs and of the poison stand before it on that stream, so a
kernel on any other stream reads garbage and has its output overwritten by poison. A task of ``stream: default`` is launched on
the default stream, with the same delay and copies before it. On the emulator what lies between the guards is copied to its memory,
which has guards of its own, and back; the order of the call is chosen, and the emulator's launches and findings are collected.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Collection, Mapping
from typing import Any

import torch

from gates.launch import guarded_buffers
from gates.launch.c_launcher import KernelError
from gates.launch.emulated_kernel import EmulatedFunction, EmulatedKernel
from gates.launch.entry_point import is_c, load, on_emulator
from gates.task import problem as problems
from gates.task.load import PYTHON
from gates.task.problem import OutputError
from gates.task.sources.default_stream import DEFAULT
from gates.task.torch_mode import TorchMode
from gates.worker import sandbox

_TENSORS = (torch.Tensor, torch.nn.Parameter)
_CYCLES_PER_S = 2_000_000_000  # of a card, about
_LEAST_DELAY_S, _MOST_DELAY_S = 0.001, 0.01  # for which a stream waits before a launch
_DELAY_OVER_ENQUEUING = 8.0

_MOST_BYTES_FOR_RACES = 2**20  # of a call's buffers: in calls of more they are left to the sanitizer gate


class DeviceLost(Exception):
    """The kernel's process ended, or its CUDA context is broken: nothing more can run in it."""


def wake(device: str) -> None:
    """Make the device's context early: it takes half a second, while the judge plans its cases. The first launch reports errors."""
    if device != "cpu":
        with contextlib.suppress(RuntimeError, AssertionError):
            torch.cuda.synchronize(device)


class Launcher:
    """The kernel of a job's side on ``device`` ("cpu" where no device is meant)."""

    def __init__(self, side: Mapping[str, Any], device: str) -> None:
        self._device, self._on_device = device, not side["emulated"]
        self._emulated = None if not on_emulator(side) else EmulatedKernel.of(side) if is_c(side) else EmulatedFunction(side)
        self._kernel: Any = self._emulated or load(side)
        if is_c(side):
            torch.set_num_threads(1)  # torch copies bytes here and computes nothing
        self._delay_s = _MOST_DELAY_S  # the first launch loads the kernel's module
        self._filled = not is_c(side) and side["kind"] != PYTHON  # a compiler of Python code can't look through such a mode

    def launch(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Launch once; the bytes of the ``buffers``, what was ``returned``, the launcher's ``error``, and the emulator's records.

        ``question``: {"buffers": {name: {"image": bytes with guards, "dtype", "shape", "strides"}}, "arguments": in their order
        [{"buffer": name} or {"value": number or the like}], "names" and "given": names of the problem's outputs and of those
        among the arguments, "order", "memory": see ``Emulator.prepare``, "seed": of the emulator's random choices, "stream": "current" or
        "default"}; or besides buffers and arguments "arch"
        alone: then {"launches", "left_out"} of that chip.

        Raises OutputError for a function that returns no outputs to judge, DeviceLost after a CUDA error.
        """
        given = question["buffers"]
        raws = {name: guarded_buffers.room(one["image"].numel(), self._device) for name, one in given.items()}
        views = {
            name: guarded_buffers.viewed(raws[name], getattr(torch, one["dtype"]), one["shape"], one["strides"])
            for name, one in given.items()
        }
        arguments = [views[one["buffer"]] if "buffer" in one else one["value"] for one in question["arguments"]]
        images = {name: one["image"] for name, one in given.items()}
        if "arch" in question:
            assert isinstance(self._emulated, EmulatedKernel), "only the emulator can be another chip"
            return _recorded(self._emulated, arguments, raws, images, question["arch"])
        answer: dict[str, Any] = {"error": "", "launches": [], "findings": []}
        if self._on_device:
            returned = self._launch_on_device(arguments, raws, images, answer, question["stream"])
        elif self._emulated is not None:
            how = {name: question[name] for name in ("order", "seed", "memory")}
            with _FilledMemory() if self._filled else contextlib.nullcontext():
                returned = _call_emulated(self._emulated, arguments, raws, images, answer, **how)
        else:
            returned = self._launch_here(arguments, raws, images, answer)
        answer["buffers"] = {name: raw.cpu() for name, raw in raws.items()}
        answer["returned"] = {} if returned is None else _by_name(returned, question["names"], question["given"], on_device=self._on_device)
        return answer

    def _launch_here(self, arguments: Any, raws: Any, images: Any, answer: dict[str, Any]) -> Any:
        for name, raw in raws.items():
            raw.copy_(images[name])
        return self._run(arguments, 0, answer)

    def _run(self, arguments: Any, stream: int, answer: dict[str, Any]) -> Any:
        try:
            with _FilledMemory() if self._filled else contextlib.nullcontext():
                return self._kernel(*arguments, stream=stream)
        except KernelError as error:
            answer["error"] = str(error)
            return None

    def _launch_on_device(self, arguments: Any, raws: Any, images: Any, answer: dict[str, Any], where: str) -> Any:
        try:
            with torch.cuda.device(self._device):
                stream = torch.cuda.default_stream(self._device) if where == DEFAULT else torch.cuda.Stream(self._device)
                staged = {name: image.to(self._device) for name, image in images.items()}
                for name, raw in raws.items():
                    raw.copy_(staged[name])
                    guarded_buffers.content(raw).bitwise_not_()  # garbage until the copy below has come
                torch.cuda.synchronize(self._device)
                delayed = torch.cuda.Event()
                with torch.cuda.stream(stream):
                    with contextlib.suppress(AttributeError):  # private to torch, only makes the test sharper
                        torch.cuda._sleep(int(self._delay_s * _CYCLES_PER_S))
                    delayed.record(stream)
                    began = time.perf_counter()
                    for name, raw in raws.items():
                        guarded_buffers.content(raw).copy_(guarded_buffers.content(staged[name]), non_blocking=True)
                    returned = self._run(arguments, stream.cuda_stream, answer)
                    answer["ahead"] = ahead = not delayed.query()  # false on a busy machine, and for a launcher that waits
                    self._delay_s = next_delay_s(time.perf_counter() - began, ahead=ahead)
                torch.cuda.synchronize(self._device)
                return returned
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise DeviceLost(str(error).splitlines()[0]) from None


def next_delay_s(enqueuing_s: float, *, ahead: bool) -> float:
    """How long the next launch's stream waits: several times what enqueuing took this time, and longest after a wait that was too short.

    Nothing else runs on the card meanwhile, also of other processes, so a delay of 10 ms each would be most of what a small case takes.
    """
    return min(_MOST_DELAY_S, max(_LEAST_DELAY_S, _DELAY_OVER_ENQUEUING * enqueuing_s)) if ahead else _MOST_DELAY_S


def _recorded(kernel: EmulatedKernel, arguments: Any, raws: Any, images: Any, arch: str) -> dict[str, Any]:
    """What is launched on the chip ``arch``; no block runs. A refusal of the shape on this chip is for the correctness gate."""
    kernel.emulator.be([arch])
    kernel.emulator.record_alone()
    answer: dict[str, Any] = {}
    _call_emulated(kernel, arguments, raws, images, answer)
    return {"launches": [one for one in answer["launches"] if not one["error"]], "left_out": kernel.left_out}


def _call_emulated(
    kernel: EmulatedKernel | EmulatedFunction, arguments: Any, raws: Any, images: Any, answer: dict[str, Any], **how: Any
) -> Any:
    for name, raw in raws.items():
        raw.copy_(images[name])
    kernel.emulator.look_for_races(sum(raw.numel() for raw in raws.values()) <= _MOST_BYTES_FOR_RACES)
    returned = None
    try:
        returned = kernel(*arguments, **how)
    except KernelError as error:
        answer["error"] = str(error)
    answer["launches"], answer["findings"] = kernel.launches, kernel.findings
    return returned


def _by_name(value: Any, names: Collection[str], given: Collection[str], *, on_device: bool) -> dict[str, Any]:
    """Return CPU copies of a function's outputs, by name.

    Raises OutputError unless each is a plain tensor on the kernel's device that fits memory.
    """
    outputs = problems.returned_by_name(value, names, given)
    for name, output in outputs.items():
        if not isinstance(name, str) or type(output) not in _TENSORS:  # a subclass may put its work off until it is read
            raise OutputError(f"the kernel returned {type(output).__name__} for output {name!r}, not a plain tensor")
        if on_device and output.device.type == "cpu":
            raise OutputError(f"the kernel returned a CPU tensor for output {name!r}: outputs must be on the device of the inputs")
        if output.numel() * output.element_size() > sandbox.default_memory_bytes():  # by strides of 0, say: there is no such memory
            raise OutputError(f"the kernel returned {list(output.shape)} for output {name!r}, which is more than this machine's memory")
    try:
        return {
            name: torch.Tensor.detach(output).cpu().clone(memory_format=torch.contiguous_format) for name, output in outputs.items()
        }  # strides of 1 also where one element is all
    except RuntimeError as error:  # a sparse tensor, or one without values
        raise OutputError(f"the kernel's return value can't be read: {str(error).splitlines()[0]}") from None


class _FilledMemory(TorchMode):
    """Fills whatever memory torch hands out uninitialised: NaN, or 0xFF bytes."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "torch._dynamo" not in sys.modules:
            return self._filled(function, args, kwargs)
        return torch._dynamo.disable(self._filled)(function, args, kwargs)

    @staticmethod
    def _filled(function: Any, args: Any, kwargs: Any) -> Any:
        made = function(*args, **(kwargs or {}))
        if function.overloadpacket in _UNINITIALISED and isinstance(made, torch.Tensor) and made.numel():
            made.view(torch.uint8).fill_(0xFF) if made.is_contiguous() and made.dim() else made.fill_(
                float("nan") if made.dtype.is_floating_point else -1
            )
        return made


_UNINITIALISED = {getattr(torch.ops.aten, name) for name in ("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided")}
