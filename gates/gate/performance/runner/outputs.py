"""Check the outputs that timed launches left, in a process that never loaded the kernels."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from gates.gate.performance.runner.values import Values
from gates.task.reals import reals

SLOTS = 2  # different input values that are looked at after a stage
_REFERENCE_S = 3.0  # a reference that takes longer is computed for one of them
MOST_BYTES = 64 * 2**20  # of one side's outputs that are fetched at a time


class Looked:
    """Hold some sets, drawn at random after the launches, with the exact outputs for their inputs.

    ``indices``: the sets to fetch; ``exact``: for each slot of theirs, the problem's reference. Both sides are looked at alike.
    """

    def __init__(self, values: Values, used: int, set_bytes: int, generator: random.Random) -> None:
        slots = sorted({values.slot_of(index) for index in range(used)})
        generator.shuffle(slots)
        self.exact: dict[int, Mapping[str, Any]] = {}
        started = time.monotonic()
        for slot in slots[:SLOTS]:
            if self.exact and time.monotonic() - started > _REFERENCE_S:
                break
            self.exact[slot] = values.problem.reference(values.slots[slot], values.shape)
        self._slot = {index: values.slot_of(index) for index in range(used) if values.slot_of(index) in self.exact}
        most = max(len(self.exact), MOST_BYTES // max(set_bytes, 1))
        first = [next(index for index in self._slot if self._slot[index] == slot) for slot in self.exact]  # of each slot at least one
        rest = generator.sample(sorted(set(self._slot) - set(first)), max(0, min(len(self._slot), most) - len(first)))
        self.indices = sorted([*first, *rest])

    def wanted(self, indices: Sequence[int]) -> Iterator[Mapping[str, Any]]:
        """Return the exact outputs of each of the sets ``indices``."""
        return (self.exact[self._slot[index]] for index in indices)


def compare(when: str, side: str, rows: Mapping[str, Any], wanted: Sequence[Mapping[str, Any]], bad_atol: float | None) -> dict[str, Any]:
    """Return the errors of ``rows`` (by name, each of [sets, elements], on the CPU) against ``wanted``, the exact outputs of each set."""
    elements = nonfinite = bad = 0
    total = worst = 0.0
    untouched = torch.ones(len(wanted), dtype=torch.bool)
    for name, left in rows.items():
        untouched &= (left.contiguous().view(torch.uint8) == 0xFF).reshape(len(wanted), -1).all(dim=1)
        for got, exact in zip(left, wanted, strict=True):
            got, want = (reals(one).reshape(-1).to(torch.float64) for one in (got, exact[name]))
            error = (got - want).abs_()
            elements += error.numel()
            if error.numel() and not math.isfinite(error.max()):
                error[got == want] = 0.0  # an infinity that is asked for
                error = error[torch.isfinite(error)]
                nonfinite += got.numel() - error.numel()
                bad += got.numel() - error.numel()
            if bad_atol is not None:
                bad += error.numel() - int((error <= bad_atol).sum())
            total += float(error.sum())
            worst = max(worst, float(error.max())) if error.numel() else worst
    seen = elements - nonfinite
    return {
        "when": when,
        "side": side,
        "against": "reference",
        "allowance": 1.0,
        "sets": len(wanted),
        "unwritten_sets": int(untouched.sum()) if rows else len(wanted),
        "nonfinite": nonfinite,
        "max_abs_err": worst if seen else None,
        "mean_abs_err": total / seen if seen else None,
        "bad_pct": 100.0 * bad / elements if bad_atol is not None and elements else None,
    }
