"""All planted defects, the most telling first where time is short."""

from __future__ import annotations

from defects.contract import LAUNCHERS
from defects.record import Defect
from defects.sdpa import PATCHES

DEFECTS: dict[str, Defect] = {defect.name: defect for defect in (*LAUNCHERS, *PATCHES)}
assert len(DEFECTS) == len(LAUNCHERS) + len(PATCHES), "two defects share a name"

# What must pass: the shipped stages, and the toolbox's own kernel with its baseline.
HONEST = ("stage0_scalar", "stage1_wmma_qk", "stage2_wmma_pv", "stage3_cp_async", "direct", "mix")


def counts_for_cpu(defect: Defect) -> bool:
    """Whether the ``cpu`` profile could see it at all: it is not about speed or a real stream."""
    return not defect.only
