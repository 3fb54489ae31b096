"""The clockwork on a CUDA device: input sets, captured launches, cache flush, events.

A sample is one replay of a CUDA graph of n launches between two events, behind work that keeps the
card busy while the host prepares, so that no host gap is inside. Cold: each launch of the graph has
an input set of its own and all of the L2 cache is overwritten before the replay, outside the
events; so every launch finds its inputs in device memory, and n launches share the cost of one
event pair. Warm: all launches use one set. An extension that launches on the default stream is compiled for the thread's own one, which
can be captured. Other kernels of the default stream, and an extension that waits for its kernel, can't be: their sample is n calls
between the events, so one that is shorter than the host's part of its launch is timed with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from gates.gate.performance import codes
from gates.gate.performance.runner.protocol import Stopped
from gates.launch.c_launcher import KernelError
from gates.launch.entry_point import load
from gates.stats import calibration as calibrate
from gates.task import problem as problems

_STRIDE_BYTES = 256
_SPIN_CYCLES = 400_000  # about 0.2 ms: the host queues a block's first launches meanwhile
_HOST_CYCLES = 100_000  # a launch and its events take the host some 30 us
_PERSISTING_L2_LIMIT = 6  # CU_LIMIT_PERSISTING_L2_CACHE_SIZE
_PER_THREAD = 2  # cudaStreamPerThread


class Room:
    """Tensors like ``like``, each at an address aligned to 256 bytes: ``raw``, bytes [tensors, stride]."""

    def __init__(self, like: Any, raw: Any) -> None:
        self.like, self.size, self.raw = like, like.numel() * like.element_size(), raw

    def view(self, index: int) -> Any:
        return self.raw[index, : self.size].view(self.like.dtype).view(self.like.shape)

    def rows(self, indices: Sequence[int]) -> Any:
        """The tensors ``indices``: [tensors, elements]."""
        return self.raw[list(indices), : self.size].contiguous().view(self.like.dtype)

    def poison(self) -> None:
        """0xFF bytes: NaN in every float format."""
        self.raw.fill_(0xFF)


def rooms(like: Any, count: int, device: Any, beside: int = 1) -> list[Room]:
    """``beside`` rooms of ``count`` tensors in one allocation: tensor 0 of each, then tensor 1 of each, and so on.

    With a block of its own for each side, a side's outputs would lie at one distance from the inputs in all sets, and what
    that does to device memory would be taken for speed (docs/gates/performance.md).
    """
    stride = max(1, math.ceil(like.numel() * like.element_size() / _STRIDE_BYTES)) * _STRIDE_BYTES
    raw = torch.empty((count, beside, stride), dtype=torch.uint8, device=device)
    return [Room(like, raw[:, number]) for number in range(beside)]


class Returned:
    """Like a Room, for outputs that a function makes itself: those of the captured launch of each set."""

    def __init__(self, like: Any, tensors: Mapping[int, Any] | None = None) -> None:
        self.like, self.size = like, like.numel() * like.element_size()
        self.tensors = dict(tensors or {})

    def view(self, index: int) -> Any:
        return self.tensors[index]

    def rows(self, indices: Sequence[int]) -> Any:
        return torch.stack([self.tensors[index].reshape(-1) for index in indices])

    def poison(self) -> None:
        for tensor in self.tensors.values():
            _bytes(tensor).fill_(0xFF) if tensor.is_contiguous() else tensor.fill_(-1)


class Sets:
    """Input sets with outputs of their own for each side (name: its kernel's arguments); set i holds the values of slot (i + round) mod
    slots.

    ``slots``: input values by name, on the CPU, as the judge sent them; it changes one of them a round. ``made``: tensors like the
    outputs; ``names``: of what a function may return, in order. Poisoned outputs are filled with 0xFF bytes (NaN in every float format); an
    input that the kernel changes (``in_place``) is an output with the input's values.
    """

    def __init__(
        self,
        slots: Sequence[Mapping[str, Any]],
        count: int,
        device: Any,
        *,
        made: Mapping[str, Any],
        names: Sequence[str],
        in_place: Sequence[str],
        shape: Mapping[str, int],
        sides: Mapping[str, Sequence[str]],
    ) -> None:
        self.count, self.device, self.in_place, self.slots = count, device, list(in_place), len(slots)
        self._names, self._round = list(names), 0
        self._shape, self._numbers = dict(shape), {name: value for name, value in slots[0].items() if not isinstance(value, torch.Tensor)}
        self._inputs = {name: rooms(value, count, device)[0] for name, value in slots[0].items() if isinstance(value, torch.Tensor)}
        self.outputs: dict[str, dict[str, Room | Returned]] = {side: {} for side in sides}
        for name, value in (dict(made) | {name: self._inputs[name].like for name in self.in_place}).items():
            writers = [side for side, names in sides.items() if name in names]
            for side, room in zip(writers, rooms(value, count, device, len(writers)), strict=True):
                self.outputs[side][name] = room
        self._pool = {name: torch.stack([_bytes(values[name]) for values in slots]).to(device) for name in self._inputs}
        self._fill()

    def change(self, slot: int, values: Mapping[str, Any], number: int) -> None:
        """Put other ``values`` into ``slot`` and begin round ``number``. Never inside a timed window."""
        for name, pool in self._pool.items():
            pool[slot].copy_(_bytes(values[name]))
        self._round = number
        self._fill()

    def poison(self) -> None:
        for given in self.outputs.values():
            for name, room in given.items():
                if name in self.in_place:
                    self._give(name, room)
                else:
                    room.poison()

    def adopt(self, side: str, index: int, returned: Any) -> None:
        """Take what a captured launch on set ``index`` returned as that set's outputs; None: it wrote into those it was given."""
        if returned is None:
            return
        given = [name for name, room in self.outputs[side].items() if isinstance(room, Room)]
        for name, tensor in problems.returned_by_name(returned, self._names, given).items():
            room = self.outputs[side].setdefault(name, Returned(tensor))
            assert isinstance(room, Returned)  # a name that was given is not among these
            room.tensors[index] = tensor

    def left(self, side: str, indices: Sequence[int]) -> dict[str, Any]:
        """Return the outputs of the sets ``indices`` by name, each [sets, elements]."""
        return {name: room.rows(indices) for name, room in self.outputs[side].items()}

    def fresh(self, index: int, side: TimedSide) -> dict[str, Any]:
        """Return outputs of an untimed launch of ``side`` on the inputs of set ``index``, in separate buffers, each [1, elements]."""
        given = {name: rooms(room.like, 1, self.device)[0] for name, room in self.outputs[side.name].items() if isinstance(room, Room)}
        for name, room in given.items():
            if name in self.in_place:
                room.view(0).copy_(self._inputs[name].view(index))
            else:
                room.poison()
        side.clockwork.synchronize()
        views = {name: room.view(0) for name, room in given.items()}
        returned = side.clockwork.launch(side.kernel, self._arguments(index, views, side.arguments))
        found = views | ({} if returned is None else problems.returned_by_name(returned, self._names, given))
        return {name: tensor.reshape(1, -1) for name, tensor in found.items()}

    def device_inputs(self, index: int) -> dict[str, Any]:
        return {**self._numbers, **{name: room.view(index) for name, room in self._inputs.items()}}

    def side_arguments(self, index: int, side: str, names: Sequence[str]) -> tuple[Any, ...]:
        return self._arguments(
            index, {name: room.view(index) for name, room in self.outputs[side].items() if isinstance(room, Room)}, names
        )

    def _arguments(self, index: int, outputs: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
        values = {**self._shape, **self.device_inputs(index), **outputs}
        return tuple(values[name] for name in names)

    def _fill(self) -> None:
        for name, room in self._inputs.items():
            self._give(name, room)

    def _give(self, name: str, room: Any) -> None:
        for start in range(min(self.slots, self.count)):
            room.raw[start :: self.slots, : room.size] = self._pool[name][(start + self._round) % self.slots]


class Uncaptured:
    """Stand in for a graph if the launches can't be captured: a replay makes these calls in order."""

    def __init__(self, calls: Sequence[Callable[[int], Any]], stream: int) -> None:
        self._calls, self._stream = tuple(calls), stream

    def replay(self) -> None:
        for call in self._calls:
            call(self._stream)


class Clockwork:
    """A stream, a cache flush and events on one device; ``on_default``: the default stream, for kernels that launch there;
    ``per_thread``: the thread's own.
    """

    def __init__(self, device: Any, *, on_default: bool = False, per_thread: bool = False) -> None:
        self.device, self._on_default, self._captured = device, on_default, per_thread or not on_default
        if on_default:
            self.stream = torch.cuda.ExternalStream(_PER_THREAD, device) if per_thread else torch.cuda.default_stream(device)
        else:
            self.stream = torch.cuda.Stream(device)
        properties = torch.cuda.get_device_properties(device)
        self.l2_bytes = int(getattr(properties, "L2_cache_size", 0)) or 64 * 2**20
        self._flush = torch.empty(2 * self.l2_bytes, dtype=torch.uint8, device=device)
        self._events: list[tuple[Any, Any]] = []
        self._driver: ctypes.CDLL | None = None
        with contextlib.suppress(OSError):
            self._driver = ctypes.CDLL("libcuda.so.1")

    def launch(self, kernel: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """One launch now, waited for; what it returned."""
        with torch.cuda.stream(self.stream):
            returned = kernel(*arguments, stream=self.stream.cuda_stream)
        self.stream.synchronize()
        return returned

    def capture(self, calls: Sequence[Callable[[int], Any]]) -> Any:
        """Return a CUDA graph of ``calls``, each of which gets its stream; on the default stream the calls themselves, if they can't be
        captured.
        """
        if self._captured:
            try:
                return self._graph(calls, self.stream)
            except (KernelError, RuntimeError):
                if not self._on_default:
                    raise
                self._captured = False
                with contextlib.suppress(KernelError, RuntimeError):  # the next call may report the error again
                    calls[0](self.stream.cuda_stream)
                self.synchronize()
        return Uncaptured(calls, self.stream.cuda_stream)

    def _graph(self, calls: Sequence[Callable[[int], Any]], stream: Any) -> Any:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(self.device)
        with torch.cuda.stream(stream):
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                for call in calls:
                    call(stream.cuda_stream)
            except BaseException:
                with contextlib.suppress(RuntimeError):  # the capture is void; the first error is the one to tell
                    graph.capture_end()
                raise
            graph.capture_end()
        return graph

    def synchronize(self) -> None:
        """Wait for all work on the device."""
        torch.cuda.synchronize(self.device)

    def replay(self, graph: Any) -> None:
        """One replay, waited for."""
        with torch.cuda.stream(self.stream):
            graph.replay()
        self.stream.synchronize()

    def timer(self, run: Callable[[int], None], launches: int, *, flush: bool, host_bound: bool = False) -> Callable[[int], list[float]]:
        """A block timer: times in us a launch of ``run(sample number)``, which enqueues ``launches`` launches."""

        def block(samples: int) -> list[float]:
            return [elapsed / launches for elapsed in self.elapsed_us(run, samples, flush=flush, host_bound=host_bound)]

        return block

    def elapsed_us(self, run: Callable[[int], None], samples: int, *, flush: bool, host_bound: bool = False) -> list[float]:
        """Elapsed us of ``samples`` calls of ``run``, each between two events; waits once, at the end."""
        while len(self._events) < samples:
            self._events.append((torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)))
        events = self._events[:samples]
        self._forget_persisting_lines()
        with torch.cuda.stream(self.stream):
            torch.cuda._sleep(_SPIN_CYCLES + (samples * _HOST_CYCLES if host_bound else 0))
            for number, (start, end) in enumerate(events):
                if flush:
                    self._flush.zero_()
                start.record()
                run(number)
                end.record()
        self.stream.synchronize()
        return [1000.0 * start.elapsed_time(end) for start, end in events]

    def calibration(self) -> calibrate.Calibration:
        """Timer step and empty pair from 2000 event pairs, empty kernel from a graph of 200 spins of 0 cycles."""
        elapsed: list[float] = []
        for _ in range(20):
            elapsed += self.elapsed_us(lambda number: None, 100, flush=False, host_bound=True)
        step, empty = calibrate.timer(elapsed)
        graph = self._graph(
            [lambda stream: torch.cuda._sleep(0)] * 200, torch.cuda.Stream(self.device) if self._on_default else self.stream
        )
        times = self.elapsed_us(lambda number: graph.replay(), 20, flush=False)
        return calibrate.Calibration(step, empty, statistics.median(times) / 200.0)

    def _forget_persisting_lines(self) -> None:
        """A kernel may ask to keep lines in L2 through a flush; take that allowance away (driver calls)."""
        if self._driver is not None:
            self._driver.cuCtxSetLimit(ctypes.c_int(_PERSISTING_L2_LIMIT), ctypes.c_size_t(0))
            self._driver.cuCtxResetPersistingL2Cache()


class TimedSide:
    """One side's kernel with its graphs over the sets; ``library``: another file of the same, for the control."""

    def __init__(
        self, name: str, side: Mapping[str, Any], arguments: Sequence[str], clockwork: Clockwork, library: str | None = None
    ) -> None:
        self.name, self.kernel, self.clockwork = name, load(side, library), clockwork
        self.arguments = tuple(arguments)
        self.returned_bytes = 0
        self._graphs: dict[str, Any] = {}

    def try_launch(self, sets: Sets) -> float:
        """Launch on set 0, then time one launch: a rough upper bound in us."""
        arguments = sets.side_arguments(0, self.name, self.arguments)
        with self._blame():
            returned = self.clockwork.launch(self.kernel, arguments)
            if returned is not None:
                self.returned_bytes = sum(value.numel() * value.element_size() for value in problems.named(returned).values())
            times = self.clockwork.elapsed_us(lambda number: self._enqueue(arguments), 3, flush=False, host_bound=True)
        return max(statistics.median(times), 0.1)

    def estimate(self, sets: Sets, rough_us: float) -> float:
        """Time of a launch in us from a graph of up to 20 launches on one set."""
        count = max(1, min(20, int(2000.0 / rough_us)))
        with self._blame():
            graph = self._capture(sets, [0] * count)
            times = self.clockwork.elapsed_us(lambda number: graph.replay(), 5, flush=False)
        return max(statistics.median(times) / count, 0.05)

    def prepare(self, sets: Sets, mode: str, launches: int) -> Callable[[int], list[float]]:
        """Capture ``launches`` launches for ``mode`` (one a set when cold, set 0 when warm); the block timer."""
        indices = [index % sets.count for index in range(launches)] if mode == "cold" else [0] * launches
        with self._blame():
            graph = self._capture(sets, indices)
        self._graphs[mode] = graph
        return self.clockwork.timer(lambda number: graph.replay(), launches, flush=mode == "cold")

    def unflushed(self, mode: str, launches: int) -> Callable[[int], list[float]]:
        """Return the block timer of the same graph without gaps between its replays."""
        return self.clockwork.timer(lambda number: self._graphs[mode].replay(), launches, flush=False)

    def replay(self, mode: str) -> None:
        with self._blame():
            self.clockwork.replay(self._graphs[mode])

    def single(self, sets: Sets) -> Callable[[int], list[float]]:
        """Block timer for single cold launches, without a graph."""
        arguments = [sets.side_arguments(index, self.name, self.arguments) for index in range(min(sets.count, 32))]
        return self.clockwork.timer(lambda number: self._enqueue(arguments[number % len(arguments)]), 1, flush=True, host_bound=True)

    def _enqueue(self, arguments: Sequence[Any]) -> None:
        self.kernel(*arguments, stream=self.clockwork.stream.cuda_stream)

    def _capture(self, sets: Sets, indices: Sequence[int]) -> Any:
        def launch(index: int) -> Callable[[int], None]:
            arguments = sets.side_arguments(index, self.name, self.arguments)
            return lambda stream: sets.adopt(self.name, index, self.kernel(*arguments, stream=stream))

        try:
            return self.clockwork.capture([launch(index) for index in indices])
        except KernelError as error:
            raise Stopped(codes.CAPTURE_FAILED, f"{self.name}: under stream capture: {error}") from None
        except RuntimeError as error:
            raise Stopped(codes.CAPTURE_FAILED, f"{self.name}: {first_line(error)}") from None

    @contextlib.contextmanager
    def _blame(self) -> Any:
        """Turn a launcher's error into this side's reason code."""
        try:
            yield
        except KernelError as error:
            code = codes.LAUNCH_FAILED if self.name == "candidate" else codes.BASELINE_FAILED
            raise Stopped(code, f"{self.name}: launcher returned {error.code}: {error}") from None


def settled(times: Sequence[float]) -> float:
    """The median without the first fifth."""
    return statistics.median(times[len(times) // 5 :])


def first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _bytes(tensor: Any) -> Any:
    return tensor.contiguous().reshape(-1).view(torch.uint8)
