"""Honest launchers in the forms that people write, on the CPU device: right numbers, no finding, in two orders of CTAs and warps."""

from __future__ import annotations

import re
from pathlib import Path

import cpu_kit
import numpy as np
import pytest
from conftest import OnceASession
from places import ROOT

from gates.emulator.cpu.loading import Launcher

HONEST = ROOT / "studies" / "honest"


def entries(source: str) -> list[str]:
    """The launchers of a source."""
    return re.findall(r"^ENTRY\((\w+)\)", (HONEST / source).read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def libraries(kept: OnceASession) -> dict[str, Path]:
    sources = ("rows.cu", "launchers.cu")

    def fill(folder: Path) -> None:
        for source in sources:
            cpu_kit.kernel_library([HONEST / source], folder / f"{source}.so", flags=["-w"])

    return {source: kept("cpu-honest", fill) / f"{source}.so" for source in sources}


@pytest.mark.parametrize("entry", entries("rows.cu"))
def test_sums_of_rows(libraries: dict[str, Path], entry: str) -> None:
    for seed, (rows, columns) in enumerate([(6, 100), (3, 33)]):
        x = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
        cpu = cpu_kit.device(seed=seed)
        out = cpu.empty((rows,), np.float32)
        Launcher(libraries["rows.cu"], entry)(cpu.array(x).protect(), out, rows, columns)
        assert np.allclose(out.get(), x.astype(np.float64).sum(1), atol=1e-5) and not cpu.findings()


@pytest.mark.parametrize("entry", entries("launchers.cu"))
def test_saxpy(libraries: dict[str, Path], entry: str) -> None:
    for seed, n in enumerate([1024, 1000]):
        x, y = np.random.default_rng(seed).standard_normal((2, n)).astype(np.float32)
        cpu = cpu_kit.device(seed=seed)
        out = cpu.empty((n,), np.float32)
        Launcher(libraries["launchers.cu"], entry)(cpu.array(x).protect(), cpu.array(y).protect(), out, n, 2.5)
        assert np.allclose(out.get(), 2.5 * x + y, atol=1e-6) and not cpu.findings()
