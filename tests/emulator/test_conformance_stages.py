"""Comparing and storing outputs of stages, on made-up halves; the script without a device."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conformance import stages
from places import ROOT

SCRIPT = ROOT / "studies" / "record_conformance.py"


@pytest.mark.parametrize("command", ["record", "stages"])
def test_without_a_device_nothing_is_written(command: str, tmp_path: Path) -> None:
    argv = [sys.executable, str(SCRIPT), command, "--out", str(tmp_path / "out")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 3 and done.stderr.startswith("error: no CUDA device")
    assert not (tmp_path / "out").is_file() and not list((tmp_path).glob("out/*"))


def halves(*values: float) -> np.ndarray:
    return np.array(values, np.float16).view(np.uint16)


def test_distance_is_counted_in_steps_across_zero() -> None:
    bits = np.array([0x8001, 0x8000, 0, 1, 0x3C00, 0x3C01], np.uint16)
    assert stages.places(bits).tolist() == [-1, 0, 0, 1, 0x3C00, 0x3C01]


def test_agreement_and_its_limits() -> None:
    device = np.tile(halves(0.5, 0.25), 1000)
    exact = np.tile([0.5, 0.25], 1000)
    one_step, far = device.copy(), device.copy()
    one_step[::2] += 1
    far[:3] += 2
    assert stages.passes(stages.compared(device, one_step, exact), 1e-3)
    figures = stages.compared(device, far, exact)
    assert figures["within_1_ulp"] == 1 - 3 / 2000 and figures["largest_ulp"] == 2 and not stages.passes(figures, 1e-3)
    assert not stages.passes(stages.compared(device, one_step, exact), 1e-4), "0.5 and its neighbour are 4.9e-4 apart"


def test_nan_never_agrees() -> None:
    device = halves(0.5, np.nan)
    figures = stages.compared(device, device, np.array([0.5, 0.5]))
    assert figures["equal"] == 0.5 and figures["largest_ulp"] == 65535 and not stages.passes(figures, 1e30)


def test_outputs_survive_storing() -> None:
    base, other = halves(*np.linspace(-3, 3, 500)), halves(*np.linspace(-3, 3, 500))
    other[7] += 1
    assert (stages.decode(stages.encode(base, None), None, 500) == base).all()
    text = stages.encode(other, base)
    assert (stages.decode(text, base, 500) == other).all() and len(text) < 60
