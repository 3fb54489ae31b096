"""Texture objects on the CPU device: elements by whole numbers, images by coordinates, and what is outside of them."""

from __future__ import annotations

from pathlib import Path

import cpu_kit
import numpy as np
import pytest
from conftest import OnceASession

from gates.core.errors import GatesError
from gates.emulator.cpu.loading import CpuDevice, Launcher

SOURCE = cpu_kit.DATA / "textures.cu"
X = np.arange(32, dtype=np.float32)
BYTES = np.arange(-16, 16, dtype=np.int8)
WRAP, CLAMP, MIRROR, BORDER = range(4)


@pytest.fixture(scope="module")
def library(kept: OnceASession) -> Path:
    return kept("cpu-textures", lambda folder: cpu_kit.kernel_library([SOURCE], folder / "textures.so", flags=["-w"])) / "textures.so"


@pytest.fixture
def cpu() -> CpuDevice:
    return cpu_kit.device()


def test_elements(library: Path, cpu: CpuDevice) -> None:
    launch, x, out, before = Launcher(library, "elements"), cpu.array(X).protect(), cpu.empty((3, 32), np.float32), cpu.allocated_bytes()
    launch(x, cpu.array(BYTES), out, 0)
    assert out.get().tolist() == [(2 * X).tolist(), BYTES.tolist(), [0.0, *X[:-1]]] and not cpu.findings()
    assert cpu.allocated_bytes() == before + 32
    with pytest.raises(GatesError):
        launch(x, cpu.array(BYTES), out, 1)
    assert [finding.code for finding in cpu.findings()] == ["cpu.not_device_memory"]
    assert cpu.findings()[0].where == f"{SOURCE}:{cpu_kit.line_of(SOURCE, '// reads bytes')}"


def test_elements_that_nothing_wrote(library: Path, cpu: CpuDevice) -> None:
    Launcher(library, "elements")(cpu.array(X), cpu.empty((32,), np.int8), cpu.empty((3, 32), np.float32), 0)
    assert [finding.code for finding in cpu.findings()] == ["cpu.uninitialised_global"]


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(("outside", "right"), [(CLAMP, [7, 7, 7]), (BORDER, [None, None, None]), (WRAP, [0, 1, 2]), (MIRROR, [7, 6, 5])])
def test_an_image(library: Path, cpu: CpuDevice, kind: int, outside: int, right: list[int | None]) -> None:
    if kind == 0 and outside in (WRAP, MIRROR):
        right = [7, 7, 7]  # these need normalised coordinates
    launch, x, halves, out = Launcher(library, "image"), cpu.array(X), cpu.array(X.astype(np.float16)), cpu.empty((4, 8), np.float32)
    before = cpu.allocated_bytes()
    launch(x, halves, out, kind, outside, 3, 0)
    rows = X.reshape(4, 8)
    expected = [[*row[3:], *(0 if column is None else row[column] for column in right)] for row in rows]
    assert out.get().tolist() == expected and not cpu.findings() and cpu.allocated_bytes() == before


def test_a_filter_is_not_supported(library: Path, cpu: CpuDevice) -> None:
    with pytest.raises(GatesError, match="the launcher returned 801"):
        Launcher(library, "image")(cpu.array(X), cpu.array(X.astype(np.float16)), cpu.empty((4, 8), np.float32), 0, CLAMP, 0, 1)
    (found,) = cpu.findings()
    assert found.code == "cpu.unsupported" and found.message == "not supported: textures that interpolate (cudaFilterModeLinear)"
