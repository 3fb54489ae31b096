"""A kernel on the emulator, called with tensors of the CPU: they are copied to the emulator's memory, and back after the call."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gates.emulator import numba_alone, warp_alone
from gates.emulator.control import Emulator, oldest
from gates.emulator.jit_device import JitDevice
from gates.emulator.triton_device import TritonDevice
from gates.hardware.chips import Chip
from gates.launch.c_launcher import Kernel, KernelError
from gates.launch.entry_point import Function, Place, load
from gates.task.load import NUMBA, TRITON, WARP
from gates.task.sources.default_stream import CURRENT

_DEVICES: dict[str, Callable[[Emulator, Chip], Any]] = {
    TRITON: TritonDevice,
    NUMBA: partial(JitDevice, numba_alone),
    WARP: partial(JitDevice, warp_alone),
}


class EmulatedKernel:
    """The launcher ``entry`` of the emulator's library at ``path``; ``launches`` and ``findings`` are of the last call.

    ``archs``: the task's, of which it says to be the oldest chip; none: an H100. Raises GatesError as ``Kernel`` does.
    """

    def __init__(self, path: Path, entry: str, sha256: str | None = None, archs: Sequence[str] = (), stream: str = CURRENT) -> None:
        self._kernel = Kernel(path, entry, sha256)
        self.emulator = Emulator(self._kernel.library)
        self.emulator.be(archs)
        self._stream = self.emulator.stream() if stream == CURRENT else 0
        self.launches: list[dict[str, Any]] = []
        self.findings: list[dict[str, Any]] = []
        self._held: list[tuple[int, int]] = []
        self.left_out = 0  # of launches that are recorded alone

    @classmethod
    def of(cls, side: Mapping[str, Any]) -> EmulatedKernel:
        """The kernel of a job's ``side``."""
        return cls(Path(side["library"]), side["entry"], side.get("sha256"), side.get("arch", ()), side.get("stream", CURRENT))

    def __call__(self, *arguments: Any, order: str = "forward", seed: int = 0, memory: str | None = None) -> None:
        """Launch once, contiguous tensors between bounds of their own. Raises KernelError with the launcher's message or a
        launch's error.

        ``order``, ``seed``, ``memory``: see ``Emulator.prepare``.
        """
        emulator = self.emulator
        emulator.prepare(order, seed, memory)
        tensors = list(
            {id(value): value for value in arguments if hasattr(value, "data_ptr")}.values()
        )  # one that is given twice has one place
        places = dict(zip(map(id, tensors), self._room([_size(value) for value in tensors]), strict=True))
        for value in tensors:
            emulator.write(places[id(value)], value.data_ptr(), _size(value))
        refusal: KernelError | None = None
        with emulator.call(self._stream, [(places[id(value)], _size(value)) for value in tensors]):
            try:
                self._kernel(
                    *(ctypes.c_void_p(places[id(value)]) if id(value) in places else value for value in arguments), stream=self._stream
                )
            except KernelError as error:
                refusal = error
        pending, self.left_out = emulator.error(), emulator.left_out()
        self.launches, self.findings = emulator.collect()
        for value in tensors:
            emulator.read(places[id(value)], value.data_ptr(), _size(value))
        if refusal is not None:
            raise refusal
        if pending:
            raise KernelError(1, pending)

    def _room(self, sizes: list[int]) -> list[int]:
        """Addresses of memory of these sizes: those of the last call, if they fit, as a device's allocator gives them again."""
        if [size for size, _ in self._held] != sizes:
            for _, place in self._held:
                self.emulator.free(place)
            self._held = []
            self._held = [(size, self.emulator.allocate(size)) for size in sizes]
        return [place for _, place in self._held]


class EmulatedFunction:
    """The Python function of a job's ``side`` whose kernels, those of a language in Python or of a torch extension, run on the emulator.

    ``launches`` and ``findings`` are of the last call. Raises GatesError as ``Function`` does, and NotHere if the language does not work.
    """

    def __init__(self, side: Mapping[str, Any]) -> None:
        archs = side.get("arch", ())
        if side.get("script"):
            library = ctypes.CDLL(side["library"])
            self.emulator = Emulator(library)
            self.emulator.be(archs)
            library.gates_torch_share_memory()  # before torch makes the first tensor that a kernel may see
            self._function: Any = load(side)
        else:
            self.emulator = Emulator(ctypes.CDLL(side["runtime"]))
            self.emulator.be(archs)
            os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(prefix="triton.")
            _DEVICES[side["kind"]](self.emulator, oldest(archs)).use()
            self._function = Function(Path(side["library"]), side["entry"], Place(True, True, archs))
        self.launches: list[dict[str, Any]] = []
        self.findings: list[dict[str, Any]] = []

    def __call__(self, *arguments: Any, order: str = "forward", seed: int = 0, memory: str | None = None, **more: Any) -> Any:
        """What the function returns. Each tensor is given in memory of its own, so that an access past its end is seen.

        ``order``, ``seed``, ``memory``: see ``Emulator.prepare``. Raises KernelError with what it raises, or with a launch's error.
        """
        self.emulator.prepare(order, seed, memory)
        try:
            return self.run(*arguments, **more)
        finally:
            self.launches, self.findings = self.emulator.collect()

    def run(self, *arguments: Any, **more: Any) -> Any:
        """The same in the order and with the memory of before, and without taking launches and findings from the emulator."""
        own = {id(value): _alone(value) for value in arguments if hasattr(value, "data_ptr")}
        returned = self._function(*(own.get(id(value), value) for value in arguments), **more)
        for value in arguments:
            if id(value) in own:
                value.copy_(own[id(value)])
        if pending := self.emulator.error():
            raise KernelError(1, pending)
        return returned


def _alone(tensor: Any) -> Any:
    """A copy with the same strides, in memory from its first to its last element."""
    if not tensor.numel():
        return tensor.clone()
    from gates.launch.guarded_buffers import memory_of  # needs torch

    return memory_of(tensor).clone().as_strided(tensor.shape, tensor.stride())


def _size(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())
