"""Whether the outputs that timed launches left behind are right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from gates.run.timing_cuda import Clockwork, Room, Sets, TimedSide


def check(
    when: str, side: TimedSide, sets: Sets, used: int, exact: Mapping[str, Any], baseline: TimedSide | None,
    clockwork: Clockwork, bad_atol: float | None,
) -> list[dict[str, Any]]:
    """Compare the first ``used`` sets' outputs of ``side`` and say how far off they are.

    The inputs of set 0 are held against ``exact``, the problem's reference on them. All other inputs are held
    against a fresh launch of the baseline, where there is one, else against the reference as well.
    Two kernels that are each within a limit may differ by twice the limit.
    """
    starts = range(min(used, sets.slots()))
    rest: dict[int, Mapping[str, Any]] = {}
    for start in starts[1:]:
        if baseline is not None:
            rest[start] = _fresh(baseline, sets, start, clockwork)
        else:
            rest[start] = sets.problem.reference(sets.host_inputs(start), sets.shape)
    against = "reference" if baseline is None else "baseline"
    result = [_compare(when, side.name, sets, used, {0: exact}, "reference", 1.0, bad_atol)]
    # The baseline against itself shows only that it repeats, with no allowance for a second kernel.
    if rest:
        allowance = 2.0 if baseline is not None and baseline.name != side.name else 1.0
        result.append(_compare(when, side.name, sets, used, rest, against, allowance, bad_atol))
    return result


def _fresh(side: TimedSide, sets: Sets, index: int, clockwork: Clockwork) -> dict[str, Any]:
    """Outputs of an untimed launch of ``side`` on the inputs of set ``index``, in buffers of their own."""
    rooms = {name: Room(room.like, 1, sets.device) for name, room in sets.outputs[side.name].items()}
    for room in rooms.values():
        room.raw.fill_(0xFF)
    clockwork.synchronize()
    clockwork.launch(side.kernel, sets.arguments(index, {name: room.view(0) for name, room in rooms.items()}))
    return {name: room.view(0) for name, room in rooms.items()}


def _compare(
    when: str, side: str, sets: Sets, used: int, expected: Mapping[int, Mapping[str, Any]], against: str,
    allowance: float, bad_atol: float | None,
) -> dict[str, Any]:
    elements = nonfinite = bad = unwritten = count = 0
    total = worst = 0.0
    for start, wanted in expected.items():
        rows = len(range(start, used, sets.slots()))
        count += rows
        untouched = torch.ones(rows, dtype=torch.bool, device=sets.device)
        for name, room in sets.outputs[side].items():
            left = room.rows(start, sets.slots(), used)
            untouched &= (left.view(torch.uint8) == 0xFF).reshape(rows, -1).all(dim=1)
            got = left.to(torch.float64)
            want = wanted[name].reshape(-1).to(sets.device, torch.float64)
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
        unwritten += int(untouched.sum())
    seen = elements - nonfinite
    return {
        "when": when, "side": side, "against": against, "allowance": allowance, "sets": count, "unwritten_sets": unwritten,
        "nonfinite": nonfinite, "max_abs_err": worst if seen else None, "mean_abs_err": total / seen if seen else None,
        "bad_pct": 100.0 * bad / elements if bad_atol is not None and elements else None,
    }
