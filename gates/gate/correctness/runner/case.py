"""One case of the correctness gate: a shape and a seed, launched several times and compared with the reference.

The reference is computed after the last launch, so no launch can find it in freed memory.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from gates.core.errors import NotHere
from gates.gate.correctness.fresh_shapes import cost, is_inferred
from gates.gate.correctness.runner import accuracy, default_stream
from gates.gate.correctness.runner.diagnose import with_maps
from gates.gate.correctness.runner.roughness import Roughness
from gates.gate.correctness.runner.threads import one_thread
from gates.gate.correctness.runner.yardstick import Yardstick
from gates.launch import guarded_buffers
from gates.launch.isolated_launch import DeviceLost
from gates.launch.side import Launched, Side
from gates.task import needs, small_inputs
from gates.task.problem import DEFAULT_INPUTS, NON_FINITE, OutputError, ProblemError, widened
from gates.task.reals import reals
from gates.task.sources.default_stream import CURRENT
from gates.task.tensor_digest import digest
from gates.task.values import SMALL, inputs_of, is_structured
from gates.worker.job import ResultNotWritten
from gates.worker.problem_check import fault, null_fault

_WIDENED = ("max_abs_err", "mean_abs_err", "bad_atol")
_ONE_THREAD = 1e9  # cost of a launch, as ``cost`` has it, that one thread checks in about a second
_MEMORY = ("not enough memory", "can't allocate memory", "out of memory")


def check(
    side: Side,
    case: Mapping[str, Any],
    atols: Mapping[str, float | None],
    phase: Callable[[str], None],
    limits: Mapping[str, Any] | None = None,
    yardstick: Yardstick | None = None,
    most_s: float = math.inf,
) -> dict[str, Any]:
    """The result record of ``case``; never raises for what the kernel or the problem does.

    Raises ResultNotWritten, which ``phase`` raised, and NotHere: both are about this machine.

    The record holds ``lost: True`` where the CUDA context broke and the process must end.

    ``case``: {"shape", "seed", "inputs", "orders": names of thread orders, one a launch, "probe": bool, "plain": bool}. ``atols``:
    {"reference": bad_atol, "end_to_end": bad_atol}. ``phase`` is told what begins, for the record of a crash.
    ``limits``: those on errors in task.yaml; outputs that break one get an error map. ``yardstick``: what scales them for inputs
    that the engine made (by itself if left out). ``most_s``: the time that a case may take by estimate.
    """
    if told := needs.refusal(side.problem, side.problem.SHAPES[case["shape"]], most_s):
        return {"status": "too_large", "message": told, "wall_s": 0.0}
    started, phases = time.monotonic(), ["inputs"]
    made: dict[str, Any] = {}  # what of the record is known when the problem fails

    def begin(name: str) -> None:
        phases.append(name)
        phase(name)

    try:
        with one_thread() if cost(side.problem, side.problem.SHAPES[case["shape"]]) <= _ONE_THREAD else contextlib.nullcontext():
            record = _check(side, case, atols, begin, limits or {}, yardstick or Yardstick(side.problem), made)
    except (ResultNotWritten, NotHere):
        raise
    except DeviceLost as error:
        record = {"status": "crash", "message": str(error), "lost": True}
    except OutputError as error:
        record = {"status": "bad_output", "message": str(error)}
    except ProblemError as error:
        record = {"status": "problem_error", "message": str(error)}
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(words in str(error).lower() for words in _MEMORY):
            record = {"status": "problem_error", "message": _one_line(error)}
        else:
            record = {"status": "no_memory", "message": _needed(error, phases[-1])}
    except Exception as error:  # the problem module is the user's code: whatever it raises is a result
        record = {"status": "problem_error", "message": _one_line(error)}
    if record["status"] == "problem_error" and _by_the_engine(side.problem, case):
        record = {**made, "status": "undefined", "message": f"the problem has no answer to these inputs: {record['message']}"}
    return {**record, "wall_s": round(time.monotonic() - started, 3)}


def _by_the_engine(problem: Any, case: Mapping[str, Any]) -> bool:
    """Whether the case's shape or values are the engine's own idea, of which the problem may know nothing."""
    return is_inferred(problem, case["shape"]) or is_structured(problem, case.get("inputs", DEFAULT_INPUTS))


def _check(
    side: Side,
    case: Mapping[str, Any],
    atols: Mapping[str, float | None],
    phase: Callable[[str], None],
    limits: Mapping[str, Any],
    yardstick: Yardstick,
    record: dict[str, Any],
) -> dict[str, Any]:
    phase("inputs")
    problem, seed, family = side.problem, case["seed"], case.get("inputs", DEFAULT_INPUTS)
    shape = problem.SHAPES[case["shape"]]
    inputs = inputs_of(problem, family, shape, seed, "cpu")
    record.update(status="ok", message="", inputs_sha256=digest(inputs))
    phase("kernel")
    calls: list[Launched] = []
    for variant, order in enumerate(case["orders"]):
        calls.append(side.call(inputs, shape, variant=variant % 3, order=order, seed=seed))
        if calls[-1].error:
            break
    if side.function and not calls[-1].error:
        _require_alike(calls)
    record.update(_traces(calls, case["orders"]))
    if record["differences"] and side.on_emulator:
        record["first_difference"] = _why_different(side, inputs, shape, seed, calls, case["orders"]) + record["first_difference"]
    if calls[-1].error:
        if _by_the_engine(problem, case) and not record["findings"] and _answer(problem, inputs, shape) is None:
            return {**record, "status": "undefined", "message": "the problem has no answer to these inputs, and the kernel declines them"}
        declined = is_inferred(problem, case["shape"]) and not record["findings"]
        return {**record, "status": "declined" if declined else "launch_error", "message": calls[-1].error}
    first = calls[0].outputs
    record["output_sha256"] = digest(first)
    record["unwritten"] = {
        name: guarded_buffers.untouched([call.outputs[name] for call in calls], [call.poisons[name] for call in calls])
        if len(calls) > 1 and name in calls[0].poisons
        else 0
        for name in first
    }
    phase("reference")
    with Roughness() if case.get("probe") else contextlib.nullcontext() as rough:
        reference = problem.reference(inputs, shape)
    record["rough_reference"] = rough.seen if rough else ""
    _require_fitting(side, shape, calls[0], reference)
    record["reference_sha256"] = digest(reference)
    allowed: dict[str, Any] = {}
    if case.get("role") == "fresh":
        room, missing = yardstick.judge(
            inputs, shape, reference, first, bounded="max_err_over_bound" in limits, non_finite=family.partition(":")[0] in NON_FINITE
        )
        if family == SMALL and (found := small_inputs.find(problem, shape, seed)) is not None:
            share, floor = found.room
            room = share, max(floor, small_inputs.lost(first.values()))
        (record["limit_scale"], record["limit_floor"]), record["undefined"] = (
            room,
            {name: int(mask.sum()) for name, mask in missing.items()},
        )
        if len(missing) == len(reference) and all(bool(mask.all()) for mask in missing.values()):
            return {**record, "status": "undefined", "message": "the reference has no finite answer to these inputs"}
        limits = {key: widened(value, *room) if key in _WIDENED else value for key, value in limits.items()}
        atols = {"reference": None if (atol := atols.get("reference")) is None else widened(atol, *room)}
        allowed = {"missing": missing, "nan": family.partition(":")[0] in NON_FINITE, "flushed": is_structured(problem, family)}
    outputs = _figures(problem, inputs, shape, first, reference, atols.get("reference"), plain=bool(case.get("plain")), **allowed)
    if hasattr(problem, "check") and not record.get("undefined"):
        record["check"] = _objection(problem, first, reference)
    record["outputs"] = with_maps(problem, inputs, shape, case, calls, reference, outputs, limits)
    if side.stream == CURRENT and not side.emulated and _looks_early(record):
        phase("kernel")
        record["default_stream"] = default_stream.on_default_stream(
            side,
            inputs,
            shape,
            seed,
            calls[1:],
            lambda got: _figures(problem, inputs, shape, got, reference, atols.get("reference"), plain=bool(case.get("plain")), **allowed),
        )
    if hasattr(problem, "end_to_end") and case.get("role") == "headline":  # judged there alone
        whole = problem.end_to_end(inputs, shape)
        record["end_to_end"] = [accuracy.figures(name, first[name], whole[name].cpu(), atols.get("end_to_end")) for name in whole]
    if case.get("probe"):
        record["silent_inputs"] = accuracy.silent_inputs(problem, inputs, shape, seed, reference)
        record.update(_nudged(side, inputs, shape, seed, atols.get("reference"), phase))
    return record


def _looks_early(record: Mapping[str, Any]) -> bool:
    """Whether the outputs are wrong in a way that a kernel on another stream than the one it was given makes them."""
    wrong = any(output["error_map"] is not None or output["nonfinite"] for output in record["outputs"])
    return bool(wrong or record["differences"] or sum(record["unwritten"].values()))


def _require_alike(calls: list[Launched]) -> None:
    """Raise OutputError where calls on equal inputs gave outputs of other names, shapes or dtypes."""
    kinds = [{name: (value.shape, value.dtype) for name, value in call.outputs.items()} for call in calls]
    if index := next((i for i, kind in enumerate(kinds) if kind != kinds[0]), 0):
        raise OutputError(f"the kernel gave outputs of other names, shapes or dtypes in call {index + 1} than in call 1")


def _require_fitting(side: Side, shape: Mapping[str, int], call: Launched, reference: Mapping[str, Any]) -> None:
    """Raise for outputs that are not the reference's: OutputError where a function returned them so, else ProblemError."""
    problem, names, wanted = side.problem, call.outputs.keys(), reference.keys()
    make_outputs: Any = getattr(problem, "make_outputs", None)
    declared = {*make_outputs(shape, "cpu"), *getattr(problem, "IN_PLACE", ())} if make_outputs else wanted
    if side.function and declared == wanted:
        if names != wanted:
            raise OutputError(
                f"the kernel gave {', '.join(sorted(names)) or 'no outputs'}; the reference gives {', '.join(sorted(wanted))}"
            )
        for name in names - call.poisons.keys():
            got, want = call.outputs[name], reference[name]
            if got.shape != want.shape:
                raise OutputError(f"the kernel returned shape {list(got.shape)} for {name}; the reference has {list(want.shape)}")
            if got.is_complex() != want.is_complex():
                raise OutputError(f"the kernel returned {got.dtype} for {name}; the reference has {want.dtype}")
    elif odd := names ^ wanted:
        raise ProblemError(f"the reference and the kernel's outputs disagree about {', '.join(sorted(odd))}")


def _objection(problem: Any, outputs: Mapping[str, Any], reference: Mapping[str, Any]) -> str:
    """What the problem's own check says against the outputs; empty where they will do.

    A check that raises objects, unless it raises for the right outputs too: an index out of range is the kernel's.
    """
    try:
        answer = problem.check(outputs, reference)
    except Exception as error:  # the problem module is the user's code
        problem.check({name: value.to(outputs[name].dtype) for name, value in reference.items()}, reference)
        return f"the problem's check raised {_one_line(error)}"
    if answer is None or answer is True or answer == "":
        return ""
    return str(answer)[:300] if isinstance(answer, str) else "the problem's check refuses the outputs"


def _nudged(
    side: Side, inputs: Mapping[str, Any], shape: Mapping[str, int], seed: int, bad_atol: float | None, phase: Callable[[str], None]
) -> dict[str, Any]:
    """Errors of one more launch on inputs of which a few elements were exchanged.

    An answer that was kept from the launches before, under a key made of a few samples of the
    inputs, does not belong to these inputs.
    """
    changed = accuracy.nudge(inputs, side.arguments, seed)
    phase("kernel")
    call = side.call(changed, shape, variant=1, order="forward", seed=seed + 1)
    phase("reference")
    if (reference := _answer(side.problem, changed, shape)) is None:
        return {}  # the exchange has left the problem's contract, and says nothing of the kernel
    if call.error:
        return {"status": "launch_error", "message": call.error, "outputs": []}
    try:
        return {"nudged": _figures(side.problem, changed, shape, call.outputs, reference, bad_atol)}
    except ArithmeticError:
        return {}  # the problem's own precision has no answer to the exchanged elements


def _answer(problem: Any, inputs: Mapping[str, Any], shape: Mapping[str, int]) -> dict[str, Any] | None:
    """The reference on values that the engine made; None if the problem refuses them, or has NaN for an answer."""
    try:
        found: dict[str, Any] = problem.reference(inputs, shape)
    except Exception:  # the problem module is the user's code
        return None
    return None if any(bool(torch.isnan(value).any()) for value in found.values()) else found


def _figures(
    problem: Any,
    inputs: Mapping[str, Any],
    shape: Mapping[str, int],
    outputs: Mapping[str, Any],
    reference: Mapping[str, Any],
    bad_atol: float | None,
    *,
    plain: bool = False,
    missing: Mapping[str, Any] | None = None,
    **allowed: bool,
) -> list[dict[str, Any]]:
    """Each output's errors, with the problem's error bound and null answers where it has them; ``plain``: without.

    ``missing`` and ``allowed``: see ``accuracy.figures``.
    """
    bounds = problem.error_bound(inputs, shape) if hasattr(problem, "error_bound") and not plain else {}
    nulls = problem.null_outputs(inputs, shape) if hasattr(problem, "null_outputs") and not plain else {}
    honest = problem.honest_error(inputs, shape) if hasattr(problem, "honest") and not plain else {}
    rules = problem.rule(inputs, shape) if hasattr(problem, "rule") and not plain else {}
    if text := fault("error_bound", bounds, reference) or null_fault(nulls, reference):
        raise ProblemError(text)
    return [
        accuracy.figures(
            name,
            got,
            reference[name],
            bad_atol,
            bounds.get(name),
            {kind: answer[name] for kind, answer in nulls.items() if name in answer},
            honest=honest.get(name),
            rule=rules.get(name),
            missing=(missing or {}).get(name),
            **allowed,
        )
        for name, got in outputs.items()
    ]


def _traces(calls: list[Launched], orders: list[str]) -> dict[str, Any]:
    """Misbehaviour over all calls: each guard, input or finding once, and the first difference between calls."""
    differences, first = 0, ""
    for index, call in enumerate(calls[1:], start=1):
        for name, value in call.outputs.items():
            changed = guarded_buffers.differing(value, calls[0].outputs[name])
            if changed.numel() and not call.error:
                first = first or _told(name, int(changed[0]), calls, index, orders)
                differences = max(differences, changed.numel())
    return {
        "orders": list(orders[: len(calls)]),
        "guards": _once(guard for call in calls for guard in call.guards),
        "mutated": _once(name for call in calls for name in call.mutated),
        "differences": differences,
        "first_difference": first,
        "launches": _once(launch for call in calls for launch in call.launches),
        "launch_count": sum(len(call.launches) for call in calls) if all(call.launches for call in calls) else 0,  # each call must launch
        "findings": _once(finding for call in calls for finding in call.findings),
    }


def _told(name: str, place: int, calls: list[Launched], index: int, orders: list[str]) -> str:
    """The first element that differs between the first call and the one at ``index``, with the kernels that ran."""
    was, now = (float(reals(call.outputs[name]).reshape(-1)[place].to(torch.float64)) for call in (calls[0], calls[index]))
    kernels = ", ".join(dict.fromkeys(launch["kernel"] for launch in calls[index].launches))
    return f"{name}[{place}] is {was:.9g} in call 1 ({orders[0]}), {now:.9g} in call {index + 1} ({orders[index]})" + (
        f", kernel {kernels}" if kernels else ""
    )


def _why_different(
    side: Side, inputs: Mapping[str, Any], shape: Mapping[str, int], seed: int, calls: list[Launched], orders: list[str]
) -> str:
    """Which of the two things that a call changes on the emulator made a difference: the order of threads and copies, or
    what memory holds before it is written. One more launch tells: the later call's order, the first call's memory."""
    index = next(i for i, call in enumerate(calls) if _differs(call, calls[0]))
    again = side.call(inputs, shape, variant=0, order=orders[index], seed=seed, memory=orders[0])
    if again.error:
        return ""
    if _differs(again, calls[0]):
        return "race: the order of threads or of asynchronous copies decides: " if orders[index] != orders[0] else ""
    return "race or uninitialised memory: something is read before it is written, a missing barrier maybe: "


def _differs(call: Launched, first: Launched) -> bool:
    return any(guarded_buffers.differing(value, first.outputs[name]).numel() for name, value in call.outputs.items())


def _once(items: Any) -> list[Any]:
    seen: list[Any] = []
    for item in items:
        if item not in seen:
            seen.append(item)
    return seen


def _needed(error: BaseException, phase: str) -> str:
    """Which step lacks memory, and how much it asked for where the error tells."""
    what = {"inputs": "inputs", "kernel": "buffers"}.get(phase, phase)
    asked = re.search(r"allocate (\d+) bytes", str(error))
    detail = f"needs {int(asked.group(1)) / 2**30:.4g} GiB" if asked else _one_line(error)
    return f"not enough memory for the {what}: {detail}"


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
