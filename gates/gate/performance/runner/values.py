"""Draw the input values of a timing run from the problem's generator, and change them before every pair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from gates.task import problem as problems
from gates.task.tensor_digest import digest

POOL = 8  # different input values at any time, spread over the sets


class Values:
    """``slots``: inputs by name for each of up to ``POOL`` seeds; set i holds those of slot (i + round) mod slots.

    Numbers are part of a captured launch and can't change afterwards, so inputs whose numbers depend on the seed stay fixed
    (``refreshed`` is False).
    """

    def __init__(self, problem: Any, shape: Mapping[str, int], count: int, seed: int) -> None:
        self.problem, self.shape, self.round = problem, dict(shape), 0
        self.seeds = [seed + slot for slot in range(min(POOL, count))]
        self.slots = [problem.make_inputs(self.shape, one, "cpu") for one in self.seeds]
        numbers = {name: value for name, value in self.slots[0].items() if not isinstance(value, torch.Tensor)}
        self.refreshed = all(inputs[name] == value for inputs in self.slots for name, value in numbers.items())
        if not self.refreshed:
            self.seeds, self.slots = self.seeds[:1], self.slots[:1]
        self.digest = digest(self.slots[0])
        self.made = problems.outputs_of(problem, self.shape)
        self.in_place = [name for name in getattr(problem, "IN_PLACE", ()) if isinstance(self.slots[0].get(name), torch.Tensor)]

    def refresh(self, number: int) -> dict[str, Any] | None:
        """Draw one slot anew for round ``number``. Return the change for ``Sets.change``, or None if the values must stay."""
        if not self.refreshed:
            return None
        slot, seed = number % len(self.slots), self.seeds[-1] + 1
        self.seeds.append(seed)
        self.slots[slot] = self.problem.make_inputs(self.shape, seed, "cpu")
        self.round = number + 1
        return {"slot": slot, "values": self.slots[slot], "number": self.round}

    def question(self, count: int) -> dict[str, Any]:
        """What ``Hands.do_sets`` is told of ``count`` sets of these values, but for the sides."""
        names = problems.outputs_in_order(self.problem, self.made)
        return {"slots": self.slots, "count": count, "made": self.made, "names": names, "in_place": self.in_place, "shape": self.shape}

    def slot_of(self, index: int) -> int:
        """Return the slot whose values set ``index`` has now."""
        return (index + self.round) % len(self.slots)

    def set_bytes(self, sides: int) -> int:
        """Return the bytes of one set with the outputs of ``sides`` sides."""
        values = [*self.slots[0].values(), *list(self.made.values()) * sides]
        return sum(value.numel() * value.element_size() for value in values if isinstance(value, torch.Tensor))

    def output_bytes(self) -> int:
        """Return the bytes that one launch writes, in-place inputs included; 0 if the kernel allocates its outputs."""
        values = [*self.made.values(), *(self.slots[0][name] for name in self.in_place)]
        return sum(value.numel() * value.element_size() for value in values)
