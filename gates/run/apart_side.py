"""The judge's end of a Python function that runs in a process apart (``gates.run.apart``)."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from gates import problem as problems
from gates.errors import GatesError
from gates.run import wire
from gates.run.accuracy import OutputError, ProblemError
from gates.run.apart import first_question
from gates.run.callable import NeedsDevice
from gates.run.launch import DeviceLost, Launched, Side
from gates.run.process import Finished


class ApartSide:
    """A side whose function runs in a process apart; ``call`` is that of ``launch.Side``."""

    emulator, function = None, True

    def __init__(self, job: Mapping[str, Any], child: subprocess.Popen[bytes]) -> None:
        side, first = job["side"], first_question(job)
        self.emulated, self.device, self._child = bool(side["emulated"]), first["device"], child
        self._ask(first)
        self.held: dict[str, str] = self._answer()["held"]
        self.problem = problems.load(side["problem"], Path(side["folder"]))
        self.arguments = tuple(side.get("arguments") or self.problem.ARGUMENTS)
        self._lost: DeviceLost | None = None
        try:
            self._answer()  # that the function is loaded
        except DeviceLost as error:
            self._lost = error  # told by the first call, so that it is that case's crash

    def call(self, inputs: Mapping[str, Any], shape: Mapping[str, int], **how: Any) -> Launched:
        """Launch once; see ``launch.Side.call``. Raises DeviceLost where the other process ended or speaks no sense."""
        if self._lost is not None:
            raise self._lost
        wanted = {name: value for name, value in inputs.items() if name in self.arguments}
        self._ask({"inputs": wanted, "shape": dict(shape), "how": how})
        answer = self._answer()
        outputs, poisons = ({str(key): value for key, value in answer[field].items()} for field in ("outputs", "poisons"))
        if wrong := [type(value).__name__ for value in (*outputs.values(), *poisons.values()) if not isinstance(value, torch.Tensor)]:
            raise DeviceLost(f"the kernel's process answered with {wrong[0]} for an output")
        guards, mutated = ([str(one) for one in answer[field]] for field in ("guards", "mutated"))
        return Launched(outputs, poisons, str(answer["error"]), guards, mutated)

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
            answer = wire.receive(self._child.stdout)
            if not isinstance(answer, dict):
                raise wire.BadFrame(f"a {type(answer).__name__}")
        except EOFError:
            raise self._died() from None
        except wire.BadFrame as error:
            with contextlib.suppress(PermissionError):  # this process may signal no other; the engine ends both
                self._child.kill()
            raise DeviceLost(f"the kernel's process answered with {error}") from None
        failure, text = str(answer.get("failure", "")), str(answer.get("text", ""))
        if failure == "device" and self.emulated:
            raise NeedsDevice(text)
        if failure == "gates":
            raise GatesError(text, hint=str(answer["hint"]) if answer.get("hint") else None)
        if failure:
            raise {"problem": ProblemError, "outputs": OutputError, "memory": MemoryError}.get(failure, DeviceLost)(text)
        return answer

    def _died(self) -> DeviceLost:
        ended = Finished((), self._child.wait(), "", 0.0, timed_out=False)
        return DeviceLost(f"the kernel's process ended: {ended.cause}")


def open_side(job: Mapping[str, Any], child: subprocess.Popen[bytes] | None) -> Side | ApartSide:
    """The side of a correctness job: a C launcher is called here, a Python function in the process ``child``."""
    return Side(job["side"], job["device"]) if child is None else ApartSide(job, child)
