"""Planted defects of the FP16 kernels: the correctness gate on the emulator refuses each."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from defects import cheapest
from defects.combined import compile_patched
from defects.fp16 import FP16
from defects.record import Defect
from fp16_kit import ENTRY

from gates.records import Status

# Tiles in which warps share keys and split them, in two stages: every line that a defect changes is run, on every shape.
TOGGLES = {"TILE_M": 64, "TILE_N": 32, "NUM_WARPS": 4, "STRIPS": 2, "STAGES": 2}
PIPELINE = [defect for defect in FP16 if defect.stage == "fp16_v9_pipeline"]
WMMA = [defect for defect in FP16 if defect.stage != "fp16_v9_pipeline"]
GROUPS = [PIPELINE[0::2], PIPELINE[1::2]]


def honest(defect: Defect) -> Defect:
    """``defect`` with a patch that changes nothing."""
    file, text, _ = defect.edits[0]
    return dataclasses.replace(defect, name=f"honest_{defect.name}", edits=((file, text, text),))


@pytest.mark.slow
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_a_wrong_pipeline_is_caught_and_the_honest_one_is_not(group: int, tmp_path: Path) -> None:
    right = honest(GROUPS[group][0])
    assert passed([right, *GROUPS[group]], tmp_path, **TOGGLES) == [right.name]


def test_a_wrong_wmma_kernel_is_caught(tmp_path: Path) -> None:
    assert not passed(WMMA, tmp_path)


def passed(defects: list[Defect], folder: Path, **toggles: int) -> list[str]:
    """Those of ``defects`` that the correctness gate does not fail."""
    library = compile_patched(defects, folder / "source", **toggles)
    return [
        defect.name for number, defect in enumerate(defects)
        if cheapest.correctness(defect, library, f"{ENTRY}_{number}", folder / defect.name).status is not Status.FAIL
    ]
