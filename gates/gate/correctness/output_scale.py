"""Job "magnitude": how large a problem's outputs and error bounds are, for limits in absolute numbers.

The problem is foreign code, so it runs in a runner process.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gates.core.errors import GatesError
from gates.worker import machine_fault
from gates.worker.job import ResultWriter, run_job

_SHARE = 0.2  # of the time limit: what one shape may take by estimate
_BEGIN = 0.5  # of the time limit: later no more shapes are begun
_TELLING = 0.1  # of the time limit: later no sizes are tried in place of those whose answer is constant
_REORDERED = 2.0**-30  # of an output's largest value: what a sum in float64 that threads add up in another order may differ by


def bounds(
    folder: Path,
    problem: str,
    *,
    work: Path,
    limit_s: float,
    offers: Mapping[str, Sequence[Mapping[str, int]]] | None = None,
    python: str = sys.executable,
) -> dict[str, Any]:
    """{"shapes", "needs", "untried", "largest", "mean", "honest", "format", "rule_over_bound"} of a problem that has ``honest``.

    ``offers``: by name, sizes for more shapes, of which the first that the problem runs with is taken, if possible one whose answer is not
    constant. ``shapes``: name to dimensions,
    the offered ones first; ``needs``: what a case of a shape takes (``gates.task.needs``), where it is not small;
    ``untried``: shapes that are too large for this machine or had no time left, with the reason;
    ``largest``, ``mean``: of the error bounds; ``honest``: the largest honest error, in an output of
    ``format``; ``rule_over_bound``: how many times as wide as the bound the format's own rule is.

    Runs the reference twice on each of its shapes with seed 0. Raises GatesError where that fails, with what it said
    last, and where the two differ by more than rounding in float64.
    """
    job = {"kind": "magnitude", "problem": problem, "folder": str(folder), "offers": dict(offers or {}), "limit_s": limit_s}
    tried = run_job(folder, job, work, limit_s=limit_s, name="magnitude", python=python)
    if (refusal := tried.refusal()) is not None:
        raise refusal
    given = [line for line in tried.own() if line.get("type") == "given"]
    found = [line for line in tried.own() if line.get("type") == "figures"]
    if given and found and (tried.timed_out or tried.returncode == 0):
        left_out = [line for line in tried.own() if line.get("type") == "untried"]
        return _together(given[0], found, left_out, tried.timed_out, limit_s)
    raise GatesError(
        f"the reference could not be run ({tried.cause}): {tried.last_words()}",
        hint="the problem must run on the CPU within the time limit (--limit-s)",
    )


def of_reference(
    folder: Path, problem: str, shape: str, *, work: Path, limit_s: float, arguments: Sequence[str] = (), python: str = sys.executable
) -> dict[str, Any]:
    """{"largest", "mean", "dtypes", "rounding", "arguments"} of a problem, its reference run on one shape with seed 0.

    ``largest`` and ``mean`` are of the absolute outputs: the errors of an output of zeros. ``dtypes``: output to type, as
    "float64"; ``rounding``: [output, its type as made for the kernel, the largest error of the exact result rounded to it]; ``arguments``:
    those of a C launcher, by name ("float32 tensor", "float32 tensor, output", "int" or "float"): the problem's own, or those that are
    given; ``dims``: whether the problem declares DIMS; ``sizes``: the shape's.
    """
    job = {"kind": "magnitude", "problem": problem, "folder": str(folder), "shape": shape, "arguments": list(arguments)}
    tried = run_job(folder, job, work, limit_s=limit_s, name="magnitude", python=python)
    if (refusal := tried.refusal()) is not None:
        raise refusal
    for line in tried.own():
        if line.get("type") == "outputs":
            return {key: line[key] for key in ("largest", "mean", "dtypes", "rounding", "arguments", "dims", "sizes")}
    raise GatesError(f"the reference could not be run on shape {shape} ({tried.cause}): {tried.last_words()}")


def execute(job: Mapping[str, Any], folder: Path) -> None:
    """Write a ``figures`` line for each shape of the problem of ``job``; an ``outputs`` line where the job names one shape."""
    from gates.task import needs
    from gates.task import problem as problems
    from gates.task.reals import all_reals

    with ResultWriter(job) as writer:
        problem = problems.load(job["problem"], Path(job["folder"]))
        if "shape" in job:
            shape = problem.SHAPES[job["shape"]]
            inputs = problem.make_inputs(shape, 0, "cpu")
            exact = problem.reference(inputs, shape)
            sizes = [value.double().abs() for value in all_reals(exact).values() if value.numel()]
            writer.write(
                "outputs",
                largest=max(float(one.max()) for one in sizes),
                mean=max(float(one.mean()) for one in sizes),
                dtypes={name: str(value.dtype).removeprefix("torch.") for name, value in all_reals(exact).items()},
                dims=hasattr(problem, "DIMS"),
                sizes=dict(shape),
                rounding=_rounding(problem, shape, exact),
                arguments=_arguments(problem, inputs, shape, job["arguments"]),
            )
            return
        began, limit_s = time.monotonic(), job["limit_s"]
        given = {name: dict(shape) for name, shape in problem.SHAPES.items()}
        untried = {name: told for name, shape in given.items() if (told := needs.refusal(problem, shape, limit_s * _SHARE, small=True))}
        writer.write("given", shapes=given, untried=untried, needs=_needs(problem, given))
        found = []
        for name, candidates in job["offers"].items():
            constant = False
            for shape in candidates:
                late = constant and time.monotonic() - began > limit_s * _TELLING
                if late or needs.refusal(problem, shape, limit_s * _SHARE, small=True):
                    continue
                with contextlib.suppress(Exception):  # the problem is made for other sizes
                    figures = _figures(problem, name, shape)
                    if figures["tells"] or not constant:
                        found.append(figures)
                        writer.write("figures", shape=name, sizes=shape, needs=_needs(problem, {name: shape}), **figures)
                    if figures["tells"]:
                        break
                    constant = True
        for name in _by_size({name: shape for name, shape in given.items() if name not in untried}):
            if not found or time.monotonic() - began < limit_s * _BEGIN:
                try:
                    found.append(_figures(problem, name, given[name]))
                except (RuntimeError, MemoryError) as error:
                    if isinstance(error, RuntimeError) and machine_fault.fault_in(str(error)) is None:
                        raise
                    free = needs.free_bytes()
                    untried[name] = f"needs more memory than the {free / 2**30:.3g} GiB that are free"
                    writer.write("untried", shape=name, reason=untried[name], needs={name: [free + 1, 0]})
                else:
                    writer.write("figures", shape=name, **found[-1])
        if not found:
            raise GatesError(
                "; ".join(f"shape {name} {told}" for name, told in untried.items()),
                hint="make the problem's own sizes smaller",
            )


def _together(
    given: Mapping[str, Any], found: Sequence[Mapping[str, Any]], left_out: Sequence[Mapping[str, Any]], timed_out: bool, limit_s: float
) -> dict[str, Any]:
    """What ``bounds`` gives, of the lines of a job that ended or ran out of time: then its last shape takes all of that time."""
    untried = given["untried"] | {line["shape"]: line["reason"] for line in left_out}
    offered = {one["shape"]: one["sizes"] for one in found if "sizes" in one}
    tried = {one["shape"] for one in found}
    left = [name for name in _by_size(given["shapes"]) if name not in untried and name not in tried]
    taken = {left[0]: [0, limit_s * len(os.sched_getaffinity(0))]} if timed_out and left else {}
    worst = max(found, key=lambda one: one["honest"])
    return {
        "shapes": offered | given["shapes"],
        "needs": {name: own for one in (*found, given, *left_out) for name, own in one.get("needs", {}).items()} | taken,
        "untried": untried | dict.fromkeys(left, f"did not end within the {limit_s:g} s of --limit-s"),
        "largest": max(one["largest"] for one in found),
        "mean": max(one["mean"] for one in found),
        "honest": worst["honest"],
        "format": worst["format"],
        "rule_over_bound": max((one["rule_over_bound"] for one in found if one["rule_over_bound"] is not None), default=None),
    }


def _needs(problem: Any, shapes: Mapping[str, Any]) -> dict[str, Any]:
    from gates.task import needs

    return {name: taken for name, shape in shapes.items() if (taken := needs.known(problem, shape, small=True))}


def _by_size(shapes: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return the names, small shapes first."""
    return sorted(shapes, key=lambda name: math.prod(abs(size) for size in shapes[name].values() if isinstance(size, int)))


def _figures(problem: Any, name: str, shape: Mapping[str, int]) -> dict[str, Any]:
    """The bounds and honest errors on one shape with seed 0. Raises GatesError for a reference that gives nothing to compare with."""
    import torch

    from gates.gate.correctness.runner.accuracy import figures

    inputs = problem.make_inputs(shape, 0, "cpu")
    exact = problem.reference(inputs, shape)
    again = problem.reference(dict(inputs), shape)  # another object, so that no answer is one that was kept
    for output, value in exact.items():
        if not value.numel() or not bool(torch.isfinite(value).all()):
            raise GatesError(f"the reference's output {output!r} on shape {name!r} is empty or not finite")
        if bool(((value - again[output]).abs() > _REORDERED * value.abs().max()).any()):
            raise GatesError(
                f"the reference's output {output!r} on shape {name!r} differs from call to call on the same inputs",
                hint="a reference that draws random numbers has nothing to compare with: make them inputs",
            )
    own, errors = problem.honest(inputs, shape), problem.honest_error(inputs, shape)
    allowed, rules = problem.error_bound(inputs, shape), problem.rule(inputs, shape) if hasattr(problem, "rule") else {}
    told = [
        figures(output, own[output], value, None, allowed[output], honest=errors[output], rule=rules.get(output))
        for output, value in exact.items()
    ]
    worst = max(told, key=lambda one: one["honest_err"])
    nulls = {output: value.mean() if value.numel() > 1 else 0.0 for output, value in exact.items()}
    return {
        "tells": any(bool(((value - nulls[output]).abs() > allowed[output]).any()) for output, value in exact.items()),
        "largest": max(float(value.max()) for value in allowed.values()),
        "mean": max(float(value.mean()) for value in allowed.values()),
        "honest": worst["honest_err"],
        "format": worst["dtype"],
        "rule_over_bound": max((one["rule_over_bound"] for one in told if one["rule_over_bound"] is not None), default=None),
    }


def _rounding(problem: Any, shape: Mapping[str, int], exact: Mapping[str, Any]) -> list[list[Any]]:
    """What rounding to the outputs' own formats costs, for outputs that the problem makes."""
    from gates.gate.correctness.runner.accuracy import figures
    from gates.task.problem import outputs_of

    made = {name: value for name, value in outputs_of(problem, shape).items() if name in exact and exact[name].shape == value.shape}
    best = {name: figures(name, value, exact[name].nan_to_num(nan=0.0), None)["best"]["max_abs_err"] for name, value in made.items()}
    return [[name, str(made[name].dtype).removeprefix("torch."), cost] for name, cost in best.items() if cost is not None]


def _arguments(problem: Any, inputs: Mapping[str, Any], shape: Mapping[str, int], names: Sequence[str]) -> dict[str, str]:
    """What a C launcher of the problem is given, by name."""
    import torch

    from gates.task import problem as problems

    if not (names := names or getattr(problem, "ARGUMENTS", ())):
        return {}
    outputs = problems.outputs_of(problem, shape)
    given = dict(zip(names, problems.call_arguments(problem, inputs, outputs, shape, names), strict=True))
    return {
        name: f"{str(one.dtype).removeprefix('torch.')} tensor{', output' if name in outputs else ''}"
        if isinstance(one, torch.Tensor)
        else type(one).__name__
        for name, one in given.items()
    }
