"""Error maps for the outputs of a case that breaks a limit, or that differs between its own calls.

Which elements count as wrong: those beyond the limit that judges the case, or else those that differ
from one call to the next. A case that keeps its limits gets no map, and costs nothing here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from gates.gate.correctness.runner.accuracy import in_format
from gates.gate.correctness.runner.error_map import error_map
from gates.launch import guarded_buffers
from gates.launch.side import Launched
from gates.task.problem import COMPLEX_PART, DEFAULT_INPUTS, is_ordinary
from gates.task.reals import bound_of, reals

_BOUND = "max_err_over_bound"


def with_maps(
    problem: Any,
    inputs: Mapping[str, Any],
    shape: Mapping[str, int],
    case: Mapping[str, Any],
    calls: Sequence[Launched],
    reference: Mapping[str, Any],
    outputs: Sequence[dict[str, Any]],
    limits: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """``outputs`` (error figures, as ``accuracy.figures`` gives them), each with its ``error_map`` (None: nothing wrong).

    ``limits``: those of task.yaml on errors. ``case``: as planned; ``calls``: what its launches left.
    """
    own = limits
    if _BOUND in limits and not is_ordinary(case.get("role", ""), case.get("inputs", DEFAULT_INPUTS)):
        own = {_BOUND: limits[_BOUND]}
    found = []
    for output in outputs:
        name = output["name"]
        want = in_format(reals(reference[name]).to(torch.float64), reals(calls[0].outputs[name]))
        map_ = None
        for got, bad, limit in _suspects(problem, inputs, shape, case, calls, output, want, own):
            map_ = map_ or error_map(
                got,
                want,
                bad,
                limit=limit,
                axes=_axes(problem, name, reference[name]),
                roundoff=output["unit_roundoff"],
                others=_wrong_answers(problem, inputs, shape, name),
            )
        found.append({**output, "error_map": map_})
    return found


def _suspects(
    problem: Any,
    inputs: Mapping[str, Any],
    shape: Mapping[str, int],
    case: Mapping[str, Any],
    calls: Sequence[Launched],
    output: Mapping[str, Any],
    want: Any,
    limits: Mapping[str, Any],
) -> Iterator[tuple[Any, Any, str]]:
    """(output, mask of wrong elements, what the mask means), the most telling first."""
    name, got = output["name"], reals(calls[0].outputs[output["name"]])
    error = (got.to(torch.float64) - want).abs()
    error[got.to(torch.float64) == want] = 0.0
    if _broken(output, limits, ("max_abs_err", "mean_abs_err", "bad_pct")):
        for figure in ("bad_atol", "max_abs_err", "mean_abs_err"):
            if figure in limits:
                yield got, ~(error <= limits[figure]), f"error above {limits[figure]:g}"
    if _broken(output, limits, (_BOUND,)) and hasattr(problem, "error_bound"):
        bound = bound_of(problem.error_bound(inputs, shape)[name], calls[0].outputs[name]).to(torch.float64)
        yield got, ~(error <= limits[_BOUND] * bound), f"error above {limits[_BOUND]:g} x what rounding explains"
    if output["nonfinite"]:
        yield got, ~torch.isfinite(error), "not finite"
    for call, order in zip(calls[1:], case["orders"][1:], strict=False):
        places = guarded_buffers.differing(call.outputs[name], got)
        if places.numel():
            mask = torch.zeros(got.numel(), dtype=torch.bool)
            mask[places] = True
            yield reals(call.outputs[name]), mask.view(got.shape), f"differs between the calls {case['orders'][0]} and {order}"


def _axes(problem: Any, name: str, want: Any) -> tuple[str, ...]:
    """The names of the axes of the output ``name`` as its map sees them; none where the problem names none of a real output."""
    named = tuple(getattr(problem, "AXES", {}).get(name, ()))
    if not want.is_complex():
        return named
    return (*(named if len(named) == want.dim() else (f"axis {i}" for i in range(want.dim()))), COMPLEX_PART)


def _broken(output: Mapping[str, Any], limits: Mapping[str, Any], figures: Sequence[str]) -> bool:
    """Whether one of ``figures`` breaks its limit; an absent figure does, unless there was nothing to measure it with."""
    for figure in figures:
        value = output[figure]
        if figure in limits and (not (value <= limits[figure]) if value is not None else figure != _BOUND or output["nonfinite"] > 0):
            return True
    return False


def _answer(make: Callable[[], Any], name: str) -> Any:
    """The output ``name`` of a known mistake; None where making it fails."""
    try:
        return reals(make()[name])
    except (Exception, SystemExit):
        return None


def _real(answers: Mapping[str, Any], name: str) -> Any:
    return reals(answers[name])


def _wrong_answers(problem: Any, inputs: Mapping[str, Any], shape: Mapping[str, int], name: str) -> dict[str, Callable[[], Any]]:
    """What the problem offers to compare a wrong output with: its mistakes, made only when asked for, and its null answers."""
    found: dict[str, Callable[[], Any]] = {}
    with contextlib.suppress(Exception, SystemExit):  # they decide nothing, so a fault of theirs must hide nothing
        for text, make in problem.mistakes(inputs, shape).items() if hasattr(problem, "mistakes") else ():
            found[" ".join(str(text).split())] = partial(_answer, make, name)
    if hasattr(problem, "null_outputs"):
        for text, answers in problem.null_outputs(inputs, shape).items():
            if name in answers:
                found[text] = partial(_real, answers, name)
    return found
