"""Planted defects of the FP16 kernels: the correctness gate on the emulator refuses each."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from conftest import OnceASession
from defects.cheapest import passed
from defects.combined import compile_patched
from defects.fp16 import FP16
from defects.record import Defect

PIPELINE = [defect for defect in FP16 if defect.stage == "fp16_v9_pipeline"]
GROUPS = [PIPELINE[0::2], PIPELINE[1::2]]
CHEAP = [
    defect
    for defect in FP16
    if defect.name.removeprefix("fp16_")
    in (
        "swizzle_of_reads_only",
        "v_not_transposed",
        "causal_hides_the_diagonal",
        "parts_not_weighed",
        "wmma_mask_off_by_one",
        "wmma_alpha_left_out",
    )
]


def honest(defect: Defect) -> Defect:
    """``defect`` with a patch that changes nothing."""
    file, text, _ = defect.edits[0]
    return dataclasses.replace(defect, name=f"honest_{defect.name}", edits=((file, text, text),))


def test_wrong_kernels_of_each_kind_are_caught(kept: OnceASession, tmp_path: Path) -> None:
    library = kept("fp16_defects", lambda folder: compile_patched(CHEAP, folder)) / "patched.so"
    assert len(CHEAP) == 6 and not passed(CHEAP, library, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_a_wrong_pipeline_is_caught_and_the_honest_one_is_not(group: int, tmp_path: Path) -> None:
    right = honest(GROUPS[group][0])
    tried = [right, *GROUPS[group]]
    assert passed(tried, compile_patched(tried, tmp_path / "source"), tmp_path) == [right.name]
