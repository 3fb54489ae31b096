"""Widen absolute limits by the error that an honest implementation has on given inputs, estimated by the problem's reference.

Absolute limits in task.yaml fit ordinary inputs of the task's shapes. If a drawn shape or structured values make the
answer harder in the format (a mean far from zero, sums that cancel), a limit L becomes

    L + 8 (r - 1) max(L, R),  r = reach on these inputs / R,  R = reach on ordinary inputs of the problem's first shape,

and stays L if r is below 1. The 8 grows with the length of a sum beyond 1024 terms, which a kernel may add up in one row.
Where all elements are alike, the mean reach grows and the largest does not: L becomes at least L times the ratio of the means.

The reach is, per element, the largest of three: the error of the reference in float32; its change if each float input is off by one
rounding of its format, twice, with random signs; and one rounding of the output's format.
A problem with an error bound needs none of this.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any

import torch

from gates.gate.correctness.runner.accuracy import ROUNDOFF
from gates.task.precision import SINGLE, InPrecision
from gates.task.reals import all_reals, reals

_FACTOR = 8.0  # another order of sums than the reference's
_TERMS = 1024
_PERTURBED = 2
NO_ROOM = (1.0, 0.0)


class Yardstick:
    """Scale the limits of a problem's cases; its figures on ordinary inputs are computed once, when needed."""

    def __init__(self, problem: Any) -> None:
        self._problem = problem
        self._ordinary: dict[str, tuple[float, float]] | None = None  # largest and mean reach of each output
        self._infinite = False

    def judge(
        self,
        inputs: Mapping[str, Any],
        shape: Mapping[str, int],
        reference: Mapping[str, Any],
        outputs: Mapping[str, Any],
        *,
        bounded: bool,
        non_finite: bool,
    ) -> tuple[tuple[float, float], dict[str, Any]]:
        """The room of the limits on ``inputs``, as ``gates.task.problem.widened`` takes it, and a mask for each output of the
        elements without an answer.

        ``reference``, ``outputs``: the exact result and a kernel's, for their formats. ``bounded``: the error bound judges, so that
        nothing is scaled. ``non_finite``: NaN and infinity are answers. Else NaN is none, and infinity only if the reference
        holds it on ordinary inputs too; nor is a number that the reference's own arithmetic loses in float32.
        """
        if non_finite:
            return NO_ROOM, {}
        reference, outputs = all_reals(reference), all_reals(outputs)
        odd = {name: ~torch.isfinite(value.to(torch.float64)) for name, value in reference.items()}
        if bounded and not any(bool(mask.any()) for mask in odd.values()):
            return NO_ROOM, {}
        home = next(iter(self._problem.SHAPES.values()))
        if self._ordinary is None:
            made = self._problem.make_inputs(home, 0, "cpu")
            exact = all_reals(self._problem.reference(made, home))
            self._infinite = any(bool(torch.isinf(value).any()) for value in exact.values())
            self._ordinary = {name: (_largest(found), _mean(found)) for name, (found, _) in self._reach(made, home, exact, outputs).items()}
        missing = {name: torch.isnan(value) if self._infinite else odd[name] for name, value in reference.items()}
        if bounded:
            return NO_ROOM, _any(missing)
        reached = self._reach(inputs, shape, reference, outputs)
        missing = {name: missing[name] | lost for name, (_, lost) in reached.items()}
        ordinary = {name: usual for name, usual in self._ordinary.items() if usual[0]}
        known = {name: found for name, (found, _) in reached.items() if name in ordinary}
        ratio, name = max(
            ((_largest(found) / ordinary[name][0], name) for name, found in known.items()), key=lambda one: one[0], default=(1.0, "")
        )
        alike = max((_mean(found) / ordinary[name][1] for name, found in known.items()), default=1.0)
        terms = max(map(_elements, inputs.values()), default=1) / max(1, min(map(_elements, reference.values()), default=1))
        scale = 1.0 + _FACTOR * max(1.0, terms / _TERMS) * (max(1.0, ratio) - 1.0)
        room = (scale, ordinary[name][0]) if scale > max(1.0, alike) else (alike, 0.0) if alike > 1.0 else NO_ROOM
        return room, _any(missing)

    def _reach(
        self, inputs: Mapping[str, Any], shape: Mapping[str, int], reference: Mapping[str, Any], outputs: Mapping[str, Any]
    ) -> dict[str, tuple[Any, Any]]:
        """For each output the reach of every element (float64), and the mask of those that are finite but not in float32."""
        others = [self._evaluated(_moved(inputs, number), shape) for number in range(_PERTURBED)]
        single = self._in_float32(inputs, shape)
        found = {}
        for name, want in reference.items():
            exact = want.to(torch.float64)
            finite = torch.isfinite(exact)
            rounding = ROUNDOFF.get(outputs[name].dtype, 2.0**-24) if name in outputs else 2.0**-24
            reach = exact.abs() * rounding
            for other in (single, *others):
                if name in other and other[name].shape == exact.shape:
                    away = (other[name].to(torch.float64) - exact).abs()
                    reach = torch.maximum(reach, torch.where(torch.isfinite(away), away, 0.0))
            known = name in single and single[name].shape == exact.shape
            lost = finite & ~torch.isfinite(single[name].to(torch.float64)) if known else torch.zeros_like(finite)
            found[name] = torch.where(finite, reach, 0.0), lost
        return found

    def _evaluated(self, inputs: Mapping[str, Any], shape: Mapping[str, int]) -> dict[str, Any]:
        """The reference on ``inputs``; empty where it does not take them."""
        with contextlib.suppress(Exception):
            return all_reals(self._problem.reference(inputs, shape))
        return {}

    def _in_float32(self, inputs: Mapping[str, Any], shape: Mapping[str, int]) -> dict[str, Any]:
        with InPrecision(SINGLE, refuse_writes=True):
            return self._evaluated(inputs, shape)


def _any(masks: Mapping[str, Any]) -> dict[str, Any]:
    return {name: mask for name, mask in masks.items() if bool(mask.any())}


def _elements(value: Any) -> int:
    return reals(value).numel() if isinstance(value, torch.Tensor) else 1


def _largest(reach: Any) -> float:
    largest = float(reach.max()) if reach.numel() else 0.0
    return largest if math.isfinite(largest) else 0.0


def _mean(reach: Any) -> float:
    mean = float(reach.mean()) if reach.numel() else 0.0
    return mean if math.isfinite(mean) else 0.0


def _moved(inputs: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The inputs in float64, each float element off by one rounding of its format."""
    generator = torch.Generator().manual_seed(number)
    moved = dict(inputs)
    for name, value in inputs.items():
        if isinstance(value, torch.Tensor) and (parts := reals(value)).dtype in ROUNDOFF:
            signs = 1.0 - 2.0 * torch.randint(0, 2, parts.shape, generator=generator)
            off = parts.to(torch.float64) * (1.0 + ROUNDOFF[parts.dtype] * signs)
            moved[name] = torch.view_as_complex(off) if value.is_complex() else off
    return moved
