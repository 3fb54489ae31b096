"""Planted defects of the FP16 kernels: the correctness gate on the emulator refuses each."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from defects import cheapest
from defects.combined import compile_patched
from defects.fp16 import FP16
from fp16_kit import ENTRY

from gates.records import Status

# Tiles in which warps share keys and split them, in two stages: every line that a defect changes is run, on every shape.
TOGGLES = {"TILE_M": 32, "TILE_N": 64, "NUM_WARPS": 4, "STRIPS": 1, "STAGES": 2}
PIPELINE = [defect for defect in FP16 if defect.stage == "fp16_v9_pipeline"]
WMMA = [defect for defect in FP16 if defect.stage != "fp16_v9_pipeline"]
GROUPS = [PIPELINE[0::2], PIPELINE[1::2]]


@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_a_wrong_pipeline_is_caught(group: int, tmp_path: Path) -> None:
    assert not passed(GROUPS[group], tmp_path, **TOGGLES)


def test_a_wrong_wmma_kernel_is_caught(tmp_path: Path) -> None:
    assert not passed(WMMA, tmp_path)


def test_the_kernel_without_a_patch_passes_in_the_same_frame(tmp_path: Path) -> None:
    file, text, _ = PIPELINE[0].edits[0]
    honest = dataclasses.replace(PIPELINE[0], edits=((file, text, text),))
    assert passed([honest], tmp_path, **TOGGLES) == [honest.name]


def passed(defects: list, folder: Path, **toggles: int) -> list[str]:
    """Those of ``defects`` that the correctness gate does not fail."""
    library = compile_patched(defects, folder / "source", **toggles)
    return [
        defect.name for number, defect in enumerate(defects)
        if cheapest.correctness(defect, library, f"{ENTRY}_{number}", folder / defect.name).status is not Status.FAIL
    ]
