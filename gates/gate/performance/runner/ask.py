"""Ask the process with the kernels (``gates.gate.performance.runner.hands``) from the judge's process, and check its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from gates.core.errors import EXIT_HOLD, GatesError
from gates.gate.performance import codes
from gates.gate.performance.runner import nvml
from gates.gate.performance.runner.protocol import Stopped
from gates.worker import isolated, wire
from gates.worker.job import ResultWriter
from gates.worker.process import Finished

MOST_BYTES = 2**31  # of one answer


class Ask(Protocol):
    """``ask("block", side="candidate", …)`` returns the other process's answer to ``Hands.do_block``."""

    def __call__(self, do: str, **data: Any) -> Any: ...


def connect(job: Mapping[str, Any], child: isolated.Child) -> Ask:
    """Return an ``Ask`` for ``child``, which confines itself first."""

    def ask(do: str, **data: Any) -> Any:
        return taken(_exchange(child, {"do": do, **data}))

    taken(_exchange(child, {"scratch": str(isolated.scratch(job, "timing"))}))
    return ask


def judge(job: Mapping[str, Any], measure: Callable[..., None]) -> None:
    """Call ``measure(job, writer, connect, before, pid)`` with the file of the job's results and ``job["child"]``, the process that holds
    the kernels.
    """
    before = nvml.processes_by_uuid()  # before the other process starts CUDA, to tell it from others
    child = job["child"]
    with ResultWriter(job) as writer:
        measure(job, writer, lambda: connect(job, child), before, child.pid)


def here(answer: Callable[[Mapping[str, Any]], Any]) -> Ask:
    """Return an ``Ask`` for a ``Hands`` in this process, if no kernel has to be distrusted."""
    return lambda do, **data: taken(answer({"do": do, **data}))


def taken(answer: Any) -> Any:
    """Return the content of an answer. Raises Stopped or GatesError if the answer reports a failure."""
    if not isinstance(answer, dict) or not {"is", "stopped", "refused"} & set(answer):
        raise _senseless("a malformed answer")
    if "stopped" in answer:
        raise Stopped(str(answer["stopped"]), str(answer.get("text", "")))
    if "refused" in answer:
        held = {"exit_code": EXIT_HOLD} if answer.get("held") is True else {}
        raise GatesError(str(answer["refused"]), hint=str(answer["hint"]) if answer.get("hint") else None, **held)
    return answer["is"]


def times(answer: Any, samples: int) -> list[float]:
    """Return the ``samples`` times of the answer to a block, us per launch. Raises Stopped for any other answer."""
    if not isinstance(answer, list) or len(answer) != samples or not all(isinstance(one, float) for one in answer):
        raise _senseless(f"a list that does not have {samples} times for {samples} samples")
    return answer


def rows(answer: Any, sets: int, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return outputs by name, each [sets, elements], with the sizes of ``wanted``, the exact outputs of one set.

    Raises Stopped for other sizes.
    """
    sizes = {name: [sets, one.numel()] for name, one in wanted.items()}
    found = {name: list(getattr(one, "shape", ())) for name, one in answer.items()} if isinstance(answer, dict) else {}
    if wrong := [name for name in sizes if found.get(name) != sizes[name] or answer[name].is_complex() != wanted[name].is_complex()]:
        raise _senseless(f"outputs {wrong[0]} of {found.get(wrong[0])} elements, the reference has {sizes[wrong[0]]}")
    return {name: answer[name] for name in sizes}


def _exchange(child: Any, question: Mapping[str, Any]) -> Any:
    try:
        wire.send(child.stdin, question)
        return wire.receive(child.stdout, MOST_BYTES)
    except (EOFError, OSError):
        ended = Finished((), child.wait(), "", 0.0, timed_out=False)
        raise Stopped(codes.RUNNER_DIED, f"the timing process gave no result ({ended.cause})") from None
    except wire.BadFrame as error:
        raise _senseless(str(error)) from None


def _senseless(what: str) -> Stopped:
    return Stopped(codes.RUNNER_DIED, f"the timing process answered with {what}")
