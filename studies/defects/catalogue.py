"""All planted defects, the most telling first where time is short."""

from __future__ import annotations

from defects.contract import LAUNCHERS
from defects.fp8_mma import MMA
from defects.fp16 import FP16
from defects.hopper import HOPPER
from defects.record import Defect
from defects.sdpa import PATCHES

_ALL = (*LAUNCHERS, *PATCHES, *MMA, *FP16, *HOPPER)
DEFECTS: dict[str, Defect] = {defect.name: defect for defect in _ALL}
assert len(DEFECTS) == len(_ALL), "two defects share a name"

# What must pass: the FP8 stages, the FP16 rungs that defects are planted in, and the toolbox's own kernel with its baseline.
HONEST = (
    "stage0_scalar",
    "stage1_wmma_qk",
    "stage2_wmma_pv",
    "stage3_cp_async",
    "stage4_mma",
    "fp16_v7_wmma_pv",
    "fp16_v9_pipeline",
    "fp16_v10_hopper",
    "direct",
    "mix",
)


def counts_for_cpu(defect: Defect) -> bool:
    """Whether the ``cpu`` profile could see it at all: it is not about speed or a real stream."""
    return not defect.only
