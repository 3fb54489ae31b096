"""Call a kernel from the judge's process: make the buffers, let the kernel's process launch, and check the returned bytes.

Guards and poison are drawn here per run and checked here on whole buffers. The kernel's process (``gates.launch.answering``) gets neither
a case's seed nor the reference. The returned bytes are right or wrong, whatever that process does to itself. Its emulator's
launches and findings come from that process, so they show only honest mistakes.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import select
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from gates.core.errors import NOT_HERE, WITHOUT_DEVICE, GatesError, NotHere
from gates.launch import answering, guarded_buffers
from gates.launch.entry_point import is_c, on_emulator
from gates.launch.isolated_launch import DeviceLost
from gates.task import problem as problems
from gates.task.problem import OutputError, ProblemError
from gates.task.sources.default_stream import CURRENT
from gates.worker import isolated, wire
from gates.worker.process import Finished

_SEEDS_OF_THE_EMULATOR = 251  # so few that the one which a kernel's process sees tells nothing of the case's own
_MOST_RETURNED_BYTES = 2**32  # what a function returns beside the buffers that it was given


@dataclass
class Launched:
    """Result of one call: CPU copies of the outputs, and every sign of an error. ``poisons``: the poison of the given outputs.

    ``ahead``: the launcher had returned before its stream went on, so that a launch on another stream came before the inputs.
    """

    outputs: dict[str, Any]
    poisons: dict[str, Any]
    error: str = ""
    guards: list[str] = field(default_factory=list)
    mutated: list[str] = field(default_factory=list)
    launches: list[dict[str, Any]] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    ahead: bool = True


class Side:
    """Call a kernel that runs in the process ``child``; its problem is loaded here.

    Raises GatesError if the process reports that the kernel can't be loaded.
    """

    def __init__(self, job: Mapping[str, Any], child: isolated.Child) -> None:
        side = job["side"]
        self.emulated, self.function, self._child = bool(side["emulated"]), not is_c(side), child  # function: may return its outputs
        self.on_emulator = on_emulator(side)
        self.stream = str(side.get("stream", CURRENT))
        self._secret, self._room = secrets.randbits(48), 0
        if not job.get("confines"):
            self._ask(answering.first_question(job))
        self._ask({"side": dict(side)})
        self.held: dict[str, str] = self._answer()["held"]
        self.problem = problems.load(side["problem"], Path(side["folder"]))
        self.arguments = tuple(side.get("arguments") or self.problem.ARGUMENTS)
        self._lost: DeviceLost | None = None
        try:
            self._answer()  # that the kernel is loaded
        except DeviceLost as error:
            self._lost = error  # told by the first call, so that it is that case's crash

    def call(
        self,
        inputs: Mapping[str, Any],
        shape: Mapping[str, int],
        *,
        variant: int,
        order: str,
        seed: int,
        memory: str | None = None,
        stream: str | None = None,
    ) -> Launched:
        """Launch once on the CPU ``inputs``. ``variant`` selects the poison; ``seed`` and a secret of this run all random bytes.

        ``memory``: the order whose pattern fills the emulator's unwritten memory, if it is not ``order``.
        ``stream``: "current" (a stream of the call) or "default", if it is not the task's.

        Raises ProblemError for inputs that can't be passed to a kernel, OutputError if a function returns no outputs to judge,
        DeviceLost after a CUDA error, and if the kernel's process ended or sent a malformed answer.
        """
        if self._lost is not None:
            raise self._lost
        wanted = {name: value for name, value in inputs.items() if name in self.arguments}
        tensors = {name: value for name, value in wanted.items() if isinstance(value, torch.Tensor)}
        for name, value in tensors.items():
            if not self.function and not value.is_contiguous():
                raise ProblemError(f"input {name!r} is not contiguous; a launcher receives no strides")
        made = problems.outputs_of(self.problem, shape)
        given = {name: value for name, value in made.items() if name in self.arguments} if self.function else made
        if not self.function and not hasattr(self.problem, "make_outputs") and not getattr(self.problem, "IN_PLACE", ()):
            raise ProblemError(f"problem {self.problem.__name__} lacks make_outputs, which a C launcher needs")
        drawn = self._secret + seed
        poisons = {name: guarded_buffers.poison(value, drawn + i, variant) for i, (name, value) in enumerate(given.items())}
        rooms = {
            name: guarded_buffers.guarded(value, 1000 * drawn + 10 * i + variant)
            for i, (name, value) in enumerate({**tensors, **poisons}.items())
        }
        names = problems.outputs_in_order(self.problem, made) if self.function else list(made)
        self._ask(
            {
                **self._arguments(rooms, wanted, shape),
                "names": names,
                "given": list(given),
                "order": order,
                "memory": memory,
                "stream": stream or self.stream,
                "seed": seed % _SEEDS_OF_THE_EMULATOR,
            }
        )
        return self._looked_at(self._answer(), rooms, poisons, tensors, made)

    def launches(
        self, inputs: Mapping[str, Any], outputs: Mapping[str, Any], shape: Mapping[str, int], arch: str, limit_s: float
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return the launches of a C launcher on an emulated chip ``arch`` that runs no block, and whether launches were left out.

        Call it once, before any other call. Raises DeviceLost after ``limit_s``, and as ``call`` does.
        """
        if self._lost is not None:
            raise self._lost
        wanted = {name: value for name, value in inputs.items() if name in self.arguments}
        values = {**{name: value for name, value in wanted.items() if isinstance(value, torch.Tensor)}, **outputs}
        self._ask(
            {**self._arguments({name: guarded_buffers.guarded(value, 0) for name, value in values.items()}, wanted, shape), "arch": arch}
        )
        if not select.select([self._child.stdout], [], [], limit_s)[0]:
            raise DeviceLost(f"the launcher did not return within {limit_s:g} s")
        answer = self._answer()
        return _records(answer.get("launches")), bool(answer.get("left_out"))

    def _arguments(
        self, rooms: Mapping[str, guarded_buffers.Guarded], wanted: Mapping[str, Any], shape: Mapping[str, int]
    ) -> dict[str, Any]:
        """The part of a question that says what the kernel is called with."""
        self._room = 2 * sum(one.image.numel() for one in rooms.values())
        named: dict[str, Any] = {name: {"buffer": name} for name in rooms}
        numbers: dict[str, Any] = {name: {"value": value} for name, value in {**shape, **wanted}.items() if name not in rooms}
        return {
            "buffers": {
                name: {"image": one.image, **wire.described(one.dtype, one.shape), "strides": list(one.strides)}
                for name, one in rooms.items()
            },
            "arguments": list(problems.call_arguments(self.problem, {}, named, numbers, self.arguments)),
        }

    def _looked_at(
        self,
        answer: Mapping[str, Any],
        rooms: Mapping[str, guarded_buffers.Guarded],
        poisons: dict[str, Any],
        tensors: Mapping[str, Any],
        made: Mapping[str, Any],
    ) -> Launched:
        if missing := {"buffers", "returned", "error", "launches", "findings"} - answer.keys():
            raise DeviceLost(f"the kernel's process answered without {', '.join(sorted(missing))}")
        raws, returned = (_tensors(answer[field]) for field in ("buffers", "returned"))
        if {name: (raw.dtype, raw.numel()) for name, raw in raws.items()} != {
            name: (torch.uint8, one.image.numel()) for name, one in rooms.items()
        }:
            raise DeviceLost("the kernel's process returned other buffers than it was given")
        result = Launched({}, poisons, str(answer["error"]), launches=_records(answer["launches"]), findings=_records(answer["findings"]))
        result.ahead = answer.get("ahead") is not False
        in_place = [name for name in getattr(self.problem, "IN_PLACE", ()) if name in tensors]
        values = {name: room.values(raws[name]) for name, room in rooms.items()}
        result.guards = [f"{name}: {violation}" for name, room in rooms.items() if (violation := room.violation(raws[name]))]
        for name, value in tensors.items():
            changed = guarded_buffers.differing(values[name], value)
            if changed.numel() and name not in in_place:
                result.mutated.append(f"{name}: {changed.numel()} elements, first at {int(changed[0])}")
        result.outputs = {name: values[name].clone() for name in (*poisons, *in_place)}
        for name, output in returned.items():
            if name in made and output.dtype != made[name].dtype:
                raise OutputError(f"the kernel returned {output.dtype} for output {name!r}, make_outputs has {made[name].dtype}")
            try:
                output.to(torch.complex128 if output.is_complex() else torch.float64)
            except RuntimeError:
                raise OutputError(f"the kernel returned {output.dtype} for output {name!r}, which holds no numbers to compare") from None
            result.outputs[name] = output
        return result

    def _ask(self, question: Any) -> None:
        try:
            wire.send(self._child.stdin, question)
        except TypeError as error:
            raise ProblemError(str(error)) from None
        except OSError:
            raise self._died() from None

    def _answer(self) -> dict[str, Any]:
        """The other process's next answer; whatever it says went wrong is raised here."""
        try:
            answer = wire.receive(self._child.stdout, self._room + (_MOST_RETURNED_BYTES if self.function else 0))
            if not isinstance(answer, dict):
                raise wire.BadFrame(f"a {type(answer).__name__}")
        except EOFError:
            raise self._died() from None
        except wire.BadFrame as error:
            with contextlib.suppress(PermissionError):  # this process may signal no other; the engine ends both
                self._child.kill()
            raise DeviceLost(f"the kernel's process answered with {error}") from None
        failure, text = str(answer.get("failure", "")), str(answer.get("text", ""))
        hint = str(answer["hint"]) if answer.get("hint") else None
        if failure == "here" and (reason := answer.get("reason")) in NOT_HERE and (self.emulated or reason not in WITHOUT_DEVICE):
            raise NotHere(text, hint=hint, reason=str(reason))
        if failure == "gates":
            raise GatesError(text, hint=hint)
        if failure:
            raise {"outputs": OutputError, "memory": MemoryError}.get(failure, DeviceLost)(text)
        return answer

    def _died(self) -> DeviceLost:
        return DeviceLost(f"{Finished((), self._child.wait(), '', 0.0, timed_out=False).cause} while running the kernel")


@contextlib.contextmanager
def opened(job: Mapping[str, Any], child: isolated.Child | None = None) -> Iterator[Side]:
    """Yield the side of ``job`` ({"side", "device", "result"}), with its kernel in ``child``
    or a new process, which ends with the block.
    """
    child = child or isolated.start(answering.__name__)
    try:
        yield Side(job, child)
    finally:
        with contextlib.suppress(OSError):
            child.stdin.close()


def _tensors(value: Any) -> dict[str, Any]:
    wrong = (
        [type(one).__name__ for one in value.values() if not isinstance(one, torch.Tensor)]
        if isinstance(value, dict)
        else [type(value).__name__]
    )
    if wrong:
        raise DeviceLost(f"the kernel's process answered with {wrong[0]} for an output")
    return value


def _records(value: Any) -> list[dict[str, Any]]:
    """What the emulator in the kernel's process recorded, where it has the form of that."""
    try:
        if not isinstance(value, list) or not all(isinstance(one["kernel"], str) for one in value):
            raise TypeError
        json.dumps(value, allow_nan=False)
    except (KeyError, TypeError, ValueError):
        raise DeviceLost("the kernel's process returned malformed records") from None
    return list(value)
