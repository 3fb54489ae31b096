"""Whether the outputs that timed launches left behind are right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from gates import problem as problems
from gates.run import timing_cuda
from gates.run.timing_cuda import Clockwork, Returned, Room, Sets, TimedSide


def check(
    when: str, side: TimedSide, sets: Sets, used: int, exact: Mapping[str, Any], baseline: TimedSide | None,
    clockwork: Clockwork, bad_atol: float | None,
) -> list[dict[str, Any]]:
    """Compare the first ``used`` sets' outputs of ``side`` and say how far off they are.

    The inputs of set 0 are held against ``exact``, the problem's reference on them. All other inputs are held
    against a fresh launch of the baseline, where there is one, else against the reference as well.
    Two kernels that are each within a limit may differ by twice the limit. A kernel that changes its inputs has
    changed them many times by now: an untimed launch on the inputs of set 0 stands for all.
    """
    rooms, step = sets.outputs[side.name], sets.slots()
    if sets.in_place:
        rooms, step, used = {name: Returned(value, {0: value}) for name, value in _fresh(side, sets, 0, clockwork).items()}, 1, 1
    starts = range(min(used, step))
    rest: dict[int, Mapping[str, Any]] = {}
    for start in starts[1:]:
        if baseline is not None:
            rest[start] = _fresh(baseline, sets, start, clockwork)
        else:
            rest[start] = sets.problem.reference(sets.host_inputs(start), sets.shape)
    against = "reference" if baseline is None else "baseline"
    result = [_compare(when, side.name, rooms, range(0, used, step), {0: exact}, "reference", 1.0, bad_atol)]
    # The baseline against itself shows only that it repeats, with no allowance for a second kernel.
    if rest:
        allowance = 2.0 if baseline is not None and baseline.name != side.name else 1.0
        result.append(_compare(when, side.name, rooms, range(0, used, step), rest, against, allowance, bad_atol))
    return result


def _fresh(side: TimedSide, sets: Sets, index: int, clockwork: Clockwork) -> dict[str, Any]:
    """Outputs of an untimed launch of ``side`` on the inputs of set ``index``, in buffers of their own."""
    rooms = {name: timing_cuda.rooms(room.like, 1, sets.device)[0] for name, room in sets.outputs[side.name].items() if isinstance(room, Room)}
    inputs = sets.device_inputs(index)
    for name, room in rooms.items():
        if name in sets.in_place:
            room.view(0).copy_(inputs[name])
        else:
            room.poison()
    clockwork.synchronize()
    given = {name: room.view(0) for name, room in rooms.items()}
    returned = clockwork.launch(side.kernel, sets.arguments(index, given, side.arguments))
    return given | ({} if returned is None else problems.returned_by_name(returned, problems.outputs_of(sets.problem, sets.shape), given))


def _compare(
    when: str, side: str, rooms: Mapping[str, Room | Returned], places: range, expected: Mapping[int, Mapping[str, Any]], against: str,
    allowance: float, bad_atol: float | None,
) -> dict[str, Any]:
    """Errors of the outputs in ``rooms``: those of sets ``start`` and every step of ``places`` behind it, for each ``start`` of ``expected``."""
    elements = nonfinite = bad = unwritten = count = 0
    total = worst = 0.0
    for start, wanted in expected.items():
        rows = len(range(start, places.stop, places.step))
        count += rows
        untouched: Any = True
        for name, room in rooms.items():
            left = room.rows(start, places.step, places.stop)
            untouched &= (left.view(torch.uint8) == 0xFF).reshape(rows, -1).all(dim=1)
            got = left.to(torch.float64)
            want = wanted[name].reshape(-1).to(left.device, torch.float64)
            error = (got - want).abs()
            error[got == want] = 0.0  # an infinity that is asked for
            finite = torch.isfinite(error)
            elements += error.numel()
            nonfinite += int((~finite).sum())
            if bad_atol is not None:
                bad += int((~(error <= allowance * bad_atol)).sum())
            good = error[finite]
            total += float(good.sum())
            worst = max(worst, float(good.max())) if good.numel() else worst
        unwritten += int(untouched.sum()) if rooms else rows
    seen = elements - nonfinite
    return {
        "when": when, "side": side, "against": against, "allowance": allowance, "sets": count, "unwritten_sets": unwritten,
        "nonfinite": nonfinite, "max_abs_err": worst if seen else None, "mean_abs_err": total / seen if seen else None,
        "bad_pct": 100.0 * bad / elements if bad_atol is not None and elements else None,
    }


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """The largest difference between set 0's outputs of two sides; NaN where one has a NaN."""
    apart = [(one[name].view(0).double() - other[name].view(0).double()).abs().max() for name in one]
    return float(torch.stack(apart).max())  # torch's maximum is NaN where one is; Python's may not be
