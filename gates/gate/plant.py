"""Planted faults: what each gate's ``planted`` yields for `gates selftest`.

Every plant goes the whole way from raw text or samples through the gate's own parser and judge.
"""

from __future__ import annotations

from dataclasses import dataclass

from gates.core.records import GateResult, Status

SOUND = "sound evidence"
KERNEL = "selftest_kernel"
CLOSE = {"max_abs_err": 1e-5, "mean_abs_err": 1e-6, "bad_pct": 0.0, "bad_atol": 1e-5}  # limits on errors


@dataclass(frozen=True)
class Outcome:
    """What a gate said to one plant; ``fault`` is ``SOUND`` for a control, which must pass."""

    gate: str
    fault: str
    result: GateResult

    @property
    def sound(self) -> bool:
        """Whether nothing was planted."""
        return self.fault.startswith(SOUND)

    @property
    def refused(self) -> bool:
        """Whether the gate did not let it through."""
        return self.result.status not in (Status.PASS, Status.NOT_APPLICABLE)

    @property
    def good(self) -> bool:
        """Whether the gate did what it must: refuse a fault, pass sound evidence."""
        return self.refused != self.sound
