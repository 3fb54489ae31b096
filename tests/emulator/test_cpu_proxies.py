"""fence.proxy.async on the CPU device: each engine that reads what threads stored, with every honest place of the fence and without it."""

from __future__ import annotations

from pathlib import Path

import cpu_kit
import numpy as np
import pytest
from conftest import OnceASession

from gates.emulator.cpu.loading import CpuDevice, Launcher

SOURCE = cpu_kit.DATA / "proxies.cu"
TEXT = SOURCE.read_text(encoding="utf-8")
READERS, FENCES = ([word.strip() for word in TEXT.split(f"enum {name} {{")[1].split("}")[0].split(",")] for name in ("Reader", "Fence"))
HONEST = ("kWriters", "kIssuer", "kOneWay", "kWarp")
TILE = np.arange(64, dtype=np.float32)


@pytest.fixture(scope="module")
def library(kept: OnceASession) -> Path:
    return kept("cpu-proxies", lambda folder: cpu_kit.kernel_library([SOURCE], folder / "proxies.so", capability="90a")) / "proxies.so"


def read_by(library: Path, reader: str, fence: str, **settings: int) -> tuple[CpuDevice, np.ndarray]:
    cpu = cpu_kit.device(**settings)
    scratch, out = cpu.array(np.zeros(64, np.float32)), cpu.array(np.zeros(64, np.float32))
    Launcher(library, "proxies")(scratch, out, READERS.index(reader), FENCES.index(fence))
    return cpu, out.get()


def honest(reader: str, fence: str) -> bool:
    return fence in HONEST and (reader, fence) != ("kLoad", "kOneWay")  # the fence of one direction is of shared memory alone


@pytest.mark.parametrize("seed", [0, 1, 4])
@pytest.mark.parametrize("reader", READERS)
def test_a_fence_after_the_stores_or_before_the_issue(library: Path, reader: str, seed: int) -> None:
    for fence in (fence for fence in FENCES if honest(reader, fence)):
        cpu, out = read_by(library, reader, fence, seed=seed)
        assert not cpu.findings() and np.array_equal(out, TILE), fence


@pytest.mark.parametrize("seed", [0, 1, 4])
@pytest.mark.parametrize("reader", READERS)
def test_an_engine_that_may_not_see_the_stores(library: Path, reader: str, seed: int) -> None:
    for fence in (fence for fence in FENCES if not honest(reader, fence)):
        (found,) = read_by(library, reader, fence, seed=seed)[0].findings()
        stores = "// fills halves" if fence == "kHalves" else "// fills it"
        wanted = [f"{SOURCE}:{cpu_kit.line_of(SOURCE, text)}" for text in (f";  // {reader}", stores)]
        assert [found.code, found.where, found.other] == ["cpu.no_proxy_fence", *wanted], fence
        assert ("of shared memory" if reader != "kLoad" else "reads global memory") in found.message
