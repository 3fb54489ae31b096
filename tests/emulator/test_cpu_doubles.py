"""Products of matrices of doubles on the CPU device: wmma and mma.sync, against numpy's."""

from __future__ import annotations

from pathlib import Path

import cpu_kit
import numpy as np
import pytest
from conftest import OnceASession

from gates.core.errors import GatesError
from gates.emulator.cpu.loading import Launcher

SOURCE = cpu_kit.DATA / "doubles.cu"


@pytest.fixture(scope="module")
def library(kept: OnceASession) -> Path:
    return kept("cpu-doubles", lambda folder: cpu_kit.kernel_library([SOURCE], folder / "doubles.so")) / "doubles.so"


@pytest.mark.parametrize(("entry", "m", "k", "mode"), [("by_wmma", 8, 4, 0), ("by_mma", 16, 4, 4), ("by_mma", 16, 8, 8)])
def test_a_product(library: Path, entry: str, m: int, k: int, mode: int) -> None:
    cpu, random = cpu_kit.device(), np.random.default_rng(m + k)
    a, b, c = random.standard_normal((m, k)), random.standard_normal((k, 8)), random.standard_normal((m, 8))
    out = cpu.empty((m, 8), np.float64)
    Launcher(library, entry)(cpu.array(a), cpu.array(b.T.copy()), cpu.array(c), out, mode)
    assert np.allclose(out.get(), a @ b + c, rtol=1e-14, atol=1e-14) and not cpu.findings()


def test_a_load_past_the_end(library: Path) -> None:
    cpu = cpu_kit.device()
    with pytest.raises(GatesError):
        Launcher(library, "by_wmma")(*(cpu.array(np.ones(size)) for size in (32, 32, 64)), cpu.empty((8, 8), np.float64), 1)
    assert {finding.code for finding in cpu.findings()} == {"cpu.out_of_bounds"}
    assert cpu.findings()[0].where == f"{SOURCE}:{cpu_kit.line_of(SOURCE, '// the second factor')}"
