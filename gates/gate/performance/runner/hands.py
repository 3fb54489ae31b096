"""Run the timed kernels and the device's clock in a process that judges nothing.

It gets input values and launch counts. It has no reference, no limit and no seed, and can write only to its scratch folder. Its
answers are claims: the judge's process (``gates.gate.performance.runner.session``) compares the outputs and checks the times against its
own clock.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import Any, BinaryIO

import torch

from gates.core.errors import EXIT_HOLD, GatesError
from gates.core.records import to_json
from gates.gate.performance import codes
from gates.gate.performance.runner import cuda_graphs
from gates.gate.performance.runner.cuda_graphs import first_line
from gates.gate.performance.runner.protocol import Stopped
from gates.launch.entry_point import is_c
from gates.task import problem as problems
from gates.task.load import EXTENSION
from gates.task.sources.default_stream import DEFAULT
from gates.worker import isolated, wire
from gates.worker.tamper_check import Functions

_BACKEND_SETS = 32
_CONTEXT_SAMPLES = 25


class Hands:
    """Answer questions: method ``do_<name>`` answers ``name``; ``answer`` turns exceptions into answers."""

    def __init__(self) -> None:
        self._functions = Functions()  # before any code of the kernels is loaded
        self._timers: dict[tuple[str, str], Callable[[int], list[float]]] = {}
        self._sides: dict[str, cuda_graphs.TimedSide] = {}
        self._sets: Any = None

    def answer(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``{"is": …}``, or ``stopped`` with a reason code, or ``refused`` with the text of a GatesError."""
        data = {name: value for name, value in question.items() if name != "do"}
        try:
            return {"is": getattr(self, f"do_{question['do']}")(**data)}
        except Stopped as stop:
            return {"stopped": stop.code, "text": str(stop)}
        except torch.OutOfMemoryError as error:
            return {"stopped": codes.NO_MEMORY, "text": first_line(error)}
        except MemoryError:
            return {"stopped": codes.NO_MEMORY, "text": "not enough host memory for the input sets"}
        except GatesError as error:
            return {"refused": error.what, "hint": error.hint, "held": error.exit_code == EXIT_HOLD}
        except RuntimeError as error:
            return {"stopped": codes.DEVICE_ERROR, "text": first_line(error)}

    def do_open(self, device: str, sides: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Load the kernels of ``sides`` (name -> side, arguments, library) on ``device``; return the device's description."""
        if not torch.cuda.is_available():
            raise Stopped(codes.NO_DEVICE, "torch sees no CUDA device")
        self._device = torch.device(device)
        torch.cuda.set_device(self._device)
        self._forget()
        on_default = [one["side"] for one in sides.values() if one["side"].get("stream") == DEFAULT]
        self._clockwork = cuda_graphs.Clockwork(
            self._device, on_default=bool(on_default), per_thread=all(side["kind"] == EXTENSION for side in on_default)
        )
        for name, one in sides.items():
            if not is_c(one["side"]):
                problems.find(one["side"]["problem"], Path(one["side"]["folder"]))  # what stands beside it a function may import
            self._sides[name] = cuda_graphs.TimedSide(name, one["side"], one["arguments"], self._clockwork, one["library"])
        found = torch.cuda.get_device_properties(self._device)
        return {
            "name": found.name,
            "uuid": str(getattr(found, "uuid", "")),
            "compute_capability": f"{found.major}.{found.minor}",
            "multiprocessors": int(found.multi_processor_count),
            "l2_bytes": self._clockwork.l2_bytes,
            "torch_version": torch.__version__,
        }

    def _forget(self) -> None:
        """Give back what the shape before has on the device: graphs, outputs and input sets."""
        if self._sides:
            self._timers.clear()
            self._sides.clear()
            self._sets = None
            gc.collect()
            torch.cuda.empty_cache()

    def do_calibrate(self) -> dict[str, Any]:
        return to_json(self._clockwork.calibration())

    def do_free_bytes(self) -> int:
        return int(torch.cuda.mem_get_info(self._device)[0])

    def do_sets(self, **given: Any) -> None:
        """Replace the input sets; arguments as for ``cuda_graphs.Sets``."""
        self._timers.clear()
        self._sets = cuda_graphs.Sets(device=self._device, **given)
        self._clockwork.synchronize()

    def do_estimate(self, side: str) -> dict[str, Any]:
        """Return us per launch from a few launches on set 0, and the bytes that a launch returns."""
        timed = self._sides[side]
        return {"us": timed.estimate(self._sets, timed.try_launch(self._sets)), "returned_bytes": timed.returned_bytes}

    def do_prepare(self, side: str, mode: str, launches: int) -> None:
        """Capture the launches of a cache mode; its blocks are then ``mode``, and ``unflushed`` with nothing between the replays."""
        timed = self._sides[side]
        if mode == "single":
            self._timers[side, mode] = timed.single(self._sets)
        else:
            self._timers[side, mode] = timed.prepare(self._sets, mode, launches)
            self._timers[side, "unflushed"] = timed.unflushed(mode, launches)

    def do_block(self, side: str, mode: str, samples: int) -> list[float]:
        """Return one time per sample, in us per launch."""
        return self._timers[side, mode](samples)

    def do_replay(self, side: str, mode: str) -> None:
        self._sides[side].replay(mode)

    def do_change(self, **given: Any) -> None:
        self._sets.change(**given)
        self.do_poison()

    def do_poison(self) -> None:
        self._clockwork.synchronize()  # whatever ran during a capture, on a stream of its own, is over
        self._sets.poison()
        self._clockwork.synchronize()  # copies run on another stream than the launches

    def do_outputs(self, side: str, indices: Sequence[int]) -> dict[str, Any]:
        self._clockwork.synchronize()
        return {name: rows.cpu() for name, rows in self._sets.left(side, indices).items()}

    def do_fresh(self, side: str, index: int) -> dict[str, Any]:
        return {name: row.cpu() for name, row in self._sets.fresh(index, self._sides[side]).items()}

    def do_replaced(self) -> list[str]:
        return self._functions.replaced()

    def do_backends(self, problem: str, folder: str, shape: Mapping[str, int]) -> dict[str, Any]:
        """Return one row per other implementation of the problem, on the current sets. A failure is reported in its row, not raised."""
        module = problems.load(problem, Path(folder))  # after the measurement: this process has no use for a problem before
        if not hasattr(module, "backends"):
            return {}
        count, found = min(self._sets.count, _BACKEND_SETS), dict[str, Any]()
        try:
            with torch.cuda.stream(self._clockwork.stream):
                calls = [module.backends(self._sets.device_inputs(index), dict(shape)) for index in range(count)]
            self._clockwork.synchronize()
        except Exception as error:  # the user's module: whatever it raises is told in the row
            return {"all": {"message": f"{type(error).__name__}: {first_line(error)}"}}
        for name in calls[0]:
            try:
                found[name] = {"us": self._backend_us([one[name] for one in calls])}
            except Exception as error:  # an unsupported shape or device, by the backend's own choice of exception
                found[name] = {"message": f"{type(error).__name__}: {first_line(error)}"}
        return found

    def _backend_us(self, calls: list[Callable[[], Any]]) -> float:
        with torch.cuda.stream(self._clockwork.stream):
            for call in (*calls[:1] * 2, *calls):
                call()
        self._clockwork.synchronize()
        graph = self._clockwork.capture([partial(_without_stream, call) for call in calls])
        return cuda_graphs.settled(self._clockwork.elapsed_us(lambda number: graph.replay(), _CONTEXT_SAMPLES, flush=True)) / len(calls)


def _without_stream(call: Callable[[], Any], _stream: int) -> Any:
    return call()


def serve(kind: type[Hands] = Hands) -> None:
    """Run in the process: confine it, then answer until the questions end."""
    asks, answers = isolated.settle()
    wire.send(answers, {"is": isolated.confine(Path(wire.receive(asks)["scratch"]), memory_bytes=None, on_device=True)})
    hands = kind()
    while turn(hands, asks, answers):
        pass


def turn(hands: Hands, asks: BufferedIOBase, answers: BinaryIO) -> bool:
    """Answer the next question; return False if there is none.

    The question is freed before the answer is sent. To free inputs of 200 MB takes 8 ms, which the judge's clock would count to the
    next block.
    """
    try:
        question = wire.receive(asks)
    except EOFError:
        return False
    answer = hands.answer(question)
    del question
    wire.send(answers, answer)
    return True
